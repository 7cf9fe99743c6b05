#!/usr/bin/env python3
"""Epochs on sampled batches on a GPU beside the same on the cores of its machine.

    python3 benches/gpu/batches.py            # GCN, GraphSAGE and GAT of 2 layers on the Reddit-like graph

Batches of 1,000 seeds, 25 and 10 neighbors, hidden 256. The processor draws the batches of both. For the GPU, all
threads draw a batch together, or threads draw batches ahead, each its own. Devices take turns; printed are medians
of one run. Losses of the first epoch are compared: they are those of the same batches. Later ones drift apart, as
rounding grows with every step. Writes OUT.md and OUT.json after every row; code 1 if a row failed.
"""

import argparse
import os
import sys
from pathlib import Path

from common import BENCHES, GRAPHS, ROOT, Lines, binary, gnnc_binary, graph_file, median, milliseconds, say, table, write

MODELS = ["sage", "gcn", "gat"]
HEAD = ["graph", "model", "GPU, samplers", "GPU ms", "processor ms", "GPU / processor", "GPU GiB", "losses apart", "failed"]
CLOSE = 1e-3  # relative, of the first epoch's losses


def apart(own, other):
    """How far losses of the first epoch are from each other, relative to the other's."""
    own, other = own["losses"][0], other["losses"][0]
    return abs(own - other) / max(abs(other), 1e-6)


def measure(row, gpu, processor, options):
    """Fills a row: turns of the GPU and of the processor."""
    request = {"model": str(BENCHES / "models" / f"{row['model']}.gir"), "hidden": options.hidden}
    request |= {"batch": options.batch, "fanouts": options.fanouts, "epochs": options.epochs}
    cores = os.cpu_count() or 1
    # Without threads that draw ahead, all of them draw a batch together.
    threads = cores if row["samplers"] == 0 else 1
    own = gpu.ask(**request, samplers=row["samplers"], threads=threads)
    row["gpu"], row["peak"] = own["epoch_seconds"], own["peak_bytes"]
    if row["other"] is None:
        row["other"] = processor.ask(**request, threads=cores)
    row["apart"] = apart(own, row["other"])
    if not row["apart"] <= CLOSE:
        row["failed"] = f"losses are {row['apart']:.1e} apart, expected at most {CLOSE:g}"


def line(row):
    """Cells of the table."""
    own, other = median(row.get("gpu")), median(row["other"] and row["other"]["epoch_seconds"])
    ratio = f"{own / other:.2f}" if own and other else "–"
    peak = f"{row['peak'] / 2**30:.2f}" if "peak" in row else "–"
    losses = f"{row['apart']:.0e}" if "apart" in row else "–"
    cells = [milliseconds(own), milliseconds(other), ratio, peak, losses]
    return [row["graph"], row["model"], row["samplers"], *cells, row["failed"] or "–"]


def save(options, rows):
    """Writes the table so far."""
    text = table(HEAD, [line(row) for row in rows])
    write(options.out, text, {"rows": rows})
    return text


def main(arguments):
    """Runs every row."""
    numbers = lambda text: [int(n) for n in text.split(",")]  # noqa: E731
    names = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=names, default=["reddit-like"], help=f"some of {', '.join(GRAPHS)}")
    parser.add_argument("--models", type=names, default=MODELS)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--fanouts", type=numbers, default=[25, 10])
    parser.add_argument("--samplers", type=numbers, default=[0, max((os.cpu_count() or 1) - 2, 1)])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="the small graph and one model")
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or cpu to look at the benchmark itself")
    parser.add_argument("--folder", type=Path, default=ROOT / "target" / "bench", help="where graphs are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "bench" / "gpu-batches")
    options = parser.parse_args(arguments)
    if options.quick:
        options.graphs, options.models = ["twitter-like"], ["sage"]
    rows, text = [], ""
    for graph in options.graphs:
        file = graph_file(graph, gnnc_binary(), options.folder)
        if not file:
            continue
        example = binary("epochs", "examples")
        gpu, processor = Lines([example, file, options.device.removeprefix("cuda:")]), Lines([example, file, "cpu"])
        for model in options.models:
            other = None
            for samplers in options.samplers:
                row = {"graph": graph, "model": model, "samplers": samplers, "other": other, "failed": ""}
                try:
                    measure(row, gpu, processor, options)
                except RuntimeError as error:
                    row["failed"] = str(error)[:300]
                other = row["other"]
                rows.append(row)
                text = save(options, rows)
                say(" ".join(map(str, line(row))))
        gpu.close()
        processor.close()
    print(text)
    return 1 if any(row["failed"] for row in rows) or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
