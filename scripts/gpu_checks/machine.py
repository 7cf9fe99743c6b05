"""The machine that is checked: processes of a bundle within a budget of time."""

import re
import time

from . import libraries
from .processes import Child
from .trainings import Answers, answer, command, on_processor

RESERVE = 3  # seconds at the end in which nothing is begun any more


class OutOfTime(Exception):
    """A row that was not begun, or not finished, because the time of its step is over."""


class Skipped(Exception):
    """A row that cannot run here."""


class Machine:
    """Runs what is in a bundle; everything it started ends with it."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.gnnc = folder / "gnnc"
        self.last = time.monotonic() + options.seconds - RESERVE
        self.until = self.last
        options.keep.mkdir(parents=True, exist_ok=True)
        self.environment = libraries.environment(options.keep / "libraries", options.cuda_libraries)
        self.environment.setdefault("GNNC_CACHE", str(options.keep / "cache"))
        self.answers = Answers(folder / "answers.json", self.gnnc)
        self.device = ["--device", f"cuda:{options.gpu}"]
        self.logs = options.out / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.graphs = options.keep / "graphs"
        self.background = {}

    def budget(self, seconds):
        """Gives a step so much time, as far as there is any."""
        self.until = min(time.monotonic() + seconds, self.last)

    def left(self):
        """Seconds that the step has left; OutOfTime if none."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise OutOfTime("not begun: no time left")
        return left

    def start(self, words, name, **environment):
        """A process of the bundle."""
        log = self.logs / re.sub(r"[^\w.-]+", "-", name)
        return Child(words, self.folder, {**self.environment, **environment}, log)

    def wait(self, child, limit):
        """Waits for a process; RuntimeError if it takes longer than its own limit."""
        left = max(self.until - time.monotonic(), 0)
        child.wait(min(limit, left))
        if child.late and left < limit:
            raise OutOfTime(f"cut off after {child.seconds:.0f} s: {child.read('err').strip()[-200:]}")
        if child.late:
            raise RuntimeError(f"not done after {limit:g} s; ended. {child.read('err').strip()[-200:]}")
        return child

    def run(self, words, name, limit=None, **environment):
        """A process that has ended."""
        self.left()
        return self.wait(self.start(words, name, **environment), limit or self.options.limit)

    def train(self, training, words):
        """The report of a training run."""
        name = "-".join([*training, *words])
        return answer(self.run(command(self.gnnc, training, words), name))

    def on_device(self, training):
        """The same on the GPU."""
        return self.train(training, self.device)

    def on_processor(self, training):
        """What the processor answered when the bundle was made, or answers now."""
        known = self.answers.of(training)
        if known is None:
            name = "-".join([*training, "processor"])
            known = on_processor(lambda words: self.run(command(self.gnnc, training, words), name), training)
        return known

    def make_graphs(self, names):
        """Generates graphs in the background, each by a process of its own."""
        script = self.folder / "benches" / "gpu" / "graphs.py"
        for name in names:
            words = [self.options.python, "-B", script, "--folder", self.graphs, name]
            self.background[name] = self.start(words, f"graph-{name}")

    def graph(self, name):
        """Waits for a graph of the background; what is made by no process was made before."""
        child = self.background.pop(name, None)
        if child is None:
            return
        self.left()
        self.wait(child, self.options.seconds)
        if child.process.returncode != 0:
            raise RuntimeError(f"the graph {name} was not made: {child.read('err').strip()[-300:]}")

    def end(self):
        """Ends what is still under way."""
        for child in self.background.values():
            child.end()
