#!/usr/bin/env python3
"""Bytes of a step by the closed forms of DistDGL, P3 and HopGNN, computed here from the lists of a batch.

    cargo build --release && python3 scripts/closed_forms.py

`gnnc graph sample --dump` prints the lists of the batch that all ranks work on together. What a vertex draws in a hop
does not depend on the other seeds, so the lists of each rank's seeds are walked here, in Python, from those and from
the parts of `gnnc graph partition --out`. The bytes must equal those that `gnnc train` sends, to the last one. Needs
Python 3.9 and nothing else.

| placement | bytes of a step of M ranks, F features, P parameters |
| --- | --- |
| minibatch | (4 F + 4) sum of rem + 8 (M - 1) P |
| minibatch, lazy embeddings of d columns | (8 d + 4) sum of rem + 8 (M - 1) P' |
| push-pull | (M - 1) sum of [4 (V_0 + V_1 + 1 + E_1) + 8 V_1 d] + 8 (M - 1) P' |
| model-migration, T = M visits | as minibatch, and 8 P M (T - 1), or 4 P M (T - 1) with gradients alone |

`rem` are a rank's vertices of level 0 that it does not own, and P' the parameters but the first weight. Each run also
adds up one loss, 8 (M - 1).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from graphs import graph_file  # noqa: E402  (found by the line before)

HIDDEN = 16
EMBEDDED = """graph g = "{graph}" {{ features = identity }}
model rows(hidden = 16) on g {{
  let e = x |> linear(hidden, bias = false)
  let h = e |> sage_conv(hidden) |> relu
  loss cross_entropy(h |> sage_conv(classes), labels, on = train)
}}
train {{ optimizer = adam(lr = 0.01) }}
"""


def call(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def drawn(options, graph, seeds):
    """The seeds of a batch, and for each hop the sources that each vertex keeps."""
    command = [options.gnnc, "graph", "sample", graph, "--fanouts", options.fanouts, "--batch", seeds, "--batches", 1]
    first = json.loads(call(*command, "--dump", "--format", "json"))["first"]
    ids, hops = first["ids"], []
    for layer in sorted(first["layers"], key=lambda layer: -layer["layer"]):
        offsets, places = layer["offsets"], layer["places"]
        rows = range(len(offsets) - 1)
        hops.append({ids[n]: [ids[place] for place in places[offsets[n] : offsets[n + 1]]] for n in rows})
    return list(hops[0]), hops


def levels(seeds, hops):
    """The vertices of each level from the seeds outwards, and the edges of each layer."""
    found, edges = [list(dict.fromkeys(seeds))], []
    for kept in hops:
        rows = found[-1]
        sources = [source for v in rows for source in kept[v]]
        edges.append(len(sources))
        found.append(list(dict.fromkeys(rows + sources)))
    return found, edges


def sent(options, model, graph, workers, partitioner, more):
    command = [options.gnnc, "train", model, "--workers", workers, "--partitioner", partitioner, "--allow", "sample", "--epochs", 1]
    command += [] if graph is None else ["--graph", graph, "--set", f"hidden={HIDDEN}"]
    command += ["--fanouts", options.fanouts, "--evaluate-every", 100, "--format", "json", "--quiet", *more]
    return json.loads(call(*command))["bytes_sent"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--graphs", nargs="*", default=["cora", "photo", "squirrel"])
    parser.add_argument("--workers", nargs="*", type=int, default=[2, 4])
    parser.add_argument("--fanouts", default="10,5")
    options = parser.parse_args()
    print("| graph | parts | placement | rows of other ranks | closed form | sent |")
    print("| --- | --- | --- | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.graphs:
            graph = graph_file(name, options.gnnc)
            stats = json.loads(call(options.gnnc, "graph", "stats", graph, "--format", "json"))
            features, classes = stats["features"], stats["classes"]
            # One batch has all training vertices.
            seeds, hops = drawn(options, graph, stats["vertices"])
            batch = ["--batch", stats["vertices"]]
            embedded = Path(folder) / f"{name}.gir"
            embedded.write_text(EMBEDDED.format(graph=graph))
            first, rest = 2 * features * HIDDEN, HIDDEN + 2 * HIDDEN * classes + classes
            for workers in options.workers:
                for partitioner in ("hash", "metis"):
                    out = Path(folder) / "parts"
                    call(options.gnnc, "graph", "partition", graph, "--parts", workers, "--partitioner", partitioner, "--out", out)
                    owner = [int(line) for line in out.read_text().split()]
                    others = workers - 1
                    remote, shared = 0, 0
                    for rank in range(workers):
                        found, edges = levels([v for v in seeds if owner[v] == rank], hops)
                        remote += sum(owner[v] != rank for v in found[2])
                        shared += 4 * (len(found[2]) + len(found[1]) + 1 + edges[1]) + 8 * len(found[1]) * HIDDEN
                    weights = first + rest
                    fetched = (4 * features + 4) * remote + 8 * others * (weights + 1)
                    small = 2 * HIDDEN * HIDDEN + rest
                    migrated = workers * (workers - 1) * weights
                    forms = [
                        ("minibatch", fetched, ["--placement", "minibatch"]),
                        (
                            "minibatch, lazy embeddings",
                            (8 * HIDDEN + 4) * remote + 8 * others * (small + 1),
                            ["--placement", "minibatch", "--lazy-embeddings"],
                        ),
                        ("push-pull", others * (shared + 8 * (rest + 1)), ["--placement", "push-pull"]),
                        ("model-migration", fetched + 8 * migrated, ["--placement", "model-migration"]),
                        (
                            "model-migration, gradients",
                            fetched + 4 * migrated,
                            ["--placement", "model-migration", "--migrate", "gradient"],
                        ),
                    ]
                    for placement, form, more in forms:
                        model, data = ROOT / "benches/models/sage.gir", graph
                        if "--lazy-embeddings" in more:
                            model, data = embedded, None
                        bytes_sent = sent(options, model, data, workers, partitioner, batch + more)
                        if bytes_sent != form:
                            sys.exit(f"{name}, {workers} {partitioner}, {placement}: sent {bytes_sent}, not {form}")
                        print(f"| {name} | {workers} {partitioner} | {placement} | {remote:,} | {form:,} | {bytes_sent:,} |", flush=True)


if __name__ == "__main__":
    main()
