#!/usr/bin/env python3
"""What plans say of the measurements that GNNPipe printed (Tables 3, 5, 7 and 8).

    cargo build --release && python3 scripts/published.py

For each graph and model: the bytes of an epoch as printed and as planned, and which placement was the fastest
as measured and as planned, on two boxes of four A5000. Replication factors are the printed ones; where that of
a number of parts is not printed, the plan interpolates, and says so here with a ~. The graph placement is planned in a
cheaper form than was printed: neighbours' features are added up once and for all, and a GCN's last layer aggregates
classes instead of hidden columns. `as written` adds what that saves. Epochs are in seconds.
`--software eager` plans for a framework that launches each operator from Python.
Needs Python 3.9 and nothing else.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GRAPHS = {
    "squirrel": (5200, 396_700, 2089, 5, "8: 2.22"),
    "physics": (34_500, 495_900, 8415, 5, "8: 0.99"),
    "flickr": (89_300, 899_800, 500, 7, "8: 2.15"),
    "reddit": (233_000, 114_600_000, 602, 41, "2: 0.96, 4: 1.95, 8: 2.61"),
}
BODIES = {
    "GCN": """  let h = x |> gcn_conv(hidden, bias = false) |> relu
  repeat l in 2..=depth - 1 {
    h = h |> gcn_conv(hidden, bias = false) |> relu
  }
  let z = gcn_conv(h, classes, bias = false)""",
    "GraphSAGE": """  let h = x |> sage_conv(hidden, bias = false) |> relu
  repeat l in 2..=depth - 1 {
    h = h |> sage_conv(hidden, bias = false) |> relu
  }
  let z = sage_conv(h, classes, bias = false)""",
    "GCNII": """  let h0 = x |> linear(hidden, bias = false) |> relu
  let h = h0
  repeat i in 1..=depth {
    let beta = log(0.5 / i + 1)
    h = h |> gcnii_conv(h0, alpha = 0.1, beta = beta) |> relu
  }
  let z = linear(h, classes, bias = false)""",
    "ResGCN+": """  let h = x |> linear(hidden, bias = false) |> sage_conv(hidden, bias = false)
  repeat l in 2..=depth {
    h = res_plus(h, conv = sage_conv)
  }
  let z = h |> layer_norm |> relu |> linear(classes, bias = false)""",
}
# Graph, model, layers, width; GiB and seconds of graph, pipeline and hybrid; stages of the hybrid.
ROWS = [
    ("squirrel", "GCN", 32, 1000, (4.43, 0.27, 1.38), (0.19, 0.08, 0.11), 4),
    ("squirrel", "GraphSAGE", 32, 1000, (6.10, 0.27, 1.61), (0.27, 0.15, 0.19), 4),
    ("physics", "GCN", 32, 100, (0.88, 0.18, 0.62), (0.05, 0.07, 0.08), 4),
    ("flickr", "GCN", 32, 100, (4.60, 0.47, 2.00), (0.16, 0.06, 0.09), 4),
    ("reddit", "GCN", 32, 100, (14.50, 1.22, 5.87), (0.87, 0.36, 0.39), 4),
    ("reddit", "ResGCN+", 32, 100, (14.52, 1.22, 5.87), (0.93, 0.51, 0.55), 4),
    ("squirrel", "GCNII", 8, 1000, (1.22, 0.54, None), None, None),
    ("squirrel", "GCNII", 32, 1000, (4.53, 0.54, None), None, None),
    ("physics", "GCNII", 8, 100, (0.25, 0.36, None), None, None),
    ("physics", "GCNII", 32, 100, (0.88, 0.36, None), None, None),
    ("reddit", "GCN", 4, 100, (1.815, None, 1.53), (0.107, None, 0.086), 2),
]


def text(graph, model, depth, hidden):
    vertices, edges, features, classes, replication = GRAPHS[graph]
    return f"""graph {graph} {{
  vertices = {vertices}
  edges = {edges}
  features = {features}
  classes = {classes}
  train_fraction = 0.5
  val_fraction = 0.2
  test_fraction = 0.3
  replication = {{ {replication} }}
}}

