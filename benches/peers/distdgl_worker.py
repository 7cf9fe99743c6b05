"""Trains sampled GraphSAGE with DistDGL on machines that are pretended on this host; benches/distdgl.py starts it.

    .venv-dgl/bin/python benches/peers/distdgl_worker.py partition --graph GRAPH.npz --out FOLDER
    unshare -m ... .venv-dgl/bin/python benches/peers/distdgl_worker.py machine --machine 0 --ports 4000,4001,4002 ...

`partition` writes a part of the graph for each machine. `machine` mounts a /dev/shm of its own, because DGL names
shared memory after the graph, and runs a server and a trainer (`serve` and `train`, which it starts itself) until
the trainer ends. Machine number M has the address 127.0.0.(M + 1).

The trainer of machine 0 answers, and all read the same standard input: each line gives a number of seconds and a
number of epochs: one epoch to warm up, then at least that many epochs until that time is up; their seeds per second
are printed as one line of JSON. Features and labels are fetched for each batch. The batch is divided among machines.
"""

import argparse
import ctypes
import datetime
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

MACHINE = os.environ.get("GNNC_PRETENDED_MACHINE")
GRAPH_NAME = "graph"


def address(machine):
    """The address of a machine on the loopback interface."""
    return f"127.0.0.{machine + 1}"


def pretend(machine):
    """Makes DGL believe that this process runs on a machine; else it compares addresses of interfaces."""
    import dgl.distributed.rpc_client as client

    usable = client.get_local_usable_addr
    client.get_local_machine_id = lambda _: machine
    client.get_local_usable_addr = lambda probe: address(machine) + ":" + usable(probe).split(":")[1]


# Before all else, because the processes that sample import this file again and run nothing of it.
if MACHINE is not None and os.environ.get("DGL_ROLE") == "client":
    pretend(int(MACHINE))


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=["partition", "machine", "serve", "train"])
    parser.add_argument("--graph", help="an .npz in gnnc's layout, to partition")
    parser.add_argument("--out", type=Path, help="folder of the partitions; written by partition, else read")
    parser.add_argument("--balance-edges", action="store_true", help="partition with edges in balance too")
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--machine", type=int, default=0, help="number of this machine")
    parser.add_argument("--ports", default="", help="of the server of each machine, then one for gradients")
    parser.add_argument("--scratch", type=Path, help="folder for the file of addresses")
    parser.add_argument("--graphbolt", action="store_true", help="sample with GraphBolt, from its partitions")
    parser.add_argument("--samplers", type=int, default=0, help="processes of each trainer that sample beside it")
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--batch", type=int, default=1000, help="of all machines together")
    parser.add_argument("--fanouts", default="25,10", help="the hop next to the seeds first")
    parser.add_argument("--batches", type=int, default=0, help="most batches of an epoch; 0 for no limit (for tests)")
    parser.add_argument("--limit", type=int, default=300, help="seconds that machines wait for each other")
    return parser.parse_args()


def partition(given):
    """Writes the partitions: Metis, with training vertices in balance, and edges if asked."""
    import dgl
    import worker

    graph = worker.Graph(given.graph)
    g = dgl.graph((graph.src, graph.dst), num_nodes=graph.vertices)
    train = graph.train.new_zeros(graph.vertices).bool()
    train[graph.train] = True
    g.ndata["x"], g.ndata["y"], g.ndata["train_mask"] = graph.dense, graph.labels, train
    dgl.distributed.partition_graph(
        g,
        GRAPH_NAME,
        given.machines,
        str(given.out),
        part_method="metis",
        balance_ntypes=train,
        balance_edges=given.balance_edges,
        use_graphbolt=given.graphbolt,
    )
    sizes = {"features": graph.features, "classes": graph.classes}
    (given.out / "sizes.json").write_text(json.dumps(sizes))


def environment(given, role):
    """What DGL and torch read from the environment in a server or a trainer."""
    *ports, gradients = (int(port) for port in given.ports.split(","))
    addresses = given.scratch / f"addresses-{given.machine}.txt"
    addresses.write_text("".join(f"{address(m)} {port}\n" for m, port in enumerate(ports)))
    found = {
        "DGLBACKEND": "pytorch",
        "DGL_ROLE": role,
        "DGL_DIST_MODE": "distributed",
        "DGL_SERVER_ID": given.machine,
        "DGL_NUM_SERVER": 1,
        "DGL_NUM_CLIENT": given.machines * (1 + given.samplers),
        "DGL_NUM_SAMPLER": given.samplers,
        "DGL_CONF_PATH": given.out / f"{GRAPH_NAME}.json",
        "DGL_IP_CONFIG": addresses,
        "DGL_GRAPH_FORMAT": "csc",
        "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": address(0),
        "MASTER_PORT": gradients,
        "WORLD_SIZE": given.machines,
        "RANK": given.machine,
        "GNNC_PRETENDED_MACHINE": given.machine,
    }
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        found[name] = given.threads
    return dict(os.environ, **{name: str(value) for name, value in found.items()})


