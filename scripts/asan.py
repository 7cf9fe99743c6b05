#!/usr/bin/env python3
"""Runs gnnc under AddressSanitizer: every example, every placement on several workers, and hostile files.

    scripts/asan.py                       # builds and runs everything; half an hour on two cores, most of it building
    scripts/asan.py --only 'gcn_cora|hostile' --epochs 1
    scripts/asan.py --build-only

Python 3.9 or newer, no packages. The build has a folder of its own, target/asan, and needs what the compiler ships for
sanitizers, which stable compilers have too (RUSTC_BOOTSTRAP=1 permits the option). Code of Rust and what it calls is
checked; generated kernels are not: tests/differential/checked.rs trains with kernels that check themselves. Prints a line
for each case, and the number of reports; exit code 1 if there are any, or if a case fails otherwise.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRIPLE = "x86_64-unknown-linux-gnu"
FOLDER = ROOT / "target" / "asan"
# Each placement with a model that it is meant for, and what else it asks for.
PLACEMENTS = {
    "graph": ("gat_cora.gir", []),
    "tensor": ("gcn_8_squirrel.gir", []),
    "broadcast": ("sage_cora.gir", []),
    "mixed": ("gat_ppr_squirrel.gir", []),
    "push-pull": ("gat_ppr_citeseer.gir", []),
    "tensor-decoupled": ("gcn_cora.gir", ["--allow", "decouple"]),
    "pipeline": ("gcn_8_squirrel.gir", ["--allow", "stale", "--stages", "2", "--chunks", "4"]),
    "hybrid": ("gcn_8_squirrel.gir", ["--allow", "stale", "--stages", "2", "--chunks", "4"]),
    "skip-broadcast": ("gcn_cora.gir", ["--allow", "stale", "--skip", "adaptive:1/cut"]),
}
# Test binaries: the package, the test and what of it runs.
TESTS = [("gnnc-graph", "hostile", ""), ("gnnc", "cli", "bad_input::")]
REPORT = re.compile(r"(ERROR|SUMMARY): (Address|Leak)Sanitizer[^\n]*")


def environment():
    """Variables of a build that is checked."""
    flags = {"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": "-Zsanitizer=address"}
    return {**os.environ, **flags}


def cargo(words):
    """Runs cargo, in the sanitizer's folder; its messages."""
    command = [os.environ.get("CARGO", "cargo"), *words, "--release", "--target", TRIPLE, "--target-dir", str(FOLDER)]
    command += ["--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit("the build failed; see above")
    return [json.loads(line) for line in built.stdout.splitlines()]


def build():
    """The program, and each test binary."""
    packages = sorted({package for package, _, _ in TESTS})
    words = ["test", "--no-run"]
    for package in packages:
        words += ["-p", package]
    for _, test, _ in TESTS:
        words += ["--test", test]
    binaries = {}
    for message in cargo(words):
        if message.get("executable"):
            binaries[message["target"]["name"]] = message["executable"]
    for path in binaries.values():
        if b"__asan_init" not in Path(path).read_bytes():
            sys.exit(f"{path} was built without AddressSanitizer")
    return binaries


def cases(binaries, epochs, folder):
    """Names and commands."""
    gnnc = binaries["gnnc"]
    for path in sorted((ROOT / "examples").glob("*.gir")):
        # A graph that is statistics only can be planned for, not trained on.
        if ".npz" not in path.read_text():
            yield f"plan {path.name}", [gnnc, "plan", path, "--gpus", "8"]
        else:
            yield f"train {path.name}", [gnnc, "train", path, "--epochs", epochs]
    for placement, (model, more) in PLACEMENTS.items():
        workers = {"pipeline": ["2"], "hybrid": ["4"]}.get(placement, ["2", "4"])
        for count in workers:
            command = [gnnc, "train", ROOT / "examples" / model, "--epochs", epochs, "--workers", count]
            yield f"{placement} x {count}, {model}", [*command, "--placement", placement, *more]
    checkpoint = folder / "model.safetensors"
    train = [gnnc, "train", ROOT / "examples/gcn_cora.gir", "--epochs", epochs]
    yield "write a checkpoint", [*train, "--checkpoint", checkpoint]
    yield "resume", [*train[:-1], str(2 * int(epochs)), "--checkpoint", checkpoint, "--resume", checkpoint]
    for package, test, part in TESTS:
        yield f"test {package} {test} {part}".strip(), [binaries[test], "--test-threads", "2", part]


def run(name, command):
    """Runs a case; what it reports, and why it failed otherwise."""
    # Tests look for files in the folder of their package.
    folder = ROOT / "graph" if "gnnc-graph" in name else ROOT
    options = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:detect_stack_use_after_return=1"}
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env={**os.environ, **options}, capture_output=True, text=True
    )
    text = done.stdout + done.stderr
    reports = [match.group(0) for match in REPORT.finditer(text)]
    failed = done.returncode != 0
    if reports or failed:
        print(text[-4000:], file=sys.stderr)
    return reports, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression on the names of cases")
    parser.add_argument("--epochs", default="2", help="of each training run")
    parser.add_argument("--build-only", action="store_true")
    options = parser.parse_args()
    binaries = build()
    if options.build_only:
        return
    total, reports, failures = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, command in cases(binaries, options.epochs, Path(folder)):
            if not re.search(options.only, name):
                continue
            found, failed = run(name, command)
            total += 1
            reports += len(found)
            failures += failed
            outcome = found[0] if found else "failed" if failed else "ok"
            print(f"{name}: {outcome}", flush=True)
    print(f"{total} cases, {reports} reports, {failures} failures")
    sys.exit(1 if reports or failures or total == 0 else 0)


if __name__ == "__main__":
    main()
