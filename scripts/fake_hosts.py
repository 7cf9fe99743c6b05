#!/usr/bin/env python3
"""Trains on hosts that are network namespaces of this machine, over a network of a chosen speed.

    cargo build --release && sudo python3 scripts/fake_hosts.py [--machine machine.toml] [--rates 100mbit,1gbit] [--turns 3]
    .. scripts/fake_hosts.py --rates 300mbit --train MODEL.gir OPTIONS..

Needs the system's administrator, iproute2 and Open MPI, whose agent for remote hosts enters the namespaces. Each host has a name of
its own, and talks to the others by TCP through a bridge; `tc` limits what it sends. For each rate, `gnnc calibrate` measures the links
into a cluster file, and the epochs that `gnnc plan` predicts with it are compared with measured ones. Last, a host loses its network:
the run has to end within 10 seconds. Prints markdown tables. With --train, `gnnc train` runs with these arguments instead, and its epochs are printed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GNNC = os.environ.get("GNNC") or ROOT / "target/release/gnnc"
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
BRIDGE, NETWORK = "gnncbr", "10.99.7"
HOSTS = ["fake1", "fake2"]
AGENT = """#!/bin/sh
host=$1; shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
"""
SAMPLED = ["--allow", "sample", "--batch", "256", "--fanouts", "10,10"]
CASES = {
    "GCN, squirrel": ("gcn_cora", "squirrel", "graph", []),
    "GraphSAGE, squirrel": ("sage_cora", "squirrel", "graph", []),
    "GCN, photo": ("gcn_cora", "photo", "graph", []),
    "GCN, squirrel, tensor": ("gcn_cora", "squirrel", "tensor", []),
    "GraphSAGE, photo, batches": ("sage_cora", "photo", "minibatch", SAMPLED),
    "GraphSAGE, photo, push-pull on batches": ("sage_cora", "photo", "push-pull", SAMPLED),
}


def call(*command, check=True):
    found = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if check and found.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{found.stdout}{found.stderr}")
    return found


def build(agent):
    agent.write_text(AGENT)
    agent.chmod(0o755)
    call("ip", "link", "add", BRIDGE, "type", "bridge")
    call("ip", "addr", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
    call("ip", "link", "set", BRIDGE, "up")
    for number, host in enumerate(HOSTS):
        outer, inner = f"{host}o", f"{host}i"
        call("ip", "netns", "add", host)
        call("ip", "link", "add", outer, "type", "veth", "peer", "name", inner)
        call("ip", "link", "set", outer, "master", BRIDGE, "up")
        call("ip", "link", "set", inner, "netns", host)
        inside = ["ip", "netns", "exec", host, "ip"]
        call(*inside, "addr", "add", f"{NETWORK}.{11 + number}/24", "dev", inner)
        call(*inside, "link", "set", inner, "up")
        call(*inside, "link", "set", "lo", "up")


def tear_down():
    for host in HOSTS:
        call("ip", "netns", "del", host, check=False)
        call("ip", "link", "del", f"{host}o", check=False)
    call("ip", "link", "del", BRIDGE, check=False)


def limit(rate):
    unit = {"mbit": 1e6, "gbit": 1e9}
    bytes_per_second = float(rate[:-4]) * unit[rate[-4:]] / 8
    # What a host may send at once without waiting: a quarter of a millisecond, and at least two packets.
    burst = max(int(bytes_per_second * 0.26e-3), 3200)
    for host in HOSTS:
        queue = ["ip", "netns", "exec", host, "tc", "qdisc", "replace", "dev", f"{host}i", "root"]
        call(*queue, "tbf", "rate", rate, "burst", burst, "latency", "200ms")


def mpirun(agent):
    hosts = ",".join(f"{host}:1" for host in HOSTS)
    command = ["mpirun", "-n", len(HOSTS), "--host", hosts, "--mca", "plm_rsh_agent", agent, "--mca", "btl", "tcp,self", "--bind-to", "none"]
    for layer in ("btl_tcp", "oob_tcp"):
        command += ["--mca", f"{layer}_if_include", f"{NETWORK}.0/24"]
    return command


def planned(cluster, case):
    model, graph, placement, more = case
    pin = f"placement={placement},ranks={len(HOSTS)},partitioner=metis-edges,node-ranks=1,cover=rows,interior=no"
    command = [GNNC, "plan", ROOT / f"examples/{model}.gir", "--graph", ROOT / f"examples/data/{graph}.npz", "--cluster", cluster]
    command += ["--gpus", len(HOSTS), "--nodes", len(HOSTS), "--pin", pin, "--all", "--format", "json", *more, *(["--cache", "0"] if more else [])]
    plan = json.loads(call(*command, check=False).stdout)
    # Features as runs have them: one slice a rank, and no cache.
    def is_usual(parameters):
        sampling = parameters.get("sampling", {})
        return "slices" not in parameters and not sampling.get("cache") and bool(sampling) == bool(more)

    candidates = [one for one in plan["candidates"] if is_usual(one["parameters"])]
    return candidates[0]["epoch_seconds"]


def measured(agent, case, turns):
    model, graph, placement, more = case
    train = [GNNC, "train", ROOT / f"examples/{model}.gir", "--graph", ROOT / f"examples/data/{graph}.npz", "--epochs", "6"]
    train += ["--evaluate-every", "6", "--placement", placement, "--partitioner", "metis-edges", "--format", "json", *more]
    runs = [json.loads(call(*mpirun(agent), *train).stdout) for _ in range(turns)]
    return statistics.median(run["epoch_seconds"] for run in runs), runs[0]["bytes_sent"] / runs[0]["epochs"]


def lost(agent, folder):
    """Seconds until a run ends whose second host has lost its network, and what it says."""
    log = folder / "log.jsonl"
    train = [GNNC, "train", ROOT / "examples/gcn_cora.gir", "--epochs", "1000000", "--quiet", "--log", log]
    run = subprocess.Popen([str(part) for part in [*mpirun(agent), *train]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (log.exists() and len(log.read_text().splitlines()) > 3):
        time.sleep(0.05)
    begin = time.monotonic()
    call("ip", "link", "set", f"{HOSTS[1]}o", "down")
    said = ""
    # The launcher itself may wait longer for its own daemon.
    while time.monotonic() - begin < 60 and not said:
        line = run.stderr.readline()
        said = line if line.startswith("error:") else ""
        if not line:
            break
    seconds = time.monotonic() - begin
    run.kill()
    call("pkill", "-9", "-f", str(log), check=False)
    return seconds, said.strip()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--machine", default="cpu")
    arguments.add_argument("--rates", default="100mbit,1gbit")
    arguments.add_argument("--turns", type=int, default=3)
    arguments.add_argument("--train", nargs=argparse.REMAINDER, metavar="..")
    options = arguments.parse_args()
    tear_down()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        agent = folder / "agent"
        try:
            build(agent)
            if options.train:
                print("| rate | sent in an epoch | measured |\n| --- | --: | --: |")
                for rate in options.rates.split(","):
                    limit(rate)
                    run = json.loads(call(*mpirun(agent), GNNC, "train", *options.train, "--format", "json").stdout)
                    print(f"| {rate} | {run['bytes_sent'] / run['epochs'] / 1e6:.2f} MB | {run['epoch_seconds']:.2f} s |", flush=True)
                return
            print("| rate | model, graph, placement | sent in an epoch | planned | measured | planned / measured |")
            print("| --- | --- | --: | --: | --: | --: |")
            for rate in options.rates.split(","):
                limit(rate)
                cluster = folder / f"{rate}.toml"
                found = call(*mpirun(agent), GNNC, "calibrate", "--cluster", options.machine, "--out", cluster, "--format", "json")
                link = json.loads(found.stdout)["links"][0]
                for name, case in CASES.items():
                    plan = planned(cluster, case)
                    epoch, sent = measured(agent, case, options.turns)
                    times = f"{1e3 * plan:.1f} ms | {1e3 * epoch:.1f} ms | {plan / epoch:.2f}"
                    print(f"| {rate} | {name} | {sent / 1e6:.2f} MB | {times} |", flush=True)
                costs = f"{link['bandwidth'] / 1e6:.2f} MB/s, {1e9 * link['processor_seconds_per_byte']:.2f} ns of a core for each byte"
                print(f"<!-- {rate}: {1e6 * link['latency_seconds']:.0f} us, {costs} -->", flush=True)
            seconds, said = lost(agent, folder)
            print(f"\nA host lost its network: {seconds:.1f} s until\n\n    {said}")
            sys.exit(seconds > 10)
        finally:
            tear_down()


if __name__ == "__main__":
    main()
