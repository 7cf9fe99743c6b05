"""What passed, failed, was skipped or not finished; written anew after every row."""

import json
import re

from .processes import say, write

OUTCOMES = ("passed", "failed", "unfinished", "skipped")


def clean(text):
    """A cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|")[:400]


class Report:
    """Rows by step, in `report.md` and `report.json` of a folder; other steps that are there already stay."""

    def __init__(self, folder, steps):
        self.folder, self.about = folder, []
        try:
            kept = json.loads((folder / "report.json").read_text())["steps"]
        except (OSError, ValueError, KeyError):
            kept = {}
        self.steps = {step: rows for step, rows in kept.items() if step not in steps}

    def note(self, step, name, outcome, words="", seconds=None):
        """One result, of `OUTCOMES`."""
        row = {"name": name, "outcome": outcome, "words": words, "seconds": seconds}
        self.steps.setdefault(step, []).append(row)
        say(f"{step}: {name}: {outcome}{': ' if words else ''}{words[:300]}")
        self.write()

    def counts(self, step=None):
        """How many rows have each outcome."""
        rows = [row for name, rows in self.steps.items() if step in (None, name) for row in rows]
        return {kind: sum(row["outcome"] == kind for row in rows) for kind in OUTCOMES}

    def in_words(self, step=None):
        """The counts, in words."""
        return ", ".join(f"{n} {kind}" for kind, n in self.counts(step).items() if n) or "nothing ran"

    def markdown(self):
        """The report as text."""
        lines = ["# gnnc on a GPU", "", *self.about, "", f"Together: {self.in_words()}.", ""]
        for step, rows in self.steps.items():
            lines += [f"## {step}: {self.in_words(step)}", "", "| what | outcome | | s |", "| --- | --- | --- | --: |"]
            for row in rows:
                seconds = "" if row["seconds"] is None else f"{row['seconds']:.1f}"
                lines.append(f"| {clean(row['name'])} | {row['outcome']} | {clean(row['words'])} | {seconds} |")
            lines.append("")
        for path in sorted(self.folder.glob("gpu-*.md")):
            lines += [f"## {path.stem}", "", path.read_text()]
        return "\n".join(lines)

    def write(self):
        """Writes what is known so far."""
        write(self.folder / "report.json", json.dumps({"about": self.about, "steps": self.steps}, indent=1) + "\n")
        write(self.folder / "report.md", self.markdown() + "\n")
