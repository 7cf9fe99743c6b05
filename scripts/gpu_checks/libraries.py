"""NVIDIA's libraries of one place, by links in one folder that comes first in the loader's path.

gnnc loads libraries by path, but cuBLAS asks for cuBLASLt by name, and names without a version win: with a
toolkit in the loader's path the two would be of different versions.
"""

import os
import shutil
import site
import sys
from pathlib import Path

WHEELS = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", "nvidia/cuda_runtime/lib", "nvidia/cublas/lib", "nvidia/nccl/lib"]
# Libraries that must be of one version, and so come from one place.
FAMILIES = [["libnvrtc", "libnvrtc-builtins"], ["libcublas", "libcublasLt"], ["libnccl"]]


def folders(named):
    """Places that may hold all of a family: the named folder, then the packages of this Python."""
    packages = [*site.getsitepackages(), site.getusersitepackages()]
    found = []
    for place in map(Path, [named, *packages] if named else packages):
        inside = sorted(place.glob("lib/python3.*/*-packages"))
        found += [packages / wheel for packages in (place, *inside) for wheel in WHEELS]
        found += [place / "lib64", place / "lib", place]
    return [folder for folder in found if folder.is_dir()]


def versions(folder, library):
    """Files of a library, the shortest version first: `libcublas.so.13` before `libcublas.so.13.1.2`."""
    return sorted(folder.glob(f"{library}.so*"), key=lambda path: (len(path.name.split(".")), path.name))


def link(to, named):
    """Makes links to the first complete family of each kind; returns the folder, or None if there is none."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for family in FAMILIES:
        for folder in folders(named):
            found = {library: versions(folder, library) for library in family}
            if not found[family[0]]:
                continue
            if family[0] == "libcublas" and not found["libcublasLt"]:
                continue
            for library, files in found.items():
                for file in files:
                    (to / file.name).symlink_to(file.resolve())
                plain = to / f"{library}.so"
                if files and not plain.is_symlink():
                    plain.symlink_to(files[0].resolve())
            break
    return to if any(to.iterdir()) else None


def environment(to, named):
    """The environment of all processes of a check."""
    found = {**os.environ, "GNNC_CUDA_LIBRARIES": named or os.environ.get("GNNC_CUDA_LIBRARIES", sys.prefix)}
    links = link(to, found["GNNC_CUDA_LIBRARIES"])
    if links:
        before = found.get("LD_LIBRARY_PATH")
        found["LD_LIBRARY_PATH"] = f"{links}:{before}" if before else str(links)
    return found
