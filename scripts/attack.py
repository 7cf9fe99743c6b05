#!/usr/bin/env python3
"""Attacks a gnnc binary and says what it did: hostile files, kills, damaged checkpoints, concurrent runs.

    cargo build --release
    python3 scripts/attack.py files          # hostile files: seconds, memory and exit code of each
    python3 scripts/attack.py memory         # every command with little memory
    python3 scripts/attack.py kills          # runs that are killed and resumed: --count 500
    python3 scripts/attack.py checkpoints    # damaged checkpoints: --count 300
    python3 scripts/attack.py concurrent     # runs that share a cache and a checkpoint folder: --count 40
    python3 scripts/attack.py signals        # interrupts, and what is left behind

Prints a table in Markdown and ends with 1 if anything did not hold. Draws come from --seed. Needs Linux.
"""

import argparse
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 2.0  # that something tiny may take
BYTES = 500e6
PATIENCE = 60.0  # after which a run counts as hanging


class Run:
    """A finished process: exit code, output, seconds, peak memory."""

    def __init__(self, command, folder, memory=None, stdin=None):
        def limit():
            if memory:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        environment = {**os.environ, "GNNC_CACHE": str(Path(folder).resolve() / "cache")}
        out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        begun = time.monotonic()
        self.process = subprocess.Popen(
            [str(word) for word in command], cwd=folder, env=environment, preexec_fn=limit,
            stdin=stdin or subprocess.DEVNULL, stdout=out, stderr=err,
        )
        self.hung = False
        while True:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - begun > PATIENCE:
                self.process.kill()
                self.hung = True
            time.sleep(0.002)
        self.process.returncode = 0
        self.seconds = time.monotonic() - begun
        self.code = os.waitstatus_to_exitcode(status)
        self.bytes = usage.ru_maxrss * 1024
        out.seek(0), err.seek(0)
        self.stdout, self.stderr = out.read().decode(errors="replace"), err.read().decode(errors="replace")

    def wrong(self, codes, tiny=True):
        """Why the outcome is not what it should be, or nothing."""
        text = self.stdout + self.stderr
        if self.hung:
            return "hangs"
        if "panicked" in text:
            return "panics"
        if self.code not in codes:
            return f"exit code {self.code}"
        if self.code != 0 and "error" not in text.lower():
            return "no message"
        if tiny and self.seconds > SECONDS:
            return f"{self.seconds:.1f} s"
        if tiny and self.bytes > BYTES:
            return f"{self.bytes / 1e6:.0f} MB"
        return ""


# --- hostile files ---------------------------------------------------------------------------------


