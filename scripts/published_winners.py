#!/usr/bin/env python3
"""What plans say of ways to train that papers measured beside each other, on the whole graph and on sampled batches.

    cargo build --release && python3 scripts/published_winners.py               # --ablation: without parts of the cost model

For each graph and model of which GNNPipe, NeutronTP, P3, HopGNN or DistDGL measured two ways to train or more: the way
that was the fastest and by how much, and the same as planned, on the paper's cluster with data-sheet numbers and with
kernels and messages that start as a framework's do (`software.profile = "eager"`). `regret` is the measured time of the
way that the plan prefers over the measured time of the fastest; where a paper prints seconds, `planned / printed` is the
smallest and largest ratio of its ways. Nothing is fitted to these numbers. What the papers do not print is assumed and
said here: batches of 1000 seeds on each GPU, heads of 4 columns in P3's GAT and of 2 or 16 in HopGNN's, the shares of
labelled vertices below, GNNPipe's replication factors of Reddit for NeutronTP's.
Ways that gnnc does not have are listed with the reason. Needs Python 3.9 and nothing else.

Sources: GNNPipe (tables 3 and 8, figure 7); NeutronTP (table 2, figure 11); P3 (Gandhi and Iyer, OSDI 2021), table 4,
section 7.3, figures 7, 9 and 10; HopGNN (Chen et al., 2024), section 7 and figures 13 and 21; DistDGL (Zheng et al., 2020)
and ByteGNN (Zheng et al., VLDB 2022), figures 15 and 17 of the survey of Liang et al.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from published import BODIES

ROOT = Path(__file__).resolve().parent.parent
# Vertices, edges, features, classes, share of training vertices, largest degree where it is known, replication factors where printed.
GRAPHS = {
    "squirrel": (5200, 396_700, 2089, 5, 0.5, None, "8: 2.22"),
    "physics": (34_500, 495_900, 8415, 5, 0.5, None, "8: 0.99"),
    "flickr": (89_300, 899_800, 500, 7, 0.5, None, "8: 2.15"),
    "reddit": (233_000, 114_600_000, 602, 41, 0.66, 21_657, "2: 0.96, 4: 1.95, 8: 2.61"),
    "products": (2_400_000, 123_700_000, 100, 47, 0.08, 17_481, None),
    "papers": (111_000_000, 1_600_000_000, 128, 172, 0.011, None, None),
    "papers-512": (111_000_000, 1_600_000_000, 512, 172, 0.011, None, None),
    "hop-products": (2_450_000, 61_900_000, 100, 47, 0.08, 17_481, None),
    "uk": (1_000_000, 41_200_000, 600, 64, 0.65, None, None),
    "in": (1_380_000, 16_900_000, 600, 64, 0.65, None, None),
    "it": (41_300_000, 1_150_000_000, 600, 64, 0.65, None, None),
}
# Nodes, devices of a node, device, GB/s and microseconds of a link between nodes.
CLUSTERS = {
    "gnnpipe": (2, 4, "A5000", 25.0, 10),
    "gnnpipe-2": (1, 2, "A5000", 25.0, 10),
    "neutrontp": (16, 1, "T4", 1.875, 30),
    "neutrontp-4": (4, 1, "T4", 1.875, 30),
    "p3": (4, 4, "P100", 1.25, 30),
    "hop": (4, 1, "A100-40", 1.25, 30),
    "dgl": (4, 1, "cpu-core", 12.5, 12),
}
# Layers of hidden columns, and the last one.
LAYERS = {
    "SGC": ("gcn_conv(hidden, bias = false)", "gcn_conv(classes, bias = false)"),
    "GCN": ("gcn_conv(hidden) |> relu", "gcn_conv(classes)"),
    "GraphSAGE": ("sage_conv(hidden) |> relu", "sage_conv(classes)"),
    "GAT": ("gat_conv(hidden / 8, heads = 8) |> elu", "gat_conv(classes)"),
    "GAT-256": ("gat_conv(hidden) |> elu", "gat_conv(classes)"),
}
# Graph, model, layers, hidden, fanouts, cluster, where, and the measured times: seconds; `None` where memory did not suffice.
WHOLE = [
    ("squirrel", "GCN-deep", 32, 1000, None, "gnnpipe", "GNNPipe, table 3", {"graph": 0.19, "pipeline": 0.08, "hybrid": 0.11}),
    ("squirrel", "GraphSAGE-deep", 32, 1000, None, "gnnpipe", "GNNPipe, table 3", {"graph": 0.27, "pipeline": 0.15, "hybrid": 0.19}),
    ("physics", "GCN-deep", 32, 100, None, "gnnpipe", "GNNPipe, table 3", {"graph": 0.05, "pipeline": 0.07, "hybrid": 0.08}),
    ("flickr", "GCN-deep", 32, 100, None, "gnnpipe", "GNNPipe, table 3", {"graph": 0.16, "pipeline": 0.06, "hybrid": 0.09}),
    ("reddit", "GCN-deep", 32, 100, None, "gnnpipe", "GNNPipe, table 3", {"graph": 0.87, "pipeline": 0.36, "hybrid": 0.39}),
    ("reddit", "ResGCN+-deep", 32, 100, None, "gnnpipe", "GNNPipe, table 3", {"graph": 0.93, "pipeline": 0.51, "hybrid": 0.55}),
    ("reddit", "GCN-deep", 4, 100, None, "gnnpipe", "GNNPipe, table 8", {"graph": 0.107, "hybrid": 0.086}),
    ("reddit", "GCN-deep", 32, 100, None, "gnnpipe-2", "GNNPipe, figure 7", {"graph": 1.22, "pipeline": 1.11}),
    (
        "reddit",
        "GCN",
        2,
        256,
        "25,10",
        "neutrontp",
        "NeutronTP, table 2",
        {"minibatch metis": 2.27, "graph metis": 1.92, "skip-broadcast": 1.17, "tensor-decoupled": 0.40},
    ),
    (
        "reddit",
        "GAT-256",
        2,
        256,
        "25,10",
        "neutrontp",
        "NeutronTP, table 2",
        {"minibatch metis": 2.92, "graph metis": None, "skip-broadcast": None, "tensor-decoupled": 1.29},
    ),
    (
        "papers",
        "GCN",
        2,
        128,
        "25,10",
        "neutrontp",
        "NeutronTP, table 2",
        {"minibatch metis": 25.4, "graph metis": None, "skip-broadcast": None, "tensor-decoupled": 134.4},
    ),
    ("reddit", "GCN", 2, 256, None, "neutrontp", "NeutronTP, figure 11", {"tensor": 4.47, "tensor-decoupled": 1.0}),
]
BATCHES = [
    ("products", "SGC", 2, 32, "25,10", "p3", "P3, table 4", {"minibatch hash": 4.535, "push-pull": 1.019}),
    ("products", "GCN", 2, 32, "25,10", "p3", "P3, table 4", {"minibatch hash": 4.578, "push-pull": 1.111}),
    ("products", "GraphSAGE", 2, 32, "25,10", "p3", "P3, table 4", {"minibatch hash": 4.727, "push-pull": 1.233}),
    ("products", "GAT", 2, 32, "25,10", "p3", "P3, table 4", {"minibatch hash": 5.067, "push-pull": 1.912}),
    ("papers", "SGC", 2, 32, "25,10", "p3", "P3, table 4", {"minibatch hash": 9.059, "push-pull": 2.23}),
    ("papers", "GCN", 2, 32, "25,10", "p3", "P3, table 4", {"minibatch hash": 9.575, "push-pull": 2.606}),
    (
        "papers",
        "GraphSAGE",
        2,
        32,
        "25,10",
        "p3",
        "P3, tables 1, 4",
        {"minibatch hash": 9.83, "minibatch metis": 5.295, "push-pull": 3.107},
    ),
    ("papers", "GAT", 2, 32, "25,10", "p3", "P3, table 4", {"minibatch hash": 10.662, "push-pull": 5.138}),
    ("products", "GraphSAGE", 2, 32, "all,all", "p3", "P3, figure 7", {"minibatch hash": 7.07, "push-pull": 1.0}),
    ("papers", "GraphSAGE", 4, 32, "10,10,10,10", "p3", "P3, figure 9", {"minibatch hash": 6.07, "push-pull": 1.0}),
    ("papers-512", "GraphSAGE", 2, 32, "25,10", "p3", "P3, figure 10", {"minibatch hash": 4.77, "push-pull": 1.0}),
    (
        "in",
        "GAT",
        3,
        128,
        "10,10,10",
        "hop",
        "HopGNN, section 7",
        {"minibatch metis": 1.8, "push-pull": 2.16, "model-migration": 1.0},
    ),
    (
        "it",
        "GAT",
        3,
        16,
        "10,10,10",
        "hop",
        "HopGNN, section 7",
        {"minibatch metis": 1.91, "push-pull": 1.48, "model-migration": 1.0},
    ),
    ("hop-products", "GCN", 3, 16, "10,10,10", "hop", "HopGNN, section 7", {"minibatch metis": 2.5, "model-migration": 1.0}),
    ("hop-products", "GAT", 3, 16, "10,10,10", "hop", "HopGNN, section 7", {"minibatch metis": 2.2, "model-migration": 1.0}),
    ("uk", "GAT", 3, 16, "10,10,10", "hop", "HopGNN, figure 13", {"minibatch metis": 2.72, "model-migration": 1.0}),
    (
        "hop-products",
        "GCN",
        3,
        16,
        "all,all,all",
        "hop",
        "HopGNN, figure 21",
        {"graph metis": 1.38, "model-migration": 1.0},
    ),
    (
        "hop-products",
        "GraphSAGE",
        3,
        256,
        "15,10,5",
        "dgl",
        "DistDGL, figure 15",
        {"minibatch hash": 5.0, "minibatch metis-splits": 1.0},
    ),
]
NOT_PLANNED = [
    ("P3, table 1, vertex cuts, grid and 3D partitions", "gnnc cuts no vertices"),
    ("P3, table 5, push-pull with copies of graph and features", "the table prints no way that it is compared with, beside the same with copies"),
    ("HopGNN, figure 13, without pre-gathering", "gnnc always gathers each row once"),
    ("ByteGNN, figure 17, the sampling DAG", "gnnc always draws in tasks, so it has no second way"),
    ("SANCUS, table 5", "the paper does not name the device"),
    ("GNNPipe, table 1, and NeutronTP, figures 4, 5, 12 and 15", "shares and growths of one way, none beside another"),
]


def text(graph, model, layers, hidden):
    """The model as a file."""
    vertices, edges, features, classes, train, largest, replication = GRAPHS[graph]
    if model.endswith("-deep"):
        lines, result = BODIES[model[:-5]], "z"
    else:
        inner, last = LAYERS[model]
        convs = [inner] * (layers - 1) + [last]
        body = [f"let h{n + 1} = {f'h{n}' if n else 'x'} |> {conv}" for n, conv in enumerate(convs)]
        lines, result = "\n".join(f"  {line}" for line in body), f"h{layers}"
    known = {"max_degree": largest, "replication": replication and f"{{ {replication} }}"}
    return f"""graph data {{
  vertices = {vertices}
  edges = {edges}
  features = {features}
  classes = {classes}
  train_fraction = {train}
  {" ".join(f"{key} = {value}" for key, value in known.items() if value)}
  val_fraction = {min(0.02, 1 - train)}
  test_fraction = {min(0.1, 0.98 - train)}
}}

