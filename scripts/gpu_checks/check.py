"""Runs the chosen steps, and writes the report after every row."""

import json
import platform
import time

from .machine import Machine, OutOfTime, Skipped
from .report import Report
from .steps import STEPS, graphs


def listing(machine):
    """What `gnnc devices` says; a RuntimeError if it says nothing."""
    done = machine.run([machine.gnnc, "devices", "--format", "json"], "devices")
    try:
        return json.loads(done.read("out"))
    except ValueError:
        raise RuntimeError(f"gnnc devices: {done.ending()}: {done.read('err').strip()[-300:]}") from None


def about(listed):
    """The machine in words."""
    gpus = [f"{gpu['name']}, {gpu['arch']}, {gpu['memory_bytes'] / 2**30:.0f} GiB" for gpu in listed["gpus"]]
    libraries = [f"{entry['name']} {entry.get('version', 'missing')}" for entry in listed["libraries"]]
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return [f"{day}, {'; '.join(gpus) or 'no GPU'}; {', '.join(libraries)}.", f"{listed['processor']}, {platform.platform()}."]


def outcome(work):
    """What a row gives, whatever happens in it."""
    try:
        return work()
    except OutOfTime as error:
        return "unfinished", str(error)
    except Skipped as error:
        return "skipped", str(error)
    except Exception as error:  # one row must not end the others
        return "failed", str(error) if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}"


def do(step, machine, listed, report):
    """All rows of a step."""
    rows, seconds = STEPS[step]
    machine.budget(seconds)
    if step not in ("devices", "suite") and not listed["gpus"]:
        report.note(step, "all", "skipped", listed["no_gpu"])
        return
    try:
        for name, work in rows(machine, listed):
            if machine.options.rows and machine.options.rows not in name:
                continue
            begun = time.monotonic()
            found, words = outcome(work)
            report.note(step, name, found, words, time.monotonic() - begun)
    except OutOfTime as error:
        report.note(step, "the step itself", "unfinished", str(error))
    except Exception as error:  # nor one step
        report.note(step, "the step itself", "failed", f"{type(error).__name__}: {error}")


def run(folder, options):
    """Runs the steps; 0 if all of them passed or were skipped."""
    options.out.mkdir(parents=True, exist_ok=True)
    report = Report(options.out, [*options.only, "graphs"])
    machine = Machine(folder, options)
    try:
        listed = {"gpus": [], "libraries": [], "processor": "", "no_gpu": "gnnc devices failed"}
        try:
            listed = listing(machine)
        except (RuntimeError, OutOfTime) as error:
            report.note("devices", "gnnc devices", "failed", str(error))
        report.about = about(listed)
        measured = list(STEPS) if options.make_graphs else options.only
        wanted = {graph: None for step in measured for graph in graphs(step, options)}
        machine.make_graphs(wanted if listed["gpus"] else [])
        for step in options.only:
            do(step, machine, listed, report)
        machine.budget(options.seconds)
        for name in list(machine.background):
            found, words = outcome(lambda name=name: machine.graph(name) or ("passed", ""))
            report.note("graphs", name, found, words)
    finally:
        machine.end()
        report.write()
    counts = report.counts()
    print(f"{report.in_words()}; {options.out / 'report.md'}")
    return 1 if counts["failed"] or counts["unfinished"] else 0