def npy(kind, shape, data=b"", fortran=False):
    """A NumPy array."""
    shape = "(" + "".join(f"{n}, " for n in shape) + ")"
    text = f"{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def npz(**arrays):
    """An archive of arrays."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in arrays.items():
            archive.writestr(name + ".npy", data)
    return out.getvalue()


def ring(n, **more):
    """A ring of n vertices with two classes, and further arrays."""
    numbers = lambda kind, values: struct.pack("<" + kind * len(values), *values)  # noqa: E731
    arrays = {
        "indptr": npy("<i8", [n + 1], numbers("q", range(n + 1))),
        "indices": npy("<i4", [n], numbers("i", [(v + 1) % n for v in range(n)])),
        "labels": npy("<i4", [n], numbers("i", [v % 2 for v in range(n)])),
        "features": npy("<f4", [n, 2], numbers("f", [v % 3 for v in range(2 * n)])),
        **{f"{mask}_mask": npy("|b1", [n], bytes(v % 3 == k for v in range(n))) for k, mask in enumerate(["train", "val", "test"])},
    }
    return npz(**{name: data for name, data in {**arrays, **more}.items() if data is not None})


def model(body="let h = x |> gcn_conv(4) |> relu\n  let z = h |> gcn_conv(classes)", graph='"g.npz"', train="epochs = 2"):
    """A model of a graph."""
    return f"graph g = {graph}\n\nmodel m() on g {{\n  {body}\n  loss cross_entropy(z, labels, on = train)\n}}\n\ntrain {{ {train} }}\n"


def sparse(columns, rows=8):
    """Sparse features of very many columns."""
    zeros = npy("<i8", [rows + 1], struct.pack("<" + "q" * (rows + 1), *([0] * rows + [1])))
    return {
        "features": None, "feat_indptr": zeros, "feat_indices": npy("<i4", [1], struct.pack("<i", 0)),
        "feat_data": npy("<f4", [1], struct.pack("<f", 1)), "feat_shape": npy("<i8", [2], struct.pack("<qq", rows, columns)),
    }


def hostile_graphs():
    """Graph files by name."""
    big = 1 << 20
    return {
        "g.npz declares 2^31 feature columns": ring(8, **sparse(1 << 31)),
        "g.npz declares 2^32-1 feature columns": ring(8, **sparse((1 << 32) - 1)),
        "g.npz declares 2^20 feature columns": ring(8, **sparse(1 << 20)),
        "g.npz declares 2^63 feature columns": ring(8, **sparse((1 << 63) - 1)),
        "g.npz: features of shape (8, 2^62)": ring(8, features=npy("<f4", [8, 1 << 62])),
        "g.npz: features of shape (2^40, 0)": ring(8, features=npy("<f4", [1 << 40, 0])),
        "g.npz: labels of 2^31 classes": ring(8, labels=npy("<f4", [0, 1 << 31])),
        "g.npz: a label of 2^31-1": ring(8, labels=npy("<i4", [8], struct.pack("<8i", *[2**31 - 1] * 8))),
        "g.npz: a label of 2^40": ring(8, labels=npy("<i8", [8], struct.pack("<8q", *[2**40] * 8))),
        "g.npz: 300,000 vertices in 3 KB": ring(
            8, indptr=npy("<i8", [300_001], bytes(8 * 300_001)), indices=npy("<i4", [0]), labels=None, features=None,
            train_mask=None, val_mask=None, test_mask=None,
        ),
        "g.npz: 65,535 relations": ring(8, edge_type=npy("<i4", [8], bytes(32)), relations=npy("<i8", [1], struct.pack("<q", 65535))),
        "g.npz: 2^40 relations": ring(8, edge_type=npy("<i4", [8], bytes(32)), relations=npy("<i8", [1], struct.pack("<q", 2**40))),
        "g.npz: 60 MB of zeros": ring(8, indices=npy("<i4", [15_000_000], bytes(60_000_000))),
        "g.npz: 10,000 arrays": npz(**{f"a{n}": npy("<i4", [0]) for n in range(10_000)}),
        "g.npz: truncated": ring(8)[:700],
        "g.npz: empty": b"",
        "g.mtx claims 2^31 rows": b"%%MatrixMarket matrix coordinate pattern general\n2147483648 2147483648 0\n",
        "g.mtx claims 10^9 entries": b"%%MatrixMarket matrix coordinate pattern general\n5 5 1000000000\n1 1\n",
        "g.csv names vertex 4294967290": b"0 4294967290\n",
        "g.csv states 4294967290 vertices": b"# vertices 4294967290\n0 1\n",
        "g.csv: one line of 50 MB": b"1" * 50_000_000,
        "g.graph claims 4,000,000,000 vertices": b"4000000000 0\n",
        "g.csv.gz: 100 MB of new lines": gzip_of(b"\n" * 100_000_000),
        "f.npy of shape (2^60, 1)": npy("<f4", [1 << 60, 1]),
        "g.npz: features (8, 2^20) of 1 KB": ring(8, features=npy("|u1", [8, big], bytes(8 * big))),
    }


def gzip_of(data):
    """Compressed bytes."""
    import gzip
    return gzip.compress(data)


def hostile_models():
    """Model texts by name."""
    repeats = lambda n: "repeat 2 {\n" * n + "h = relu(h)\n" + "}\n" * n  # noqa: E731
    undefined = "\n  ".join(f"let a{n} = b{n}" for n in range(4000))
    return {
        "an identifier of 100 MB": model(f"let {'a' * 100_000_000} = x\n  let z = x"),
        "an identifier of 1 MB": model(f"let {'a' * 1_000_000} = x\n  let z = bb"),
        "100,000 nested repeats": model(f"let h = x\n  {repeats(100_000)}\n  let z = h"),
        "190 nested repeats": model(f"let h = x\n  {repeats(190)}\n  let z = h |> linear(classes)"),
        "4,000 undefined names": model(undefined + "\n  let z = x"),
        "4,000 undefined names in one line": model("let z = " + " + ".join(f"b{n}" for n in range(4000))),
        "200,000 brackets": model("let z = " + "(" * 200_000),
        "4 MB of one comment": "# " + "a" * 4_000_000,
        "4 MB of new lines": "\n" * 4_000_000,
        "repeat of 10^9": model("let h = x\n  repeat 1000000000 {\n    h = relu(h)\n  }\n  let z = h |> linear(classes)"),
        "10 vertices, 10^12 edges": model(graph="{ vertices = 10  edges = 1_000_000_000_000  features = 2  classes = 2 }"),
        "10^15 edges": model(graph="{ vertices = 4_000_000_000  edges = 1_000_000_000_000_000  features = 2  classes = 2 }"),
        "not text": bytes(range(256)),
    }


def files(options, table):
    """Hostile files."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "g.npz").write_bytes(ring(8))
        (folder / "m.gir").write_text(model())
        good = Run([options.gnnc, "train", "m.gir"], folder)
        table.row("a good model and graph", "train", good, good.wrong({0}))
        for what, content in hostile_graphs().items():
            name = what.split()[0].rstrip(":")
            (folder / name).write_bytes(content)
            if name == "f.npy":
                commands = [["graph", "convert", "g.npz", "out.npz", "--features", name]]
            else:
                commands = [["graph", "stats", name], ["check", "m.gir", "--graph", name], ["train", "m.gir", "--graph", name]]
            for command in commands:
                run = Run([options.gnnc, *command], folder)
                table.row(what, " ".join(command[:2] if command[0] == "graph" else command[:1]), run, run.wrong({0, 1}))
            (folder / name).unlink()
            (folder / "g.npz").write_bytes(ring(8))
        for what, content in hostile_models().items():
            (folder / "h.gir").write_bytes(content if isinstance(content, bytes) else content.encode())
            for command in ["check", "fmt", "explain", "train", "plan"]:
                run = Run([options.gnnc, command, "h.gir"], folder)
                table.row(what, command, run, run.wrong({0, 1, 3}, tiny=command != "plan"))
        odd = {"/dev/zero": "/dev/zero", "a pipe": "pipe", "a folder": ".", "/dev/null": "/dev/null"}
        os.mkfifo(folder / "pipe")
        for what, path in odd.items():
            for command in [
                ["check", path], ["fmt", path], ["plan", path], ["train", path], ["diff", path, path], ["trace", "diff", path, path],
                ["graph", "stats", path], ["plan", "m.gir", "--cluster", path], ["plan", "m.gir", "--workload", path],
                ["train", "m.gir", "--resume", path], ["check", "m.gir", "--graph", path],
                ["graph", "convert", "g.npz", "out.npz", "--features", path],
            ]:
                run = Run([options.gnnc, *command], folder)
                table.row(what, " ".join(command[:1] + [word for word in command if word.startswith("--")]), run, run.wrong({0, 1}))
        with open("/dev/zero") as zero:
            run = Run([options.gnnc, "check", "-"], folder, stdin=zero)
            table.row("/dev/zero as standard input", "check -", run, run.wrong({1}))


