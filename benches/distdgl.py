#!/usr/bin/env python3
"""Sampled GraphSAGE of gnnc on 2 workers beside DistDGL on 2 machines that are pretended on this host.

    cargo build --release
    benches/peers/setup.sh              # once: DGL's own environment
    python3 benches/distdgl.py          # all rows; --quick for a look

Two layers, fanouts 25,10, batches of 1000 seeds, divided among the workers; one thread a worker. A pretended machine
is a DGL server and a trainer that have their own /dev/shm and talk through the loopback interface; it needs the right
to make name spaces (unshare). DGL's samplers (its own and GraphBolt's) and numbers of sampling processes are tried,
and so are gnnc's ways to divide the work; the fastest of each is kept. Then both take turns for some rounds. What cannot run here is left out, and that is said.
Prints a markdown table of seeds per second; the ratio is gnnc's over DistDGL's, with its range over the rounds.

gnnc's workers share one process and its memory; DistDGL's machines send what they need of each other through sockets.
"""

import argparse
import ctypes
import itertools
import json
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path

from graphs import ROOT, graph_file, say
from minibatch import BENCHES, GRAPHS

PYTHON = ROOT / ".venv-dgl" / "bin" / "python"
WORKER = [PYTHON, "-W", "ignore", BENCHES / "peers" / "distdgl_worker.py"]
MACHINES = 2
# Ways in which gnnc divides the work among its workers.
WAYS = {
    "minibatch, hash": ["--placement", "minibatch", "--partitioner", "hash"],
    "minibatch, metis": ["--placement", "minibatch", "--partitioner", "metis", "--roots", "dealt"],
    "push-pull": ["--placement", "push-pull", "--roots", "dealt"],
}
# A process number space too: all processes of a machine end with its first one, however that ends.
SPACES = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def end_with_parent():
    """Asks the kernel to end this process with the one that started it."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def isolation():
    """The command before that of a pretended machine, or why there is none."""
    reason = "no unshare"
    for user in ([], ["--map-root-user"]):
        command = ["unshare", *user, *SPACES]
        try:
            test = [*command, "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]
            subprocess.run(test, check=True, capture_output=True, text=True, timeout=30)
            return command, None
        except subprocess.CalledProcessError as error:
            reason = error.stderr.strip()[-200:]
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = str(error)
    return None, reason


def free_ports(count):
    """Ports that nothing listens to now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Group:
    """Processes that train epochs together when asked; the first one answers. Too late an answer ends them."""

    def __init__(self, commands, limit):
        self.limit, self.late = limit, False
        self.scratch = Path(tempfile.mkdtemp(prefix="gnnc-distdgl-"))
        self.processes, self.logs = [], []
        try:
            for number, command in enumerate(commands):
                command = [str(part).replace("{scratch}", str(self.scratch)) for part in command]
                self.logs.append(self.scratch / f"log-{number}.txt")
                with open(self.logs[-1], "w") as log:
                    self.processes.append(
                        subprocess.Popen(
                            command,
                            stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE if number == 0 else log,
                            stderr=log,
                            text=True,
                            preexec_fn=end_with_parent,
                        )
                    )
        except BaseException:
            self.kill()
            raise

    def watch(self, answered):
        """Ends all processes when one has ended, because the others would wait for it, or when it is too late."""
        until = time.monotonic() + self.limit
        while not answered.wait(0.5):
            self.late = time.monotonic() > until
            if self.late or any(process.poll() is not None for process in self.processes):
                return self.kill(clean=False)

    def line(self):
        """The next answer."""
        answered = threading.Event()
        watcher = threading.Thread(target=self.watch, args=[answered], daemon=True)
        watcher.start()
        try:
            line = self.processes[0].stdout.readline()
        finally:
            answered.set()
            watcher.join()
        if not line:
            raise RuntimeError(f"no answer in {self.limit} s" if self.late else self.last_words())
        return json.loads(line)

    def last_words(self):
        """The ends of what was printed, for an error."""
        self.kill(clean=False)
        texts = [log.read_text(errors="replace").strip()[-600:] for log in self.logs]
        return "\n".join(text for text in texts if text) or "it ended without a word"

    def turn(self, request):
        """The answer to a request, which all processes get."""
        try:
            for process in self.processes:
                process.stdin.write(f"{request}\n")
                process.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError(self.last_words()) from None
        return self.line()

    def end(self):
        """Lets the processes end by themselves, but not for long."""
        for process in self.processes:
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            for process in self.processes:
                process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            say("processes did not end by themselves, and were killed")
        self.kill()

    def kill(self, clean=True):
        """Ends the processes now; without `clean`, what they printed stays."""
        for process in self.processes:
            process.kill()
            process.wait()
        if clean:
            shutil.rmtree(self.scratch, ignore_errors=True)


