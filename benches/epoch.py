#!/usr/bin/env python3
"""An epoch of GNNs beside DGL and PyTorch Geometric on the CPU.

    cargo build --release
    benches/peers/setup.sh              # once: the peers' own environments
    python3 benches/epoch.py            # two layers of GCN, GraphSAGE and GAT; --quick for a look
    python3 benches/epoch.py --models deep --graphs cora,coauthor-like,arxiv-like --hidden 64

For each graph, model, hidden width and number of threads, each peer's variants are tried and its
fastest is kept; then peers and gnnc take turns for some rounds. Prints a markdown table and writes
it, with every measured time, to --out. Needs Python 3.9 and nothing else; a peer that is not
installed is left out, and that is said. docs/benchmarks.md tells what is measured.
"""

import argparse
import itertools
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bound import bound
from graphs import MADE, ROOT, graph_file, say

BENCHES = Path(__file__).resolve().parent
PEERS = {"DGL": (".venv-dgl", "dgl_epoch.py"), "PyG": (".venv-pyg", "pyg_epoch.py")}
GRAPHS, MODELS = ["cora", "computers", "rmat"], ["gcn", "sage", "gat"]
MORE_GRAPHS = ["squirrel", "aifb", *(name for name in MADE if name not in GRAPHS)]
DEEP = ["gcn_3", "sage_3", "gat_3", "gatv2_3", "gin_3", "gcnii_8", "appnp_10", "sgc_3"]
TYPED = ["rgcn_3"]  # on graphs with edge types
MAX_EPOCHS = 100
LONG_EPOCH = 2.0  # seconds; such epochs are not warmed up again, and one is enough for a turn


class Peer:
    """A peer's worker process with a fixed number of threads."""

    def __init__(self, name, threads):
        environment, script = PEERS[name]
        self.name = name
        self.command = [ROOT / environment / "bin/python", "-W", "ignore", BENCHES / "peers" / script]
        self.command += ["--worker", "--threads", str(threads)]
        self.process = None
        self.about = self.ask(op="about")

    def ask(self, **request):
        """The answer to a request; an error is a RuntimeError. A worker that died is replaced."""
        if self.process is None or self.process.poll() is not None:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, text=True)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name}'s worker ended with code {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def epochs(self, row, variant, count, warmup=1):
        """Trains `count` timed epochs of a row, after `warmup` untimed ones."""
        return self.ask(
            op="epochs", graph=row["file"], model=row["model"], hidden=row["hidden"],
            variant=variant, epochs=count, warmup=warmup,
        )  # fmt: skip

    def close(self):
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def gnnc_epochs(gnnc, row, count):
    """Trains an untimed and `count` timed epochs with gnnc, in the shape of a peer's answer."""
    command = [
        gnnc, "bench-epoch", BENCHES / "models" / f"{row['model']}.gir", "--graph", row["file"],
        "--set", f"hidden={row['hidden']}", "--threads", row["threads"], "--epochs", count + 1,
        "--format", "json",
    ]  # fmt: skip
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([str(part) for part in command], stdout=out, stderr=errors, text=True)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise RuntimeError(f"gnnc: {errors.read().strip()[-300:]}")
        answer = json.load(out)
    times = answer["epoch_seconds"][1:]  # the first one fills caches and memory
    return {
        "epoch_seconds": times, "median": statistics.median(times), "losses": answer["losses"][:3],
        "peak_bytes": used.ru_maxrss << 10,
    }  # fmt: skip


def choose_variant(peer, row, refused):
    """(variant, seconds) of a peer's fastest way to run a row, or None."""
    tried = {}
    for variant in peer.ask(op="variants", graph=row["file"], model=row["model"])["variants"]:
        try:
            first = peer.epochs(row, variant, 1, warmup=0)["median"]
            # A second look, with warm caches, only where it is cheap.
            again = peer.epochs(row, variant, 5)["median"] if first < 0.5 else first
            tried[variant] = min(first, again)
        except RuntimeError as error:
            refused.append(f"{peer.name} {variant}, {title(row)}: {error}")
    if not tried:
        return None
    best = min(tried, key=tried.get)
    row["tried"][peer.name] = tried
    return best, tried[best]


def title(row):
    """A row in words."""
    return f"{row['graph']} {row['model']} {row['hidden']}, {threads_in_words(row['threads'])}"


def threads_in_words(count):
    """1 thread, 2 threads."""
    return f"{count} thread{'' if count == 1 else 's'}"


