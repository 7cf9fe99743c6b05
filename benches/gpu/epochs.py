#!/usr/bin/env python3
"""Full training epochs on a GPU beside PyTorch (cuSPARSE) and PyTorch Geometric.

    python3 benches/gpu/epochs.py            # every row; --quick for a look at the small graph

GCN, GraphSAGE and GAT of 2 and 3 layers, hidden 64 and 256, no dropout. gnnc and the peer's fastest
way take turns on the same GPU; printed are the medians of one run, their ratio and peak memory.
Needs PyTorch with CUDA, and takes PyTorch Geometric where it is installed. Writes OUT.md and
OUT.json.
"""

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path

from common import BENCHES, GRAPHS, ROOT, Lines, gnnc_binary, graph_file, median, milliseconds, say, table, write

MODELS = ["gcn", "sage", "gat"]


def gnnc_epochs(binary, row, count, device):
    """Trains an untimed and `count` timed epochs with gnnc."""
    name = row["model"] + ("" if row["layers"] == 2 else f"_{row['layers']}")
    command = [
        binary, "bench-epoch", BENCHES / "models" / f"{name}.gir", "--graph", row["file"], "--set",
        f"hidden={row['hidden']}", "--device", device, "--epochs", count + 1, "--format", "json",
    ]  # fmt: skip
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        message = done.stdout.strip() or done.stderr.strip()
        try:
            message = json.loads(message)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            pass
        raise RuntimeError(message[-300:])
    answer = json.loads(done.stdout)
    return {"epoch_seconds": answer["epoch_seconds"][1:], "peak_bytes": answer["peak_memory_bytes"]}


def peer_epochs(peer, row, variant, count):
    """The same by the peer."""
    wanted = {key: row[key] for key in ("model", "hidden", "layers")}
    return peer.ask(op="epochs", graph=str(row["file"]), variant=variant, epochs=count, **wanted)


def fastest(peer, row):
    """The peer's fastest way, or None."""
    found = {}
    for variant in peer.ask(op="variants", model=row["model"])["variants"]:
        try:
            found[variant] = median(peer_epochs(peer, row, variant, 3)["epoch_seconds"])
        except RuntimeError as error:
            say(f"{variant}, {row['graph']} {row['model']} {row['hidden']} x {row['layers']}: {error}")
    return min(found, key=found.get) if found else None


def measure(binary, peer, row, options):
    """Fills a row: turns of gnnc and the peer."""
    runs = {"gnnc": lambda: gnnc_epochs(binary, row, options.epochs, options.device)}
    chosen = fastest(peer, row) if peer else None
    if chosen:
        row["variant"] = chosen
        runs["peer"] = lambda: peer_epochs(peer, row, chosen, options.epochs)
    for turn in range(options.turns):
        for name in list(runs)[:: 1 if turn % 2 == 0 else -1]:
            try:
                answer = runs[name]()
            except RuntimeError as error:
                say(f"{name}, {row['graph']} {row['model']}: {error}")
                continue
            row["seconds"].setdefault(name, []).extend(answer["epoch_seconds"])
            row["peak"][name] = answer["peak_bytes"]


def line(row):
    """Cells of the table."""
    own, other = (median(row["seconds"].get(name, [])) for name in ("gnnc", "peer"))
    memory = [f"{row['peak'][name] / 2**30:.2f}" if name in row["peak"] else "–" for name in ("gnnc", "peer")]
    ratio = f"{own / other:.2f}" if own and other else "–"
    name = f"{row['model']} {row['layers']} x {row['hidden']}"
    return [row["graph"], name, milliseconds(own), milliseconds(other), ratio, *memory, row.get("variant", "–")]


def main(arguments):
    """Runs every row; 2 if nothing could run."""
    numbers = lambda text: [int(n) for n in text.split(",")]  # noqa: E731
    names = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=names, default=list(GRAPHS))
    parser.add_argument("--models", type=names, default=MODELS)
    parser.add_argument("--hidden", type=numbers, default=[64, 256])
    parser.add_argument("--layers", type=numbers, default=[2, 3])
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="the small graph, hidden 64, 2 layers")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--folder", type=Path, default=ROOT / "target" / "bench", help="where graphs are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "bench" / "gpu-epochs")
    options = parser.parse_args(arguments)
    if options.quick:
        options.graphs, options.hidden, options.layers, options.turns = ["twitter-like"], [64], [2], 1
    binary = gnnc_binary()
    peer = Lines([sys.executable, "-W", "ignore", Path(__file__).parent / "peer.py"])
    try:
        about = peer.ask(op="about")
    except RuntimeError as error:
        say(f"the peer is left out: {error}")
        peer, about = None, {}
    rows = []
    for graph in options.graphs:
        file = graph_file(graph, binary, options.folder)
        for model, layers, hidden in itertools.product(options.models, options.layers, options.hidden):
            if not file:
                continue
            row = {"graph": graph, "file": str(file), "model": model, "layers": layers, "hidden": hidden}
            row.update(seconds={}, peak={})
            measure(binary, peer, row, options)
            rows.append(row)
            say(" ".join(map(str, line(row))))
    if not any(row["seconds"].get("gnnc") for row in rows):
        return 2
    head = ["graph", "model", "gnnc ms", "peer ms", "gnnc / peer", "gnnc GiB", "peer GiB", "peer's way"]
    versions = ", ".join(f"{name} {version}" for name, version in about.items() if version)
    text = f"{versions}\n\n{table(head, [line(row) for row in rows])}"
    write(options.out, text, {"about": about, "rows": rows})
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