def end_with_parent():
    """Asks the kernel to end this process with the one that started it."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def machine(given):
    """Runs the server and the trainer of a machine, in the name spaces that it was started in."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
    me = [sys.executable, "-W", "ignore", __file__]
    server = subprocess.Popen(
        [*me, "serve", *sys.argv[2:]],
        env=environment(given, "server"),
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        preexec_fn=end_with_parent,
    )
    trainer = subprocess.Popen(
        [*me, "train", *sys.argv[2:]], env=environment(given, "client"), preexec_fn=end_with_parent
    )
    children = [server, trainer]
    try:
        while trainer.poll() is None:
            if server.poll() is not None:
                # The trainers end the servers when they end, so it follows soon.
                trainer.wait(timeout=30)
            time.sleep(0.2)
        if trainer.returncode == 0:
            server.wait(timeout=30)
    except subprocess.TimeoutExpired:
        print("a server or a trainer did not end after the other", file=sys.stderr)
    finally:
        codes = [child.poll() for child in children]
        for child in children:
            child.kill()
            child.wait()
    sys.exit(0 if codes[1] == 0 else 1)


def serve(given):
    """Serves a part of the graph until the trainers end."""
    import dgl

    dgl.distributed.initialize(os.environ["DGL_IP_CONFIG"], use_graphbolt=given.graphbolt)


def network(given):
    """The layers of benches/peers/minibatch.py in one module, which all machines train."""
    import dgl.nn.pytorch as nn
    import torch

    class Sage(torch.nn.Module):
        def __init__(self, sizes):
            super().__init__()
            self.layers = torch.nn.ModuleList(nn.SAGEConv(a, b, "mean") for a, b in zip(sizes, sizes[1:]))

        def forward(self, blocks, x):
            for number, (layer, block) in enumerate(zip(self.layers, blocks)):
                x = layer(block, x)
                x = torch.relu(x) if number + 1 < len(blocks) else x
            return x

    sizes = json.loads((given.out / "sizes.json").read_text())
    hops = len(given.fanouts.split(","))
    return Sage([sizes["features"]] + [given.hidden] * (hops - 1) + [sizes["classes"]])


def train(given):
    """Trains on the seeds of a machine, with those of the others, when standard input asks for it."""
    # What a library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import dgl
    import torch

    # DGL's connections come first, as its documentation asks for.
    dgl.distributed.initialize(os.environ["DGL_IP_CONFIG"], use_graphbolt=given.graphbolt)
    torch.set_num_threads(given.threads)
    # As gnnc does; see benches/peers/worker.py.
    torch.set_flush_denormal(True)
    torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=given.limit))
    g = dgl.distributed.DistGraph(GRAPH_NAME)
    book = g.get_partition_book()
    seeds = dgl.distributed.node_split(g.ndata["train_mask"], book, force_even=True)
    here = int((book.nid2partid(seeds) == given.machine).sum())
    # All machines need the same number of batches, so a seed that only some of them have is left out.
    least = torch.tensor([len(seeds)])
    torch.distributed.all_reduce(least, torch.distributed.ReduceOp.MIN)
    share = given.batch // given.machines
    seeds = seeds[: min(int(least), given.batches * share) if given.batches else int(least)]
    total = len(seeds) * given.machines
    fanouts = [int(fanout) for fanout in given.fanouts.split(",")]
    sampler = dgl.dataloading.NeighborSampler(fanouts[::-1])
    loader = dgl.dataloading.DistNodeDataLoader(g, seeds, sampler, batch_size=share, shuffle=True, drop_last=False)
    model = torch.nn.parallel.DistributedDataParallel(network(given))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    features, labels = g.ndata["x"], g.ndata["y"]

    def epoch():
        """(seconds, mean loss) of an epoch, from when all machines begin until all have ended."""
        torch.distributed.barrier()
        begun = time.perf_counter()
        losses = []
        for inputs, outputs, blocks in loader:
            x, y = features[inputs], labels[outputs]
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(blocks, x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        torch.distributed.barrier()
        return time.perf_counter() - begun, float(torch.stack(losses).mean())

    def agreed(value):
        """The value that machine 0 has."""
        value = torch.tensor([int(value)])
        torch.distributed.broadcast(value, 0)
        return bool(value)

    def answer(value):
        """A line from machine 0."""
        if given.machine == 0:
            print(json.dumps(value), file=answers, flush=True)

    about = {"version": f"DistDGL {dgl.__version__}", "seeds": total, "machine": g.rank(), "local_seeds": here}
    answer(dict(about, trainers=torch.distributed.get_world_size(), batches=loader.expected_idxs))
    for line in sys.stdin:
        seconds, epochs = (float(part) for part in line.split())
        epoch()
        times = []
        while agreed(len(times) < max(epochs, 1) or sum(times) < seconds):
            took, loss = epoch()
            times.append(took)
        answer({"seeds_per_second": [total / took for took in times], "loss": loss})
    torch.distributed.barrier()
    del loader


def main():
    given = arguments()
    if given.role == "partition":
        # What a library prints is no answer.
        os.dup2(2, 1)
    {"partition": partition, "machine": machine, "serve": serve, "train": train}[given.role](given)


if __name__ == "__main__":
    main()