def measure(row, peers, options, refused):
    """Runs peers and gnnc in turns; fills the row's medians."""
    start = time.monotonic()
    runners = {}
    for peer in peers:
        chosen = choose_variant(peer, row, refused)
        if chosen:
            variant, seconds = chosen
            row["variants"][peer.name] = variant
            warmup = 0 if seconds > LONG_EPOCH else 1
            runners[peer.name] = (lambda n, p=peer, v=variant, w=warmup: p.epochs(row, v, n, w)), seconds
    if not options.no_gnnc:
        try:
            runners["gnnc"] = (lambda n: gnnc_epochs(options.gnnc, row, n)), gnnc_epochs(options.gnnc, row, 2)["median"]
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            refused.append(f"gnnc, {title(row)}: {error}")
    left = max(options.row_seconds - (time.monotonic() - start), 0)
    each = min(options.turn_seconds, left / max(len(runners) * options.rounds, 1))
    order = list(runners)
    for turn in range(options.rounds):
        # A different one goes first each round.
        for name in order[turn % len(order) :] + order[: turn % len(order)] if order else []:
            run, guess = runners[name]
            least = 1 if guess > LONG_EPOCH else options.least
            count = max(least, min(MAX_EPOCHS, math.ceil(each / max(guess, 1e-6)) - 1))
            try:
                answer = run(count)
            except RuntimeError as error:
                refused.append(f"{name}, {title(row)}: {error}")
                continue
            row["rounds"].setdefault(name, []).append(answer)
    for name, answers in row["rounds"].items():
        row["median"][name] = statistics.median(t for a in answers for t in a["epoch_seconds"])
        row["peak"][name] = max((a.get("peak_bytes") or 0) for a in answers)
    peer_medians = {name: m for name, m in row["median"].items() if name in PEERS}
    if peer_medians:
        row["best_peer"] = min(peer_medians, key=peer_medians.get)
        if "gnnc" in row["median"]:
            row["ratio"] = row["median"]["gnnc"] / peer_medians[row["best_peer"]]
    fastest = row["median"].get("gnnc", peer_medians.get(row.get("best_peer")))
    if fastest and row.get("bound"):
        row["over_bound"] = fastest / row["bound"]


def milliseconds(seconds):
    """Three significant digits."""
    if seconds is None:
        return "–"
    ms = seconds * 1e3
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def table(rows):
    """The markdown table."""
    lines = [
        "| graph | model | hidden | threads | gnnc ms | DGL ms | PyG ms | gnnc / best | MiB gnnc, DGL, PyG | peers' variants | bound ms | x of bound |",
        "| --- | --- | --: | --: | --: | --: | --: | --: | --- | --- | --: | --: |",
    ]
    for row in rows:
        cells = [row["graph"], row["model"], row["hidden"], row["threads"]]
        cells += [milliseconds(row["median"].get(name)) for name in ("gnnc", "DGL", "PyG")]
        cells.append(f"{row['ratio']:.2f}" if "ratio" in row else "–")
        cells.append(", ".join(f"{row['peak'][n] / 2**20:.0f}" if row["peak"].get(n) else "–" for n in ("gnnc", "DGL", "PyG")))
        cells.append(", ".join(f"{name} {variant}" for name, variant in row["variants"].items()) or "–")
        cells.append(milliseconds(row.get("bound")))
        whose = "" if "gnnc" in row["median"] else f" ({row.get('best_peer')})"
        cells.append(f"{row['over_bound']:.1f}{whose}" if "over_bound" in row else "–")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def closing(rows):
    """What the table shows, in sentences."""
    lines = []
    compared = [row for row in rows if "ratio" in row]
    if compared:
        slow = [title(row) for row in compared if row["ratio"] > 1]
        geometric = math.exp(statistics.fmean(math.log(row["ratio"]) for row in compared))
        lines.append(
            f"gnnc / best peer: geometric mean {geometric:.2f} over {len(compared)} rows; "
            + (f"slower in {len(slow)}: {'; '.join(slow)}." if slow else "slower in none.")
        )
    bounded = [row for row in rows if "over_bound" in row and "gnnc" in row["median"]]
    if bounded:
        far = max(bounded, key=lambda row: row["over_bound"])
        lines.append(f"Furthest from the bound: {title(far)}, {far['over_bound']:.1f} x.")
    return "\n".join(lines)


def write(report, out):
    """Writes OUT.json and OUT.md; the text of the latter."""
    facts = [f"{cpu_name()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d', time.gmtime())}."]
    for threads, found in report["machines"].items():
        copy, gemm = found["copy_bytes_per_second"] / 1e9, found["gemm_flops_per_second"] / 1e9
        facts.append(f"{threads_in_words(threads)}: copy {copy:.1f} GB/s, GEMM {gemm:.0f} GFLOP/s.")
    for name, about in report["versions"].items():
        sparse = "" if about.get("torch_sparse", True) else ", without torch_sparse"
        facts.append(f"{name} {about['version']} (torch {about['torch']}{sparse}).")
    text = "\n\n".join(filter(None, [" ".join(facts), table(report["rows"]), closing(report["rows"])]))
    if report["refused"]:
        text += "\n\nDid not run:\n" + "\n".join(f"- {line}" for line in report["refused"])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".md").write_text(text + "\n")
    out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    return text


