"""What type checkers see of the package: all of it has types, and programs that use it are checked."""

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("mypy")

PUBLIC = ["gnnc", "gnnc.errors", "gnnc.graph", "gnnc.model", "gnnc.plan", "gnnc.train"]
PROGRAM = """
    import numpy as np

    import gnnc

    graph = gnnc.Graph(np.array([[0, 1], [1, 0]]), np.ones((2, 3)), y=np.array([0, 1]), num_nodes=2)
    plan = gnnc.plan("m.gir", graph=graph, gpus=8, allow=["stale"], pin={"placement": "graph"})
    chosen = plan.chosen
    name: str = chosen["name"] if chosen else ""
    ended: list[float] = []

    def watch(epoch: gnnc.Epoch) -> bool:
        ended.append(epoch.val_loss or epoch.loss)
        return epoch.loss > 0.1

    run = gnnc.train("m.gir", graph, epochs=3, callbacks=watch, knobs={"batch": 32, "fanouts": [5, 5]}, plan=plan)
    classes: np.ndarray = run.predict().classes
"""
WRONG = {
    'gnnc.plan("m.gir", gpu=8)': "call-arg",
    'gnnc.train("m.gir", epochs="3")': "arg-type",
    "gnnc.Graph.load(3)": "arg-type",
    'gnnc.predict("m.gir").logit': "attr-defined",
}


def checked(folder, *words):
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(folder / "cache"), "--no-error-summary", *words]
    # Not in the root, whose folder `python` has the sources.
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return (done.stdout + done.stderr).splitlines()


def test_programs_are_checked(tmp_path):
    file = tmp_path / "program.py"
    program = textwrap.dedent(PROGRAM)
    file.write_text(program + "\n".join(WRONG) + "\n")
    first = program.count("\n") + 1
    said = checked(tmp_path, "--strict", str(file))
    for at, (line, code) in enumerate(WRONG.items(), first):
        here = [one for one in said if f"program.py:{at}:" in one]
        assert any(one.endswith(f"[{code}]") for one in here), (line, said)
    assert all(int(one.split(":")[1]) >= first for one in said), said


def test_the_public_part_has_types(tmp_path):
    modules = [word for name in PUBLIC for word in ("-m", name)]
    missing = ["--disallow-untyped-defs", "--disallow-incomplete-defs", "--check-untyped-defs"]
    said = checked(tmp_path, *missing, "--follow-imports=silent", "--ignore-missing-imports", *modules)
    assert said == []
