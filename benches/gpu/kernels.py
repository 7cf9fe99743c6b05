#!/usr/bin/env python3
"""Aggregations on a GPU beside cuSPARSE (through PyTorch): SpMM, SDDMM, attention.

    python3 benches/gpu/kernels.py           # every width; --quick for a look at the small graph

gnnc and PyTorch take turns on the same GPU; what is printed are the medians of one run, their
ratio, the bytes a second that gnnc's time means if rows of sources are read once an edge, and that as
a share of a copy on this GPU. Attention is the softmax of scores over the edges of a vertex, and the
sum weighted by head, 8 heads; PyTorch computes it with gathers and scatters, or with a sparse
product for each head, whichever is faster. PyTorch keeps no unused memory while gnnc runs. Needs PyTorch
with CUDA; writes OUT.md and OUT.json after every row.
"""

import argparse
import sys
from pathlib import Path

from common import GRAPHS, ROOT, Lines, gnnc_binary, graph_file, median, milliseconds, say, table, write

WIDTHS = [16, 32, 64, 128, 256, 512]
HEADS = 8
KERNELS = ["spmm", "sddmm", "attention"]
HEAD = ["graph", "kernel", "width", "gnnc ms", "PyTorch ms", "gnnc / PyTorch", "GB/s", "of a copy", "PyTorch's way", "error"]
WRONG = 1e-4  # relative to the largest result