def cpu_name():
    """The processor's name, where the system tells it."""
    try:
        found = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found.group(1) if found else platform.processor() or platform.machine()


def options_of(arguments):
    """Reads the command line."""
    numbers = lambda text: [int(n) for n in text.split(",")]  # noqa: E731
    names = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=names, default=GRAPHS, help=f"of {','.join(GRAPHS + MORE_GRAPHS)}")
    parser.add_argument("--models", type=names, default=MODELS, help=f"of {','.join(MODELS + DEEP + TYPED)}; deep for {','.join(DEEP)}")
    parser.add_argument("--hidden", type=numbers, default=[16, 64, 256])
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--rows", default="", help="regular expression on 'graph model hidden threads'")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each runner")
    parser.add_argument("--turn-seconds", type=float, default=2, help="wanted length of a turn")
    parser.add_argument("--row-seconds", type=float, default=60, help="wanted limit of a row")
    parser.add_argument("--quick", action="store_true", help="2 rounds of half a second")
    parser.add_argument("--gnnc", type=Path, default=ROOT / "target" / "release" / "gnnc", help="the binary")
    parser.add_argument("--no-gnnc", action="store_true", help="peers alone")
    parser.add_argument("--no-peers", action="store_true", help="gnnc alone; no bound either")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "bench" / "epoch", help="path without extension")
    options = parser.parse_args(arguments)
    options.models = [n for name in options.models for n in (DEEP if name == "deep" else [name])]
    graphs, models = GRAPHS + MORE_GRAPHS, MODELS + DEEP + TYPED
    if unknown := set(options.graphs) - set(graphs) | set(options.models) - set(models):
        parser.error(f"unknown {', '.join(sorted(unknown))}; graphs are {graphs}, models {models}")
    options.least = 3
    if options.quick:
        options.rounds, options.turn_seconds, options.least = 2, 0.5, 2
    return options


def main(arguments):
    """Runs every row; 1 if a row has gnnc slower than the best peer, 2 if nothing could run."""
    options = options_of(arguments)
    files = {name: graph_file(name, options.gnnc) for name in options.graphs}
    installed = [] if options.no_peers else list(PEERS)
    for name in list(installed):
        if not (ROOT / PEERS[name][0] / "bin" / "python").exists():
            say(f"{name}: left out, not installed; run benches/peers/setup.sh")
            installed.remove(name)
    if not options.no_gnnc and not options.gnnc.exists():
        say(f"gnnc: left out, no {options.gnnc}; run 'cargo build --release'")
        options.no_gnnc = True
    plan = [
        {"graph": graph, "model": model, "hidden": hidden, "threads": threads}
        for threads, graph, model, hidden in itertools.product(
            options.threads, (n for n in options.graphs if files[n]), options.models, options.hidden
        )
        if re.search(options.rows, f"{graph} {model} {hidden} {threads}")
    ]
    report = {"machines": {}, "versions": {}, "rows": [], "refused": []}
    rows = report["rows"]
    # The peers of one number of threads at a time, so that few processes hold memory.
    for threads, group in itertools.groupby(plan, key=lambda row: row["threads"]):
        peers = [Peer(name, threads) for name in installed]
        report["versions"].update({peer.name: peer.about for peer in peers})
        if peers:
            report["machines"][threads] = peers[0].ask(op="machine")
        for row in group:
            file = str(files[row["graph"]])
            row.update(file=file, tried={}, variants={}, rounds={}, median={}, peak={})
            if peers:
                sizes = peers[0].ask(op="describe", graph=file)
                least = bound(row["model"], row["hidden"], sizes, report["machines"][threads])
                row["bound"], row["bound_bytes"], row["bound_flops"] = least
            measure(row, peers, options, report["refused"])
            rows.append(row)
            times = ", ".join(f"{n} {milliseconds(m)} ms" for n, m in row["median"].items())
            say(f"{title(row)}: {times or 'nothing ran'}")
            write(report, options.out)  # what is there, should the rest be interrupted
        for peer in peers:
            peer.close()
    graphs, models = GRAPHS + MORE_GRAPHS, MODELS + DEEP + TYPED
    rows.sort(key=lambda r: (graphs.index(r["graph"]), models.index(r["model"]), r["hidden"], r["threads"]))
    print(write(report, options.out))
    if not any(row["median"] for row in rows):
        return 2
    return 1 if any(row.get("ratio", 0) > 1 for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