model printed(hidden = {hidden}, depth = {depth}) on {graph} {{
{BODIES[model]}
  loss cross_entropy(z, labels, on = train)
}}

train {{
  optimizer = adam(lr = 0.001)
  epochs = 100
}}
"""


def saves(graph, model, hidden):
    """GiB of an epoch that the form of the graph placement saves against the model as it is written."""
    vertices, _, _, classes, replication = GRAPHS[graph]
    alpha = float(replication.split("8: ")[1])
    columns = {"GCN": 2 * hidden - classes, "GraphSAGE": hidden, "ResGCN+": hidden, "GCNII": 0}[model]
    return 2 * alpha * vertices * columns * 4 / 2**30


def planned(file, placement, stages, cluster):
    pin = f"placement={placement},ranks=8,partitioner=metis" if placement != "pipeline" else "placement=pipeline,ranks=8"
    # The papers send each reader its own copy.
    pin += ",node-ranks=1"
    pin += f",stages={stages}" if stages else ""
    command = [
        os.environ.get("GNNC") or ROOT / "target/release/gnnc", "plan", file,
        "--cluster", cluster, "--allow", "stale", "--pin", pin, "--format", "json",
    ]
    found = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if found.returncode:
        sys.exit(found.stdout + found.stderr)
    return json.loads(found.stdout)["candidates"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--software", default="gnnc", choices=["gnnc", "eager"])
    options = parser.parse_args()
    boxes = (ROOT / "examples/clusters/two-a5000-boxes.toml").read_text()
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as cluster:
        cluster.write(f'{boxes}\n[software]\nprofile = "{options.software}"\n')
        cluster.flush()
        compare(cluster.name)


def compare(cluster):
    print("| graph | model | placement | printed GiB | planned GiB | as written | as written / printed | measured s | planned s |")
    print("| --- | --- | --- | --: | --: | --: | --: | --: | --: |")
    wins, ratios = [], []
    for graph, model, depth, hidden, volumes, times, stages in ROWS:
        with tempfile.NamedTemporaryFile("w", suffix=".gir") as file:
            file.write(text(graph, model, depth, hidden))
            file.flush()
            ways = [("graph", None), ("pipeline", None), ("hybrid", stages)]
            seconds = {}
            for n, (placement, count) in enumerate(ways):
                if volumes[n] is None:
                    continue
                found = planned(file.name, placement, count, cluster)
                gib = found["bytes"] / 2**30
                seconds[placement] = found["epoch_seconds"]
                saved = saves(graph, model, hidden) if placement == "graph" else 0.0
                known = found["parameters"].get("alpha_basis", "declared") == "declared"
                mark = "" if known else "~"
                measured = "" if times is None else f"{times[n]:.3g}"
                print(f"| {graph} | {model}-{depth} | {placement} | {volumes[n]:.4g} | {mark}{gib:.4g} "
                      f"| {gib + saved:.4g} | {(gib + saved) / volumes[n]:.3f} | {measured} | {found['epoch_seconds']:.3g} |", flush=True)
            if times:
                ratios += [seconds[p] / t for t, (p, _) in zip(times, ways) if t is not None]
                by_paper = sorted((t, p) for t, (p, _) in zip(times, ways) if t is not None)
                by_plan = sorted((t, p) for p, t in seconds.items())
                wins.append((graph, model, depth, [p for _, p in by_paper], [p for _, p in by_plan]))
    print("\n| graph | model | measured, fastest first | planned, fastest first |")
    print("| --- | --- | --- | --- |")
    for graph, model, depth, paper, plan in wins:
        print(f"| {graph} | {model}-{depth} | {', '.join(paper)} | {', '.join(plan)} |")
    print(f"\nplanned / measured seconds: median {statistics.median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