class Torch:
    """The same aggregations by PyTorch."""

    def __init__(self, file):
        import numpy as np
        import torch

        self.torch = torch
        with np.load(file) as arrays:
            indptr, indices = arrays["indptr"], arrays["indices"]
        self.n, self.edges = len(indptr) - 1, len(indices)
        self.rows = torch.from_numpy(indptr.astype(np.int32)).cuda()
        self.src = torch.from_numpy(indices.astype(np.int32)).cuda()
        degrees = torch.from_numpy(np.diff(indptr).astype(np.int64)).cuda()
        self.dst = torch.repeat_interleave(torch.arange(self.n, device="cuda"), degrees)
        self.random = torch.Generator(device="cuda").manual_seed(1)

    def draw(self, *shape):
        """Random numbers on the GPU."""
        return self.torch.rand(*shape, device="cuda", generator=self.random) - 0.5

    def matrix(self, values):
        """The edges as a sparse matrix."""
        return self.torch.sparse_csr_tensor(self.rows, self.src, values, size=(self.n, self.n))

    def variants(self, kernel, width):
        """Ways to compute a kernel: names and functions."""
        torch, n, src, dst = self.torch, self.n, self.src.long(), self.dst
        x = self.draw(n, width)
        if kernel == "spmm":
            a = self.matrix(self.draw(self.edges))
            return {"csr": lambda: torch.sparse.mm(a, x)}
        if kernel == "sddmm":
            pattern = self.matrix(torch.zeros(self.edges, device="cuda"))
            other = self.draw(width, n)
            return {"csr": lambda: torch.sparse.sampled_addmm(pattern, x, other, beta=0)}
        left, right = self.draw(n, HEADS), self.draw(n, HEADS)

        def softmax():
            score = torch.nn.functional.leaky_relu(left[src] + right[dst], 0.2)
            where = dst[:, None].expand(-1, HEADS)
            top = torch.full((n, HEADS), -1e30, device="cuda").scatter_reduce(0, where, score, "amax")
            share = torch.exp(score - top[dst])
            total = torch.zeros(n, HEADS, device="cuda").scatter_add(0, where, share)
            return share / total[dst]

        def scatter():
            rows = x[src].view(-1, HEADS, width // HEADS) * softmax()[:, :, None]
            return torch.zeros(n, width, device="cuda").index_add(0, dst, rows.view(-1, width))

        def per_head():
            share = softmax()
            parts = x.view(n, HEADS, -1)
            columns = range(HEADS)
            sums = [torch.sparse.mm(self.matrix(share[:, h].contiguous()), parts[:, h].contiguous()) for h in columns]
            return torch.cat(sums, 1)

        return {"scatter": scatter, "csr by head": per_head}

    def seconds(self, run, times):
        """Seconds of one run."""
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(times):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / times

    def fastest(self, kernel, width):
        """(name, function) of the fastest way that fits into memory, or None."""
        found = {}
        for name, run in self.variants(kernel, width).items():
            try:
                run()
                found[name] = (self.seconds(run, 2), run)
            except RuntimeError as error:
                say(f"PyTorch, {kernel} {width} by {name}: {str(error)[:120]}")
            self.torch.cuda.empty_cache()
        best = min(found, key=lambda name: found[name][0]) if found else None
        return best and (best, found[best][1])


def parts_of(kernel, width):
    """The requests that a kernel is for gnnc."""
    if kernel != "attention":
        return [{"kernel": kernel, "width": width, "heads": 1}]
    return [{"kernel": "attend", "width": width, "heads": HEADS}]


def measure(gnnc, peer, kernel, width, options):
    """A row of the table: turns of gnnc and of PyTorch."""
    row = {"kernel": kernel, "width": width, "gnnc": [], "torch": [], "bytes": 0, "error": 0}
    chosen = None
    if peer:
        try:
            chosen = peer.fastest(kernel, width)
        except RuntimeError as error:
            say(f"PyTorch, {kernel} {width}: {str(error)[:120]}")
        peer.torch.cuda.empty_cache()
    if chosen:
        row["variant"] = chosen[0]
    for _ in range(options.turns):
        if peer:
            peer.torch.cuda.empty_cache()
        answers = [
            gnnc.ask(**request, times=options.times, rounds=options.rounds) for request in parts_of(kernel, width)
        ]
        row["gnnc"] += [sum(seconds) for seconds in zip(*(answer["seconds"] for answer in answers))]
        row["bytes"] = sum(answer["bytes"] for answer in answers)
        row["memory"] = max(answer["memory_bytes"] for answer in answers)
        # What is no number comes as null.
        row["error"] = max(float("inf") if answer["error"] is None else answer["error"] for answer in answers)
        if chosen:
            row["torch"] += [peer.seconds(chosen[1], options.times) for _ in range(options.rounds)]
            peer.torch.cuda.empty_cache()
    return row


def line(graph, row, copy):
    """Cells of the table."""
    own, other = median(row["gnnc"]), median(row["torch"])
    rate = row["bytes"] / own if own else 0
    return [
        graph, row["kernel"], row["width"], milliseconds(own), milliseconds(other),
        f"{own / other:.2f}" if other else "–", f"{rate / 1e9:.0f}", f"{100 * rate / copy:.0f} %",
        row.get("variant", "–"), f"{row['error']:.1e}",
    ]  # fmt: skip


def save(options, about, rows, report):
    """Writes the table so far."""
    copied = f"{about['device']}; a copy moves {median(about['copy_bytes_per_second']) / 1e9:.0f} GB/s."
    text = f"{copied}\n\n{table(HEAD, rows)}"
    write(options.out, text, report)
    return text


def main(arguments):
    """Runs every row; 1 if a result is wrong, 2 if nothing could run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=lambda text: text.split(","), default=list(GRAPHS))
    parser.add_argument("--kernels", type=lambda text: text.split(","), default=KERNELS)
    parser.add_argument("--widths", type=lambda text: [int(n) for n in text.split(",")], default=WIDTHS)
    parser.add_argument("--turns", type=int, default=2, help="turns of gnnc and PyTorch")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of a turn")
    parser.add_argument("--times", type=int, default=10, help="runs of a measurement")
    parser.add_argument("--quick", action="store_true", help="the small graph, two widths")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--folder", type=Path, default=ROOT / "target" / "bench", help="where graphs are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "bench" / "gpu-kernels")
    options = parser.parse_args(arguments)
    if options.quick:
        options.graphs, options.widths, options.turns = ["twitter-like"], [64, 256], 1
    binary, rows, report = gnnc_binary(), [], {"graphs": {}, "rows": []}
    wrong = 0
    for graph in options.graphs:
        file = graph_file(graph, binary, options.folder)
        if not file:
            continue
        gnnc = Lines([binary, "bench-kernel", file, "--device", options.device])
        try:
            about = gnnc.read()
        except RuntimeError as error:
            say(f"gnnc: {error}")
            return 2
        copy = median(about["copy_bytes_per_second"])
        report["graphs"][graph] = about
        try:
            peer = Torch(file)
        except Exception as error:  # not installed, or without a GPU
            say(f"PyTorch: left out: {error}")
            peer = None
        for kernel in options.kernels:
            for width in options.widths:
                row = measure(gnnc, peer, kernel, width, options)
                wrong += not row["error"] <= WRONG
                report["rows"].append({"graph": graph, **row})
                rows.append(line(graph, row, copy))
                text = save(options, about, rows, report)
                say(" ".join(map(str, rows[-1])))
        gnnc.close()
    if not rows:
        return 2
    print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