def partitions(name, file, graphbolt, options):
    """The folder of a graph's partitions, made where it is missing or older than the graph."""
    kind = ("graphbolt" if graphbolt else "dgl") + ("-edges" if options.balance_edges else "")
    folder = ROOT / "target" / "bench" / f"distdgl-{name}-{kind}-{MACHINES}"
    done = folder / "sizes.json"
    if done.exists() and done.stat().st_mtime > file.stat().st_mtime:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="distdgl-", dir=folder.parent) as made:
        command = [*WORKER, "partition", "--graph", file, "--out", Path(made) / "parts", "--machines", MACHINES]
        command += ["--graphbolt"] if graphbolt else []
        command += ["--balance-edges"] if options.balance_edges else []
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=options.limit,
            cwd=made,
            preexec_fn=end_with_parent,
        )
        if done.returncode:
            raise RuntimeError(f"partitioning: {done.stderr.strip()[-400:]}")
        (Path(made) / "parts").rename(folder)
    return folder


def distdgl_group(isolated, folder, hidden, graphbolt, samplers, options):
    """Pretended machines that are ready to train."""
    ports = ",".join(str(port) for port in free_ports(MACHINES + 1))
    commands = []
    for machine in range(MACHINES):
        command = [*isolated, *WORKER, "machine", "--machines", MACHINES, "--machine", machine, "--ports", ports]
        command += ["--out", folder, "--scratch", "{scratch}", "--hidden", hidden, "--samplers", samplers]
        command += ["--batches", options.batches, "--limit", options.limit]
        commands.append(command + (["--graphbolt"] if graphbolt else []))
    group = Group(commands, options.limit)
    try:
        group.about = group.line()
    except BaseException:
        group.kill()
        raise
    return group


def gnnc_group(gnnc, file, hidden, way, options):
    """gnnc with as many workers as there are machines."""
    command = [gnnc, "bench-epoch", BENCHES / "models" / "sage.gir", "--graph", file, "--set", f"hidden={hidden}"]
    command += ["--allow", "sample", "--batch", 1000, "--fanouts", "25,10", *WAYS[way]]
    command += ["--workers", MACHINES, "--threads", 1, "--interleave", "--format", "json"]
    return Group([command], options.limit)


def best_gnnc(gnnc, file, hidden, options):
    """gnnc, dividing the work in the way that makes it fastest, and the name of that way."""
    best = None
    try:
        for way in WAYS:
            group = gnnc_group(gnnc, file, hidden, way, options)
            took = min(group.turn(2))
            say(f"gnnc ({way}): {took:.3f} s an epoch in a try with {hidden} hidden")
            if best is None or took < best[1]:
                if best:
                    best[0].end()
                best = (group, took, way)
            else:
                group.end()
    except BaseException:
        if best:
            best[0].kill()
        raise
    return best[0], best[2]


def training_seeds(file):
    """The number of training vertices of a graph file."""
    with zipfile.ZipFile(file) as arrays:
        return arrays.read("train_mask.npy").partition(b"\n")[2].count(1)


