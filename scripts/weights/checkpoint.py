"""gnnc's checkpoints: safetensors with checksums. docs/data.md describes them."""

import json
import os
import struct

import numpy as np

try:
    from blake3 import blake3
except ImportError:
    # Exports do without; they then check no checksums.
    blake3 = None

from .names import Mismatch

VERSION = 2


class Checkpoint:
    """A checkpoint in memory: tensors by name, and the progress of its run, which stays as it is."""

    def __init__(self, tensors, progress):
        self.tensors = tensors
        self.progress = progress

    @classmethod
    def read(cls, file):
        """Raises Mismatch if a file is not a checkpoint that this script knows, or is damaged."""
        try:
            with open(file, "rb") as source:
                data = source.read()
            size = struct.unpack("<Q", data[:8])[0]
            header = json.loads(data[8 : 8 + size])
            sum_of_about, _, text = header.pop("__metadata__")["gnnc"].partition(" ")
            about = json.loads(text)
            version = about["progress"]["version"]
            tensors = {}
            for name, entry in header.items():
                begin, end = (8 + size + offset for offset in entry["data_offsets"])
                tensors[name] = np.frombuffer(data[begin:end], dtype="<f4").reshape(entry["shape"])
        except OSError as error:
            raise Mismatch(f"cannot read {file}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
            raise Mismatch(f"{file} is not a checkpoint of gnnc, or is cut short ({error!r})") from error
        if version != VERSION:
            raise Mismatch(f"{file} has version {version}, but this script reads version {VERSION}")
        sums = {name: checksum(name, array) for name, array in tensors.items()}
        if blake3 and (sum_of_about != of_text(text) or sums != about["checksums"]):
            raise Mismatch(f"{file} is damaged: wrong checksum")
        return cls(tensors, about["progress"])

    def parameters(self):
        """Names of the parameters: no states of the optimizer, no histories, no copies of rows."""
        kept = [name for name in self.tensors if ".state_" not in name.rpartition("/")[2]]
        return [name for name in kept if not name.startswith(("history.", "copies."))]

    def write(self, file):
        """Writes the checkpoint with its checksums, beside the file first."""
        if not blake3:
            raise Mismatch("the checksums of a checkpoint need blake3: python3 -m pip install blake3")
        header, sums, parts, at = {}, {}, [], 0
        for name in sorted(self.tensors):
            array = self.tensors[name]
            data = array.astype("<f4").tobytes()
            header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + len(data)]}
            sums[name] = checksum(name, array)
            parts.append(data)
            at += len(data)
        about = compact({"progress": self.progress, "checksums": sums})
        text = compact({"__metadata__": {"gnnc": f"{of_text(about)} {about}"}, **header}).encode()
        text += b" " * (-len(text) % 8)
        beside = f"{file}.part"
        with open(beside, "wb") as target:
            target.writelines([struct.pack("<Q", len(text)), text, *parts])
        os.replace(beside, file)


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def of_text(text):
    """The checksum of a text, if there is blake3."""
    return blake3(text.encode()).hexdigest() if blake3 else None


def checksum(name, array):
    """The checksum of a tensor: of its name, type, shape and bytes."""
    about = f'"{name}" F32 {list(array.shape)}\n'
    return blake3(about.encode() + array.astype("<f4").tobytes()).hexdigest() if blake3 else None