# --- little memory ---------------------------------------------------------------------------------


def memory(options, table):
    """Every command in address spaces from too small to enough: it works, or says what is lacking with code 2."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        big = "60000"
        generate = ["graph", "generate", "planted", "--vertices", big, "--edges", "600000", "--features", "64", "--classes", "4"]
        made = Run([options.gnnc, *generate, "--out", "g.npz"], folder)
        table.row("a graph of 60,000 vertices", "graph generate", made, made.wrong({0}, tiny=False))
        Run([options.gnnc, "graph", "convert", "g.npz", "g.mtx"], folder)
        Run([options.gnnc, "graph", "convert", "g.npz", "g.csv.gz"], folder)
        (folder / "m.gir").write_text(model())
        Run([options.gnnc, "train", "m.gir", "--checkpoint", "c"], folder)
        commands = [
            ["check", "m.gir"], ["plan", "m.gir", "--gpus", "4"], ["train", "m.gir"], ["train", "m.gir", "--workers", "2"],
            ["train", "m.gir", "--resume", "c", "--epochs", "3"], ["explain", "m.gir"], ["graph", "stats", "g.npz"],
            ["graph", "stats", "g.mtx"], ["graph", "stats", "g.csv.gz"], ["graph", "partition", "g.npz", "--parts", "4"],
            ["graph", "convert", "g.npz", "out.mtx"], [*generate, "--out", "other.npz"], ["devices"],
        ]
        for command in commands:
            outcomes, wrong, slowest = {}, "", None
            for mebibytes in [48, 64, 80, 96, 112, 128, 144, 160, 192, 256, 384, 4096]:
                run = Run([options.gnnc, *command], folder, memory=mebibytes << 20)
                outcomes.setdefault(run.code, []).append(mebibytes)
                # Below what loading the program takes, the system's loader speaks: 127.
                found = run.wrong({0, 2, 127}, tiny=False)
                wrong = wrong or (f"{found} at {mebibytes} MiB" if found else "")
                slowest = max(slowest or run, run, key=lambda one: one.seconds)
            said = "; ".join(f"{code} at {min(sizes)} to {max(sizes)} MiB" for code, sizes in outcomes.items())
            table.row(said, " ".join(command[:3]), slowest, wrong)


# --- kills -----------------------------------------------------------------------------------------


def digest(path):
    """A hash of a file."""
    return hashlib.blake2b(Path(path).read_bytes()).hexdigest()


def kills(options, table):
    """Runs that are killed at any moment and resumed: the last checkpoint has the bytes of a run that nobody killed."""
    draws = random.Random(options.seed)
    example = ROOT / "examples" / "gcn_cora.gir"
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        setups = [("1 worker", ["--workers", "1"]), ("3 workers", ["--workers", "3"]),
                  ("pipeline", ["--workers", "2", "--placement", "pipeline", "--allow", "stale"])]
        for name, words in setups:
            train = [options.gnnc, "train", example, *words, "--epochs", "60", "--checkpoint-every", "1", "--evaluate-every", "20"]
            whole = Run([*train, "--checkpoint", "whole"], folder)
            expected = digest(folder / "whole")
            count, killed, starts, left = options.count // len(setups), 0, 0, 0
            run, wrong = whole, whole.wrong({0}, tiny=False)
            while killed < count and not wrong:
                for path in folder.glob("half*"):
                    path.unlink()
                while True:
                    resume = ["--resume", "half"] if (folder / "half").exists() else []
                    process = subprocess.Popen([str(word) for word in [*train, "--checkpoint", "half", *resume]], cwd=folder,
                                               env={**os.environ, "GNNC_CACHE": str(folder / "cache")},
                                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                    starts += 1
                    try:
                        said = process.communicate(timeout=draws.uniform(0.02, whole.seconds) if killed < count else PATIENCE)[1]
                    except subprocess.TimeoutExpired:
                        process.kill()
                        process.communicate()
                        killed += 1
                        continue
                    if process.returncode != 0:
                        wrong = f"exit code {process.returncode} after {killed} kills: {said.decode()[:200]}"
                    break
                left = max(left, len(list(folder.glob(".half*"))))
                if not wrong and digest(folder / "half") != expected:
                    wrong = f"other bytes after {killed} kills"
                if list(folder.glob(".half*")):
                    wrong = wrong or f"leftovers stay: {list(folder.glob('.half*'))}"
            table.row(f"{killed} kills, {starts} starts", name, run, wrong)


# --- checkpoints -----------------------------------------------------------------------------------


def held(run):
    """A run that has to do what was asked."""
    return run, run.wrong({0})


def checkpoints(options, table):
    """Damaged checkpoints: all are refused, and damaged values with the name of their tensor."""
    draws = random.Random(options.seed)
    example = ROOT / "examples" / "gcn_cora.gir"
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        train = [options.gnnc, "train", example, "--epochs"]
        good = Run([*train, "4", "--checkpoint", "c"], folder)
        table.row("a good checkpoint", "train --resume", *held(Run([*train, "5", "--resume", "c"], folder)))
        whole = (folder / "c").read_bytes()
        header = 8 + struct.unpack("<Q", whole[:8])[0]
        ways = {"a bit of a value flipped": 0, "a bit of the header flipped": 0, "a sector of 512 bytes zeroed": 0,
                "two sectors exchanged": 0, "cut short": 0, "longer": 0}
        counts, named, wrong = dict(ways), 0, dict.fromkeys(ways, "")
        for n in range(options.count):
            way = list(ways)[n % len(ways)]
            bytes_ = bytearray(whole)
            if way == "a bit of a value flipped":
                bytes_[draws.randrange(header, len(whole))] ^= 1 << draws.randrange(8)
            elif way == "a bit of the header flipped":
                bytes_[draws.randrange(header)] ^= 1 << draws.randrange(8)
            elif way == "a sector of 512 bytes zeroed":
                at = draws.randrange(len(whole) // 512) * 512
                bytes_[at:at + 512] = bytes(512)
            elif way == "two sectors exchanged":
                one, two = (header + 512 * draws.randrange((len(whole) - header) // 512) for _ in range(2))
                bytes_[one:one + 512], bytes_[two:two + 512] = bytes_[two:two + 512], bytes_[one:one + 512]
            elif way == "cut short":
                bytes_ = bytes_[:draws.randrange(len(whole))]
            else:
                bytes_ += bytes(draws.randrange(1, 4096))
            if bytes(bytes_) == whole:
                continue
            (folder / "d").write_bytes(bytes_)
            run = Run([*train, "5", "--resume", "d"], folder)
            counts[way] += 1
            wrong[way] = wrong[way] or run.wrong({1}) or ("" if "cannot be used" in run.stderr else run.stderr[:200])
            tells = "tensor `" in run.stderr and "is damaged" in run.stderr
            named += tells
            if way in ("a bit of a value flipped", "two sectors exchanged") and not tells:
                wrong[way] = wrong[way] or "the tensor is not named"
        for way, count in counts.items():
            table.row(f"{count} times {way}", "train --resume", good, wrong[way])
        print(f"\n{named} of {sum(counts.values())} refusals name the tensor", file=sys.stderr)


# --- concurrent runs -------------------------------------------------------------------------------


def concurrent(options, table):
    """Runs at the same time that share a cache and a folder, or one file, of checkpoints."""
    example = ROOT / "examples" / "gcn_cora.gir"
    for what, file in [("one folder of checkpoints", "c{n}"), ("one checkpoint", "c")]:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            words = [options.gnnc, "train", example, "--epochs", "20", "--checkpoint-every", "1"]
            alone = Run([*words, "--checkpoint", "alone"], folder)
            expected = digest(folder / "alone")
            shutil.rmtree(folder / "cache")
            begun = time.monotonic()
            started = [
                subprocess.Popen([str(word) for word in [*words, "--checkpoint", file.format(n=n)]], cwd=folder,
                                 env={**os.environ, "GNNC_CACHE": str(folder / "cache")},
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                for n in range(options.count)
            ]
            errors = [process.communicate()[1].decode() for process in started]
            alone.seconds = time.monotonic() - begun
            failed = [text for process, text in zip(started, errors) if process.returncode != 0]
            refused = [text for text in failed if "in use by another run" in text]
            if "{n}" in file or len(refused) == len(started):
                refused = []
            failed = [text for text in failed if text not in refused]
            wrong = f"{len(failed)} fail: {failed[0][:200]}" if failed else ""
            if not wrong and any(digest(folder / file.format(n=n)) != expected for n in range(options.count)):
                wrong = "other bytes"
            wrong = wrong or ("leftovers" if list(folder.glob(".*part")) + list((folder / "cache").glob(".*part")) else "")
            table.row(f"{options.count} runs with {what}", "train --checkpoint", alone, wrong)


# --- signals ---------------------------------------------------------------------------------------


def signals(options, table):
    """Runs that are asked to end: they write what they have and end within 5 s with the signal's code."""
    example = ROOT / "examples" / "gcn_cora.gir"
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
    for number, code in codes.items():
        for workers in ["1", "3"]:
            with tempfile.TemporaryDirectory() as folder:
                folder = Path(folder)
                words = [options.gnnc, "train", example, "--epochs", "100000000", "--workers", workers, "--checkpoint", "c",
                         "--curve", "curve.csv", "--evaluate-every", "5", "--format", "json"]
                process = subprocess.Popen([str(word) for word in words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                           env={**os.environ, "GNNC_CACHE": str(folder / "cache")})
                time.sleep(1.5)
                process.send_signal(number)
                begun = time.monotonic()
                try:
                    out, err = process.communicate(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    out, err = process.communicate()
                outcome = Outcome(time.monotonic() - begun)
                wrong = "" if process.returncode == code else f"exit code {process.returncode}: {err.decode()[:200]}"
                wrong = wrong or ("late" if outcome.seconds > 5 else "")
                try:
                    summary = json.loads(out)
                    lines = (folder / "curve.csv").read_text().splitlines()
                    wrong = wrong or ("" if summary["epochs"] > 0 and len(lines) > 1 else "no summary or curve")
                    again = Run([*words[:4], str(summary["epochs"] + 1), "--resume", "c"], folder)
                    wrong = wrong or again.wrong({0})
                except (OSError, ValueError, KeyError) as error:
                    wrong = wrong or f"nothing is left: {error!r}"
                table.row(f"{number.name}, {workers} workers", "train", outcome, wrong)


class Outcome:
    """Seconds, as a run has them."""

    def __init__(self, seconds):
        self.seconds, self.bytes, self.code = seconds, 0, ""


class Table:
    """Rows of Markdown, and how many did not hold."""

    def __init__(self):
        self.rows, self.failed = 0, 0
        print("| attack | command | exit code | seconds | MB | outcome |\n| --- | --- | --- | --- | --- | --- |")

    def row(self, attack, command, run, wrong):
        """One row."""
        self.rows += 1
        self.failed += bool(wrong)
        code = "" if ":" in str(attack) and attack[0].isdigit() and "MiB" in attack else run.code
        print(f"| {attack} | `{command}` | {code} | {run.seconds:.2f} | {run.bytes / 1e6:.0f} | {wrong or 'holds'} |", flush=True)


def main():
    """Runs one kind of attack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = {"files": files, "memory": memory, "kills": kills, "checkpoints": checkpoints, "concurrent": concurrent, "signals": signals}
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--gnnc", type=Path, default=ROOT / "target" / "release" / "gnnc", help="the binary")
    parser.add_argument("--count", type=int, default=40, help="how many kills, checkpoints or runs")
    parser.add_argument("--seed", type=int, default=1, help="of the draws")
    options = parser.parse_args()
    options.gnnc = options.gnnc.resolve()
    table = Table()
    kinds[options.kind](options, table)
    print(f"\n{table.rows - table.failed} of {table.rows} rows hold")
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
