#!/usr/bin/env python3
"""Full training epochs on a GPU beside PyTorch (cuSPARSE) and PyTorch Geometric.

    python3 benches/gpu/epochs.py            # every row; --quick for a look at the small graph

GCN, GraphSAGE and GAT of 2 and 3 layers, hidden 64 and 256, no dropout. gnnc trains between two
turns of the peer's fastest way on the same GPU; printed are the medians of one run, their ratio and peak memory.
Neither keeps memory while the other trains. A row fails where gnnc moved bytes from or to the host: it would
measure PCIe. Needs PyTorch with CUDA, and takes PyTorch Geometric where it is installed. Writes OUT.md and
OUT.json after every row; code 1 if a row failed, 2 if nothing could run.
"""

import argparse
import itertools
import sys
from pathlib import Path

from common import BENCHES, GRAPHS, ROOT, Lines, binary, gnnc_binary, graph_file, median, milliseconds, say, table, write

MODELS = ["gcn", "sage", "gat"]


HEAD = ["graph", "model", "gnnc ms", "peer ms", "gnnc / peer", "gnnc GiB", "peer GiB", "peer's way", "failed"]


def gnnc_epochs(gnnc, row, count):
    """Trains an untimed and `count` timed epochs with gnnc."""
    name = row["model"] + ("" if row["layers"] == 2 else f"_{row['layers']}")
    model = str(BENCHES / "models" / f"{name}.gir")
    answer = gnnc.ask(model=model, hidden=row["hidden"], epochs=count)
    row["set_up_seconds"] = answer["set_up_seconds"]
    if answer["moved_bytes"] or answer["host_bytes"]:
        moved, host = answer["moved_bytes"], answer["host_bytes"]
        raise RuntimeError(f"an epoch moved {moved} bytes between host and device, {host} rest on the host; expected none")
    return answer


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


def turn(row, name, run):
    """A turn; what it says if it fails is the row's."""
    try:
        answer = run()
    except RuntimeError as error:
        row["failed"] = f"{name}: {error}"[:300]
        return
    row["seconds"].setdefault(name, []).extend(answer["epoch_seconds"])
    row["peak"][name] = answer["peak_bytes"]


def measure(gnnc, peer, row, options):
    """Fills a row: gnnc's turn between those of the peer."""
    chosen = fastest(peer, row) if peer else None
    row["variant"] = chosen or "–"

    def of_peer(count):
        if chosen:
            turn(row, "peer", lambda: peer_epochs(peer, row, chosen, count))
            peer.ask(op="empty")

    for _ in range(options.turns):
        of_peer(options.epochs - options.epochs // 2)
        turn(row, "gnnc", lambda: gnnc_epochs(gnnc, row, options.epochs))
        of_peer(options.epochs // 2)


def line(row):
    """Cells of the table."""
    own, other = (median(row["seconds"].get(name, [])) for name in ("gnnc", "peer"))
    memory = [f"{row['peak'][name] / 2**30:.2f}" if name in row["peak"] else "–" for name in ("gnnc", "peer")]
    ratio = f"{own / other:.2f}" if own and other else "–"
    name = f"{row['model']} {row['layers']} x {row['hidden']}"
    return [row["graph"], name, milliseconds(own), milliseconds(other), ratio, *memory, row["variant"], row["failed"] or "–"]


def save(options, about, rows):
    """Writes the table so far."""
    versions = ", ".join(f"{name} {version}" for name, version in about.items() if version)
    text = f"{versions}\n\n{table(HEAD, [line(row) for row in rows])}"
    write(options.out, text, {"about": about, "rows": rows})
    return text


def main(arguments):
    """Runs every row."""
    numbers = lambda text: [int(n) for n in text.split(",")]  # noqa: E731
    names = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=names, default=list(GRAPHS))
    parser.add_argument("--models", type=names, default=MODELS)
    parser.add_argument("--hidden", type=numbers, default=[64, 256])
    parser.add_argument("--layers", type=numbers, default=[2, 3])
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="the small graph, hidden 64, 2 layers")
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or cpu to look at the benchmark itself")
    parser.add_argument("--folder", type=Path, default=ROOT / "target" / "bench", help="where graphs are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "bench" / "gpu-epochs")
    options = parser.parse_args(arguments)
    if options.quick:
        options.graphs, options.hidden, options.layers, options.turns = ["twitter-like"], [64], [2], 1
    peer = Lines([sys.executable, "-W", "ignore", Path(__file__).parent / "peer.py"])
    try:
        about = peer.ask(op="about")
    except RuntimeError as error:
        say(f"the peer is left out: {error}")
        peer, about = None, {}
    rows, text = [], ""
    for graph in options.graphs:
        file = graph_file(graph, gnnc_binary(), options.folder)
        if not file:
            continue
        gnnc = Lines([binary("epochs", "examples"), file, options.device.removeprefix("cuda:")])
        # What is worth most comes first.
        for hidden, layers, model in itertools.product(options.hidden, options.layers, options.models):
            row = {"graph": graph, "file": str(file), "model": model, "layers": layers, "hidden": hidden}
            row.update(seconds={}, peak={}, failed="")
            measure(gnnc, peer, row, options)
            rows.append(row)
            text = save(options, about, rows)
            say(" ".join(map(str, line(row))))
        gnnc.close()
    print(text)
    if not any(row["seconds"].get("gnnc") for row in rows):
        return 2
    return 1 if any(row["failed"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
