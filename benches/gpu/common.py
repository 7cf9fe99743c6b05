"""What the benchmarks on a GPU share: graphs, processes that answer lines, tables."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

BENCHES = Path(__file__).resolve().parent.parent
ROOT = BENCHES.parent
GRAPHS = {
    # The size of ego_twitter after cleaning, and of Reddit: power laws, features without meaning.
    "twitter-like": {"vertices": 81_306, "edges": 1_768_149 // 2 * 2, "features": 128, "classes": 16},
    "reddit-like": {"vertices": 232_965, "edges": 114_615_892, "features": 602, "classes": 41},
}


def say(text):
    """Progress and what was left out, apart from the table."""
    print(text, file=sys.stderr, flush=True)


def binary(name, folder=""):
    """A binary: beside the scripts of a bundle, or of a build."""
    for place in (ROOT / name, ROOT / "target" / "release" / folder / name):
        if place.is_file():
            return place
    built = "cargo build --release" + (f" --example {name}" if folder else "")
    sys.exit(f"there is no {name}; run '{built}' or work in the folder of scripts/gpu_check")


def gnnc_binary():
    """The command line."""
    return binary("gnnc")


def graph_file(name, gnnc, folder):
    """The file of a graph, made where it is missing: aside, then renamed. None with the reason said."""
    file = folder / f"{name}.npz"
    if file.exists():
        return file
    folder.mkdir(parents=True, exist_ok=True)
    say(f"{name}: making the graph")
    aside = folder / f"{name}.{os.getpid()}.npz"
    command = [gnnc, "graph", "generate", "rmat", "--out", aside]
    for key, value in GRAPHS[name].items():
        command += [f"--{key}", value]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        say(f"{name}: left out, the graph could not be made: {done.stderr.strip()[-300:]}")
        aside.unlink(missing_ok=True)
        return None
    os.replace(aside, file)
    return file


class Lines:
    """A process that answers a line of JSON for each line of JSON."""

    def __init__(self, command):
        pipe = subprocess.PIPE
        command = [str(part) for part in command]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def read(self):
        """The next answer; a RuntimeError with the process's words where there is none."""
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.stderr.read().strip()[-500:] or "the process ended")
        answer = json.loads(line)
        if "error" in answer and isinstance(answer["error"], (str, dict)):
            error = answer["error"]
            raise RuntimeError(error if isinstance(error, str) else error.get("message"))
        return answer

    def ask(self, **request):
        """The answer to a request."""
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # `read` says why
        return self.read()

    def close(self):
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def milliseconds(seconds):
    """Three significant digits, or a dash."""
    if seconds is None:
        return "–"
    ms = seconds * 1e3
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.3f}"


def median(values):
    """The median, or None of nothing."""
    return statistics.median(values) if values else None


def table(head, rows):
    """A markdown table; the first two columns are text."""
    lines = ["| " + " | ".join(head) + " |"]
    lines.append("| " + " | ".join("---" if n < 2 else "--:" for n in range(len(head))) + " |")
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines)


def write(out, text, report):
    """Writes OUT.md and OUT.json: aside, then renamed, so that a run that is ended leaves whole files."""
    out.parent.mkdir(parents=True, exist_ok=True)
    for ending, content in ((".md", text), (".json", json.dumps(report, indent=1))):
        aside = out.with_name(f"{out.name}{ending}.part")
        aside.write_text(content + "\n")
        os.replace(aside, out.with_name(out.name + ending))
