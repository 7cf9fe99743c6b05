"""Makes the bundle: binaries, scripts, examples, and what the processor answers."""

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from .trainings import precompute

MOST_BYTES = 64 << 20
# What travels beside the binaries.
FILES = ["scripts/gpu_check", "examples/data/README.md", "docs/gpu.md", "benches/peers/worker.py"]
FOLDERS = {
    "scripts/gpu_checks": ["*.py"],
    "examples": ["*.gir"],
    "examples/data": ["*.npz"],
    "benches/models": ["*.gir"],
    "benches/gpu": ["*.py"],
}


def compiled(root, cargo):
    """Builds the command line, the suite of tests and the benchmark of epochs; their files."""
    command = [*cargo.split(), "build", "--release", "--workspace", "--message-format", "json"]
    command += ["--bin", "gnnc", "--test", "gpu", "--example", "epochs"]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("the build failed")
    made = {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable"):
            target = message["target"]
            made[target["name"], target["kind"][0]] = Path(message["executable"])
    return {"gnnc": made["gnnc", "bin"], "suite": made["gpu", "test"], "epochs": made["epochs", "example"]}


def copy_files(root, folder):
    """Copies what is not compiled; scripts come to the top of the folder."""
    paths = [root / name for name in FILES]
    paths += [path for name, ends in FOLDERS.items() for end in ends for path in sorted((root / name).glob(end))]
    for path in paths:
        inside = path.relative_to(root)
        to = folder / (inside.relative_to("scripts") if inside.parts[0] == "scripts" else inside)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, to)


def build(root, options):
    """Makes the bundle."""
    folder = root / "target" / "gpu_check" / "gnnc-gpu-check"
    made = compiled(root, options.cargo)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, path in made.items():
        shutil.copy2(path, folder / name)
        if shutil.which("strip"):
            subprocess.run(["strip", folder / name], check=False)
    copy_files(root, folder)
    answers = precompute(folder, folder.parent / "answers.json", options.limit)
    shutil.copy2(answers.path, folder / "answers.json")
    archive = folder.with_suffix(".tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    unpacked = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    packed = archive.stat().st_size
    print(f"{archive.relative_to(root)}: {packed / 2**20:.1f} MiB, unpacked {unpacked / 2**20:.1f} MiB")
    if unpacked >= MOST_BYTES:
        sys.exit(f"found {unpacked} bytes unpacked, expected fewer than {MOST_BYTES}; leave data out of FOLDERS")
    return 0