def best_distdgl(isolated, name, file, hidden, options):
    """DistDGL with the sampler and the number of sampling processes that make it fastest, or None."""
    best = None
    try:
        for sampler, samplers in itertools.product(options.samplers, options.workers):
            graphbolt = sampler == "graphbolt"
            what = f"DistDGL ({sampler}, {samplers} sampling processes)"
            group = None
            try:
                folder = partitions(name, file, graphbolt, options)
                group = distdgl_group(isolated, folder, hidden, graphbolt, samplers, options)
                speed = max(group.turn("0 2")["seeds_per_second"])
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                if group:
                    group.kill()
                say(f"{what}: left out: {error}")
                continue
            except BaseException:
                if group:
                    group.kill()
                raise
            say(f"{what}: {speed:.0f} seeds/s in a try on {name} with {hidden} hidden")
            if best is None or speed > best[1]:
                if best:
                    best[0].end()
                best = (group, speed, f"{sampler}, {samplers}")
            else:
                group.end()
    except BaseException:
        if best:
            best[0].kill()
        raise
    return best


def row(name, hidden, isolated, options):
    """Seeds per second of every epoch, by library and round, and what was chosen for DistDGL."""
    file = graph_file(name, options.gnnc)
    seeds = training_seeds(file)
    groups, chosen, way = {}, None, None
    speeds = {}
    try:
        if isolated:
            best = best_distdgl(isolated, name, file, hidden, options)
            if best:
                groups["DistDGL"], _, chosen = best
        groups["gnnc"], way = best_gnnc(options.gnnc, file, hidden, options)
        speeds = {library: [] for library in groups}
        for number in range(options.rounds):
            for library in sorted(groups, reverse=number % 2 == 1):
                if library == "gnnc":
                    speeds[library].append([seeds / took for took in groups[library].turn(options.seconds)])
                    continue
                try:
                    found = groups[library].turn(f"{options.seconds} {options.epochs}")
                    speeds[library].append(found["seeds_per_second"])
                except RuntimeError as error:
                    say(f"DistDGL: left out: {error}")
                    groups.pop(library).kill()
                    speeds.pop(library)
        while groups:
            groups.popitem()[1].end()
    finally:
        for group in groups.values():
            group.kill()
    return speeds, chosen, way


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--graphs", nargs="*", default=["arxiv-like"], choices=list(GRAPHS))
    parser.add_argument("--hidden", nargs="*", default=[32, 256], type=int)
    parser.add_argument("--samplers", nargs="*", default=["dgl", "graphbolt"], choices=["dgl", "graphbolt"])
    parser.add_argument("--workers", nargs="*", default=[0, 1], type=int, help="sampling processes a trainer to try")
    parser.add_argument("--balance-edges", action="store_true", help="partition with edges in balance for DistDGL too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a turn")
    parser.add_argument("--epochs", type=int, default=1, help="least epochs of DistDGL in a turn")
    parser.add_argument("--batches", type=int, default=0, help="most batches of DistDGL's epochs, for tests; 0: all")
    parser.add_argument("--limit", type=int, default=600, help="seconds until a process that does not answer is ended")
    parser.add_argument("--quick", action="store_true", help="one row, one round, DGL's own sampler")
    options = parser.parse_args()
    if options.quick:
        options.graphs, options.hidden, options.rounds, options.seconds = ["arxiv-like"], [32], 1, 0
        options.samplers, options.workers = ["dgl"], [0]
    # An end by a signal still ends what was started.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    isolated, reason = isolation()
    if not PYTHON.exists():
        isolated = None
        say("DistDGL: left out, not installed; see benches/peers/setup.sh")
    elif not isolated:
        say(f"DistDGL: left out, machines cannot be pretended here: {reason}")
    print("| graph | hidden | DistDGL seeds/s (sampler, processes) | gnnc seeds/s (way) | gnnc / DistDGL |")
    print("| --- | --: | --: | --: | --: |")
    for name, hidden in itertools.product(options.graphs, options.hidden):
        speeds, chosen, way = row(name, hidden, isolated, options)
        medians = {library: statistics.median(itertools.chain(*found)) for library, found in speeds.items()}
        peer, ratio = "–", "–"
        if "DistDGL" in medians:
            peer = f"{medians['DistDGL']:.0f} ({chosen})"
            rounds = zip(speeds["gnnc"], speeds["DistDGL"])
            ratios = [statistics.median(ours) / statistics.median(theirs) for ours, theirs in rounds]
            middle = statistics.median(ratios)
            ratio = f"{middle:.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
        print(f"| {name} | {hidden} | {peer} | {medians['gnnc']:.0f} ({way}) | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
