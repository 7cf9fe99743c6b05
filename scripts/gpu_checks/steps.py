"""The steps of a check in order of worth. A step is rows: names, and functions that give an outcome and words."""

import re
import shutil

from . import trainings
from .machine import Skipped
from .processes import Child
from .trainings import answer, scored

ACCURACY = 0.02  # between the devices; one seed
ERROR = 0.05  # of other metrics, relative
LOSS = 1e-3  # relative, after a few epochs
TOOLS = ["memcheck", "racecheck", "synccheck"]
# Kernels on small shapes; what calls cuBLAS would be about NVIDIA's own kernels, and takes minutes.
SANITIZED = ["contiguous_rows_agree", "graphs_without_edges_or_rows_agree"]
SLOWER = 2  # limits of tests under a tool of compute-sanitizer, in those without


def devices(machine, listed):
    """The GPUs and libraries."""
    for gpu in listed["gpus"]:
        yield gpu["name"], lambda gpu=gpu: ("passed", f"{gpu['arch']}, {gpu['memory_bytes'] / 2**30:.0f} GiB")
    for library in listed["libraries"]:
        if "missing" in library:
            yield library["name"], lambda library=library: ("skipped", library["missing"])
        else:
            yield library["name"], lambda library=library: ("passed", f"{library['version']}, {library['file']}")


def suite(machine, listed):
    """The tests of the driver, of kernels and of whole programs: each in a process of its own."""
    names = machine.run([machine.folder / "suite", "--list"], "suite-list")
    tests = re.findall(r"^(\S+): test$", names.read("out"), re.M)
    if names.process.returncode != 0 or not tests:
        raise RuntimeError(f"the suite does not list its tests: {names.ending()}: {names.read('err')[-300:]}")
    for test in tests:
        yield test, lambda test=test: tested(machine, [], test)


def tested(machine, before, test):
    """One test of the suite, perhaps under a tool."""
    words = [*before, machine.folder / "suite", test, "--exact", "--nocapture", "--test-threads=1"]
    limit = machine.options.limit * (SLOWER if before else 1)
    done = machine.run(words, "-".join(["suite", test, *map(str, before[1:3])]), limit)
    text = done.read("out") + done.read("err")
    if done.process.returncode != 0:
        panic = re.search(r"panicked at (.*?)(?:note:|stack backtrace|\Z)", text, re.S)
        return "failed", f"{done.ending()}: {panic.group(1) if panic else text[-300:]}"
    skipped = re.search(r"skipped \w+: (.*)", text)
    if skipped:
        return "skipped", skipped.group(1)
    if re.search(r"test result: ok\. 0 passed", text):
        return "skipped", "the suite ignores it"
    if not re.search(r"test result: ok\. 1 passed", text):
        return "failed", f"ended with code 0 before its result: {text[-300:]}"
    return "passed", ""


def compared(own, other):
    """Losses after a few epochs."""
    apart = abs(own["train_loss"] - other["train_loss"]) / max(abs(other["train_loss"]), 1e-6)
    times = own["epoch_seconds"] * 1e3, other["epoch_seconds"] * 1e3
    words = f"losses {apart:.1e} apart, epoch {times[0]:.2f} ms, processor at the build {times[1]:.2f} ms"
    return "passed" if apart <= LOSS else "failed", words


def beside(machine, training, own):
    """A run beside the processor's, which may refuse it as well."""
    other = machine.on_processor(training)
    if "error" in other:
        raise Skipped(f"on the processor too: {other['error']}")
    return compared(own(), other)


def to_the_end(machine, name):
    """Accuracies of a whole run."""
    other = machine.on_processor([name])
    if "error" in other:
        raise Skipped(f"on the processor: {other['error']}")
    own, other = scored(machine.on_device([name])), scored(other)
    if own is None or other is None:
        raise Skipped("it has no metric of test vertices")
    (metric, own), (_, other) = own, other
    most = ACCURACY if metric == "test_accuracy" else ERROR * abs(other)
    outcome = "passed" if abs(own - other) <= most else "failed"
    return outcome, f"{metric.replace('_', ' ')} {own:.4g}, processor {other:.4g}"


def trained(machine, names):
    """Examples for a few epochs, then those to the end."""
    for name in names:
        training = trainings.few(machine.folder, name)
        yield name, lambda t=training: beside(machine, t, lambda: machine.on_device(t))
        yield f"{name}, to the end", lambda name=name: to_the_end(machine, name)


def cora(machine, listed):
    """The two models that everything else is like."""
    return trained(machine, trainings.FIRST)


def examples(machine, listed):
    """The other examples whose data are here."""
    for name, here in trainings.examples(machine.folder).items():
        if not here:
            yield name, lambda: ("skipped", "its graph is statistics only")
        elif name not in trainings.FIRST:
            yield from trained(machine, [name])


