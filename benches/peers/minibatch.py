"""Times epochs of sampled GraphSAGE in DGL, its GraphBolt or PyTorch Geometric on the CPU.

    .venv-dgl/bin/python benches/peers/minibatch.py --peer dgl --graph GRAPH.npz --hidden 32 --threads 2

Each line on standard input gives a number of seconds: one epoch to warm up, then at least one more
until that time is up; their times are printed as one line of JSON. Forward, backward and Adam;
features are read for each batch, as the loaders of both libraries do.
"""

import argparse
import json
import os
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--peer", choices=["dgl", "graphbolt", "pyg"], required=True)
parser.add_argument("--graph", required=True)
parser.add_argument("--hidden", type=int, default=32)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--workers", type=int, default=0, help="processes that sample beside the one that trains")
parser.add_argument("--batch", type=int, default=1000)
parser.add_argument("--fanouts", default="25,10", help="the hop next to the seeds first")
parser.add_argument("--ddp", metavar="RANK/RANKS/PORT", help="DGL under PyTorch's DistributedDataParallel over gloo")
given = parser.parse_args()
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = str(given.threads)
os.environ.setdefault("DGLBACKEND", "pytorch")

import torch  # noqa: E402  (the number of threads is set before)
import worker  # noqa: E402

torch.set_num_threads(given.threads)
rank, ranks = 0, 1
if given.ddp:
    rank, ranks, port = map(int, given.ddp.split("/"))
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
fanouts = [int(fanout) for fanout in given.fanouts.split(",")]
graph = worker.Graph(given.graph)
sizes = [graph.features] + [given.hidden] * (len(fanouts) - 1) + [graph.classes]


def over_blocks(layers, blocks, x):
    """The forward pass on DGL's blocks."""
    for number, (layer, block) in enumerate(zip(layers, blocks)):
        x = layer(block, x)
        x = torch.relu(x) if number + 1 < len(blocks) else x
    return x


def dgl_batches():
    """(layers, batches): DGL's fused sampler, whose fanouts begin with the hop furthest from the seeds."""
    import dgl
    import dgl.nn.pytorch as nn

    g = dgl.graph((graph.src, graph.dst), num_nodes=graph.vertices)
    g.ndata["x"], g.ndata["y"] = graph.dense, graph.labels
    g.create_formats_()
    sampler = dgl.dataloading.NeighborSampler(
        fanouts[::-1], prefetch_node_feats=["x"], prefetch_labels=["y"]
    )
    loader = dgl.dataloading.DataLoader(
        g,
        graph.train,
        sampler,
        batch_size=given.batch // ranks,
        shuffle=True,
        num_workers=given.workers,
        use_ddp=ranks > 1,
    )
    layers = [nn.SAGEConv(a, b, "mean") for a, b in zip(sizes, sizes[1:])]

    def batches():
        for _, _, blocks in loader:
            yield blocks, blocks[0].srcdata["x"], blocks[-1].dstdata["y"]

    return layers, batches, over_blocks, f"DGL {dgl.__version__}"


def graphbolt_batches():
    """The same with GraphBolt's pipeline: its sampler, and its feature store in memory."""
    import dgl
    import dgl.graphbolt as gb
    import dgl.nn.pytorch as nn

    g = gb.from_dglgraph(dgl.graph((graph.src, graph.dst), num_nodes=graph.vertices), is_homogeneous=True)
    store = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(graph.dense)})
    seeds = gb.ItemSet((graph.train, graph.labels[graph.train]), names=("seed_nodes", "labels"))
    pipe = gb.ItemSampler(seeds, batch_size=given.batch, shuffle=True)
    pipe = pipe.sample_neighbor(g, fanouts[::-1])
    pipe = pipe.fetch_feature(store, node_feature_keys=["x"])
    loader = gb.DataLoader(pipe, num_workers=given.workers)
    layers = [nn.SAGEConv(a, b, "mean") for a, b in zip(sizes, sizes[1:])]

    def batches():
        for batch in loader:
            yield batch.blocks, batch.node_features["x"], batch.labels

    return layers, batches, over_blocks, f"GraphBolt {dgl.__version__}"


def pyg_batches():
    """The same with PyG's NeighborLoader, whose fanouts begin next to the seeds."""
    import torch_geometric
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader
    from torch_geometric.nn import SAGEConv

    data = Data(x=graph.dense, y=graph.labels, edge_index=torch.stack([graph.src, graph.dst]))
    loader = NeighborLoader(
        data, fanouts, input_nodes=graph.train, batch_size=given.batch, shuffle=True, num_workers=given.workers
    )
    layers = [SAGEConv(a, b, "mean") for a, b in zip(sizes, sizes[1:])]

    def batches():
        for batch in loader:
            seeds = batch.batch_size
            yield (batch.edge_index, seeds), batch.x, batch.y[:seeds]

    def forward(layers, sampled, x):
        edges, seeds = sampled
        for number, layer in enumerate(layers):
            x = layer(x, edges)
            x = torch.relu(x) if number + 1 < len(layers) else x
        return x[:seeds]

    return layers, batches, forward, f"PyG {torch_geometric.__version__}"


made = {"dgl": dgl_batches, "graphbolt": graphbolt_batches, "pyg": pyg_batches}[given.peer]()
layers, batches, forward, version = made
layers = torch.nn.ModuleList(layers)
if ranks > 1:

    class Stack(torch.nn.Module):
        """The layers as one module, whose gradients DistributedDataParallel sums."""

        def __init__(self):
            super().__init__()
            self.layers = layers

        def forward(self, blocks, x):
            return over_blocks(self.layers, blocks, x)

    stack = torch.nn.parallel.DistributedDataParallel(Stack())

    def forward(_, blocks, x):
        return stack(blocks, x)

optimizer = torch.optim.Adam(layers.parameters(), lr=0.003)


def epoch():
    """Seconds of an epoch."""
    begun = time.perf_counter()
    for blocks, x, y in batches():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(forward(layers, blocks, x), y).backward()
        optimizer.step()
    return time.perf_counter() - begun


print(json.dumps({"version": version, "seeds": len(graph.train)}), flush=True)
for line in sys.stdin:
    epoch()
    times = []
    while not times or sum(times) < float(line):
        times.append(epoch())
    print(json.dumps(times), flush=True)