model printed(hidden = {hidden}, depth = {layers}) on data {{
{lines}
  loss cross_entropy({result}, labels, on = train)
}}

train {{
  optimizer = adam(lr = 0.001)
  epochs = 10
}}
"""


def cluster_file(name, software, cached):
    """The cluster as a file: data-sheet numbers of its devices."""
    nodes, devices, device, link, latency = CLUSTERS[name]
    return f"""version = 1
name = "{name}"
nodes = {nodes}
devices_per_node = {devices}
device.profile = "{device}"
{"" if cached else "device.cache_bytes = 1"}
inside.profile = "{'pcie4' if device == 'A5000' else 'pcie3'}"
software.profile = "{software}"

[between]
name = "network"
bandwidth = {link}e9
latency = {latency}e-6
shared_by = "node"
"""


def planned(file, way, cluster, fanouts, cluster_path):
    """The planned candidate of a way on all devices of a cluster: the fastest one that fits, without copies of features.

    The published systems keep each row of features on one machine (P3: each column, which the GPUs of a machine share),
    so caches and other slices are left out; they send whole blocks (SANCUS). HopGNN compares itself with batches whose
    seeds are dealt out, wherever they lie: it prints that 77 % of the rows are elsewhere, which is what 4 ranks give.
    """
    placement, _, partitioner = way.partition(" ")
    nodes, gpus = CLUSTERS[cluster][:2]
    ranks = nodes * gpus
    pin = f"placement={placement},ranks={ranks}" + (f",partitioner={partitioner}" if partitioner else "")
    # The papers send each reader its own copy.
    pin += ",node-ranks=1"
    whole = placement not in ("minibatch", "push-pull", "model-migration")
    # Evaluations on the whole graph, which the papers leave out, might not fit.
    alike = ["--eval-fanouts", fanouts] if fanouts and "all" not in fanouts else []
    batches = [] if whole else ["--batch", 1000 * ranks, "--fanouts", fanouts, *alike]
    if cluster == "hop" and placement == "minibatch":
        batches += ["--roots", "dealt"]
    command = [
        os.environ.get("GNNC") or ROOT / "target/release/gnnc", "plan", file, "--cluster", cluster_path,
        "--allow", "sample,stale,decouple", "--pin", pin, *batches, "--format", "json",
    ]  # fmt: skip
    found = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if found.returncode not in (0, 3):
        sys.exit(found.stdout + found.stderr)
    candidates = json.loads(found.stdout)["candidates"]
    slices = f"{nodes}/apart" if placement == "push-pull" and gpus > 1 else None

    def is_meant(one):
        sampling = one["parameters"].get("sampling", {})
        cut = "cut" in json.dumps(one["parameters"].get("skip", ""))
        return bool(sampling) != whole and sampling.get("slices") == slices and "cache" not in sampling and not cut

    meant = [one for one in candidates if is_meant(one)]
    fit = [one for one in meant if one["fits"]]
    return min(fit or meant, key=lambda one: one["epoch_seconds"]) if meant else None


def compare(rows, software, cached, show):
    """Plans rows; prints a line for each if they are to be shown. Returns regrets, hits and ratios to printed seconds."""
    regrets, right, ratios = [], 0, []
    for graph, model, layers, hidden, fanouts, cluster, where, measured in rows:
        with tempfile.NamedTemporaryFile("w", suffix=".gir") as file, tempfile.NamedTemporaryFile("w", suffix=".toml") as machines:
            file.write(text(graph, model, layers, hidden))
            machines.write(cluster_file(cluster, software, cached))
            file.flush()
            machines.flush()
            plans = {way: planned(file.name, way, cluster, fanouts, machines.name) for way in measured}
        cells = [graph, f"{model.replace('-deep', '')}-{layers}", where]
        seconds = {way: plan["epoch_seconds"] for way, plan in plans.items() if plan and plan["fits"]}
        ran = {way: took for way, took in measured.items() if took is not None}
        both = [way for way in ran if way in seconds]
        if not both:
            if show:
                print("| " + " | ".join([*cells, "no plan that fits", "", "", "", "", "", ""]) + " |", flush=True)
            continue
        order = sorted(ran, key=ran.get)
        best = min(both, key=seconds.get)
        regrets.append(ran[best] / ran[order[0]])
        right += best == order[0]
        in_seconds = "table" in where and "HopGNN" not in where or "GNNPipe" in where
        own = [seconds[way] / ran[way] for way in both] if in_seconds else []
        ratios += own
        if show:
            planned_ratio = f"{seconds[order[1]] / seconds[order[0]]:.2f}" if set(order[:2]) <= set(both) else "does not fit"
            span = f"{min(own):.2f} to {max(own):.2f}" if own else ""
            unfit = [way for way in measured if (way in seconds) != (way in ran)]
            cells += [order[0], f"{ran[order[1]] / ran[order[0]]:.2f}", best, planned_ratio, f"{regrets[-1]:.2f}", span, ", ".join(unfit)]
            print("| " + " | ".join(cells) + " |", flush=True)
    return regrets, right, ratios


HEAD = [
    "graph", "model", "where", "fastest as measured", "measured: next / fastest", "fastest as planned", "planned: same ratio",
    "regret", "planned / printed", "fits in one only",
]  # fmt: skip


def summary(regrets, right, ratios):
    """Winners, mean regret, and planned over printed seconds."""
    mean = math.exp(statistics.fmean(map(math.log, regrets)))
    return [f"{right} of {len(regrets)}", f"{mean:.3f}", f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ablation", action="store_true", help="only the sums, with parts of the cost model left out")
    options = parser.parse_args()
    kinds = {"whole graphs": WHOLE, "batches": BATCHES}
    if options.ablation:
        print("| rows | software | cache | winners | mean regret | planned / printed, median | from, to |")
        print("| --- | --- | --- | --: | --: | --: | --- |")
        for name, rows in kinds.items():
            for software in ["gnnc", "eager"]:
                for cached in [False, True]:
                    found = summary(*compare(rows, software, cached, show=False))
                    print("| " + " | ".join([name, software, "yes" if cached else "no", *found]) + " |", flush=True)
        return
    for name, rows in kinds.items():
        print(f"| {' | '.join(HEAD)} |")
        print("| --- | --- | --- | --- | --: | --- | --: | --: | --: | --- |")
        winners, mean, middle, span = summary(*compare(rows, "eager", cached=True, show=True))
        print(f"\nOf {name} the plan's fastest is the measured one in {winners}; mean regret {mean} (geometric).")
        print(f"Planned / printed seconds: median {middle}, {span}.\n")
    print("Not planned:\n")
    for row, why in NOT_PLANNED:
        print(f"- {row}: {why}.")


if __name__ == "__main__":
    main()
