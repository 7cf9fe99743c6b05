"""gnnc's checkpoints: safetensors with checksums. docs/data.md describes them."""

import json
import os
import struct

import numpy as np

from .names import Mismatch

VERSION = 2


class Checkpoint:
    """A checkpoint in memory: tensors by name, and the progress of its run, which stays as it is."""

    def __init__(self, tensors, progress):
        self.tensors = tensors
        self.progress = progress

    @classmethod
    def read(cls, file):
        """Raises Mismatch if a file is not a checkpoint that this script knows."""
        try:
            with open(file, "rb") as source:
                data = source.read()
            size = struct.unpack("<Q", data[:8])[0]
            header = json.loads(data[8 : 8 + size])
            text = header.pop("__metadata__")["gnnc"]
            about = json.loads(text.partition(" ")[2])
            version = about["progress"]["version"]
        except OSError as error:
            raise Mismatch(f"cannot read {file}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
            raise Mismatch(f"{file} is not a checkpoint of gnnc ({error!r})") from error
        if version != VERSION:
            raise Mismatch(f"{file} has version {version}, but this script reads version {VERSION}")
        tensors = {}
        for name, entry in header.items():
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            tensors[name] = np.frombuffer(data[begin:end], dtype="<f4").reshape(entry["shape"])
        return cls(tensors, about["progress"])

    def parameters(self):
        """Names of the parameters: no states of the optimizer, no histories, no copies of rows."""
        kept = [name for name in self.tensors if ".state_" not in name.rpartition("/")[2]]
        return [name for name in kept if not name.startswith(("history.", "copies."))]

    def write(self, file):
        """Writes the checkpoint with its checksums, beside the file first."""
        blake3 = hashes()
        header, sums, parts, at = {}, {}, [], 0
        for name in sorted(self.tensors):
            array = np.ascontiguousarray(self.tensors[name], dtype="<f4")
            data, shape = array.tobytes(), list(array.shape)
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
            sums[name] = blake3(f'"{name}" F32 {shape}\n'.encode() + data).hexdigest()
            parts.append(data)
            at += len(data)
        about = compact({"progress": self.progress, "checksums": sums})
        metadata = {"gnnc": f"{blake3(about.encode()).hexdigest()} {about}"}
        text = compact({"__metadata__": metadata, **header}).encode()
        text += b" " * (-len(text) % 8)
        beside = f"{file}.part"
        with open(beside, "wb") as target:
            target.writelines([struct.pack("<Q", len(text)), text, *parts])
        os.replace(beside, file)


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def hashes():
    try:
        from blake3 import blake3
    except ImportError as error:
        raise Mismatch("the checksums of a checkpoint need blake3: python3 -m pip install blake3") from error
    return blake3