def placements(machine, listed):
    """Every placement and layout on four ranks of the GPU."""
    for example in trainings.PLACED:
        for placement in trainings.PLACEMENTS:
            training = trainings.placed(example, placement)
            yield f"{example} {placement}", lambda t=training: beside(machine, t, lambda: machine.on_device(t))
    for example in trainings.LAID_OUT:
        for layout in trainings.LAYOUTS:
            training = trainings.laid_out(example, layout)
            yield f"{example} {layout}", lambda t=training: beside(machine, t, lambda: machine.on_device(t))
    for example in trainings.BATCHED:
        for placement in trainings.ON_BATCHES:
            training = trainings.batched(example, placement)
            name = f"{example} {placement} on batches"
            yield name, lambda t=training: beside(machine, t, lambda: machine.on_device(t))


def processes(machine, listed):
    """Two processes on one GPU, which talk by NCCL; each says that it is on a machine of its own."""
    nccl = next(entry for entry in listed["libraries"] if entry["name"] == "NCCL")
    if "missing" in nccl:
        yield "all", lambda: ("skipped", nccl["missing"])
        return
    for pair in trainings.TOGETHER:
        training = trainings.together(*pair)
        yield " ".join(pair), lambda t=training: beside(machine, t, lambda: paired(machine, t))


def paired(machine, training):
    """The first of two processes that train together."""
    machine.left()
    without = [word for n, word in enumerate(training) if "--workers" not in training[max(n - 1, 0) : n + 1]]
    name = "-".join(without)
    meeting = machine.options.out / f"rendezvous-{name}"
    meeting.unlink(missing_ok=True)
    started: list[Child] = []
    try:
        for rank in range(2):
            words = [*machine.device, "--ranks", "2", "--rendezvous", str(meeting.resolve()), "--rank", str(rank)]
            network = machine.environment.get("NCCL_SOCKET_IFNAME", "lo")
            environment = {"NCCL_HOSTID": f"gnnc-{rank}", "NCCL_SOCKET_IFNAME": network}
            command = trainings.command(machine.gnnc, without, words)
            started.append(machine.start(command, f"{name}-rank-{rank}", **environment))
        answers = [answer(machine.wait(child, machine.options.limit)) for child in started]
    finally:
        for child in started:
            child.end()
        meeting.unlink(missing_ok=True)
    if answers[0]["train_loss"] != answers[1]["train_loss"]:
        raise RuntimeError("the processes have different losses")
    return answers[0]


def sanitizer(machine, listed):
    """Memory errors and races of kernels, on small shapes."""
    found = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not found:
        yield "all", lambda: ("skipped", "there is no compute-sanitizer")
        return
    names = machine.run([machine.folder / "suite", "--list"], "suite-list").read("out")
    tests = [test for test in re.findall(r"^(\S+): test$", names, re.M) if test.split("::")[-1] in SANITIZED]
    for tool in TOOLS:
        for test in tests:
            before = [found, "--tool", tool, "--error-exitcode", "9"]
            yield f"{tool}, {test}", lambda before=before, test=test: tested(machine, before, test)


def benchmark(machine, name, graph):
    """A benchmark on one graph; its table is kept as it grows."""
    machine.graph(graph)
    script = machine.folder / "benches" / "gpu" / f"{name}.py"
    words = [machine.options.python, "-B", script, "--graphs", graph, "--device", machine.device[1]]
    words += ["--out", machine.options.out / f"gpu-{name}-{graph}", "--folder", machine.graphs]
    words += ["--quick"] if machine.options.quick else []
    done = machine.run(words, f"{name}-{graph}", machine.options.seconds)
    if done.process.returncode != 0:
        raise RuntimeError(f"{done.ending()}: {done.read('err').strip()[-300:]}")
    return "passed", ""


def kernels(machine, listed):
    """Kernels beside PyTorch's."""
    for graph in graphs("kernels", machine.options):
        yield graph, lambda graph=graph: benchmark(machine, "kernels", graph)


def epochs(machine, listed):
    """Epochs beside PyTorch and PyTorch Geometric."""
    for graph in graphs("epochs", machine.options):
        yield graph, lambda graph=graph: benchmark(machine, "epochs", graph)


def batches(machine, listed):
    """Epochs on sampled batches beside those on the processor."""
    for graph in graphs("batches", machine.options):
        yield graph, lambda graph=graph: benchmark(machine, "batches", graph)


def graphs(step, options):
    """Graphs of a step, in order of worth."""
    if step not in ("kernels", "epochs", "batches"):
        return []
    if options.quick:
        return ["twitter-like"]
    if step == "batches":
        return ["reddit-like"]
    return ["twitter-like", "reddit-like"] if step == "kernels" else ["reddit-like", "twitter-like"]


# Seconds of each step. What belongs together fits into ten minutes: the first three, kernels, epochs, the next three.
STEPS = {
    "devices": (devices, 20),
    "suite": (suite, 330),
    "cora": (cora, 130),
    "kernels": (kernels, 540),
    "epochs": (epochs, 540),
    "batches": (batches, 240),
    "examples": (examples, 180),
    "placements": (placements, 180),
    "processes": (processes, 120),
    "sanitizer": (sanitizer, 300),
}
