"""The package itself: how long it takes to import, plans, and errors with the texts of the command line."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import gnnc
import numpy as np
import pytest

from conftest import ROOT

COMMAND = Path(os.environ.get("GNNC", ROOT / "target/release/gnnc"))
GCN = str(ROOT / "examples/gcn_cora.gir")


def command(*words):
    """What the command line prints, on both streams."""
    if not COMMAND.exists():
        pytest.skip(f"there is no command line at {COMMAND}; build it, or set GNNC")
    done = subprocess.run(
        [COMMAND, *words], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}
    )
    return done.stdout, done.stderr


def test_importing_takes_little_longer_than_numpy_and_leaves_torch_alone():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def seconds(package):
        code = f"import time; t = time.process_time(); import {package}; print(time.process_time() - t)"
        code += "; import sys; assert 'torch' not in sys.modules"
        return float(subprocess.check_output([sys.executable, "-c", code], env=environment))

    # Both by turns, so that a slow or a busy machine is slow for both.
    times = [(seconds("numpy"), seconds("gnnc")) for _ in range(5)]
    numpy, package = map(min, zip(*times))
    assert package < 2 * numpy


def test_the_package_has_types():
    folder = Path(gnnc.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_gnnc.pyi").exists()
    stub = (folder / "_gnnc.pyi").read_text()
    for name in dir(gnnc._gnnc):
        if not name.startswith("__"):
            assert f"class {name}" in stub or f"def {name}(" in stub, name
    for name in gnnc.__all__:
        assert getattr(gnnc, name).__doc__ if name != "__version__" else gnnc.__version__


def test_a_plan_is_that_of_the_command_line():
    plan = gnnc.plan(GCN, gpus=8)
    assert str(plan) == command("plan", GCN, "--gpus", "8")[0]
    assert plan.why == command("plan", GCN, "--gpus", "8", "--why", "--all")[0]
    assert plan.json == command("plan", GCN, "--gpus", "8", "--format", "json")[0]
    few = gnnc.plan(GCN, cluster="a100x8", nodes=2, objective="memory", storage="bf16", allow=["stale"], top=2)
    words = [
        "--cluster",
        "a100x8",
        "--nodes",
        "2",
        "--objective",
        "memory",
        "--storage",
        "bf16",
        "--allow",
        "stale",
        "--top",
        "2",
    ]
    assert str(few) == command("plan", GCN, *words)[0]


def test_a_plan_is_a_table():
    pytest.importorskip("pandas")
    plan = gnnc.plan(GCN, gpus=8)
    table = plan.to_dataframe()
    assert len(table) == len(plan.candidates) and table["chosen"].sum() == 1
    usable = table[table["fits"] & table["allowed"]]
    assert usable["epoch_seconds"].min() == table.loc[table["chosen"], "epoch_seconds"].item()
    assert (table["low_seconds"] <= table["epoch_seconds"]).all()
    assert table.loc[table["chosen"], "name"].item() == plan.chosen["name"]
    html = plan._repr_html_()
    assert html.count("<tr>") == 1 + min(10, len(table)) and plan.chosen["name"] in html
    assert json.loads(plan.json)["chosen"] == plan.data["chosen"]


def test_a_saved_plan_runs_on_the_command_line(tmp_path):
    plan = gnnc.plan(GCN, cluster="cpu", gpus=2)
    plan.save(tmp_path / "plan.json")
    out, err = command("train", str(tmp_path / "plan.json"), "--epochs", "2", "--quiet")
    assert "epochs" in out, err


def test_an_imported_module_is_planned_within_a_second(cora):
    pytest.importorskip("torch_geometric")
    import modules

    data = cora.data()
    graph = gnnc.Graph.from_pyg(data)
    module = modules.Jumping(data.num_features, 7, "cat")
    gnnc.plan(gnnc.from_torch(module, graph), graph=graph, gpus=8)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        gnnc.plan(gnnc.from_torch(module, graph), graph=graph, gpus=8)
        times.append(time.perf_counter() - begin)
    assert min(times) < 1


def test_the_text_of_an_imported_module_is_checked_and_planned_by_the_command_line(cora, tmp_path):
    pytest.importorskip("torch_geometric")
    import modules

    data = cora.data()
    graph = gnnc.Graph.from_pyg(data, name="cora")
    model = gnnc.from_torch(modules.PLAIN["GATv2Conv"](data.num_features, 7), graph)
    model.save(tmp_path / "model.gir")
    assert "no errors" in command("check", str(tmp_path / "model.gir"))[0]
    assert "chosen" in command("plan", str(tmp_path / "model.gir"), "--gpus", "8")[0]


def said(call, *words):
    """The text of an exception, and what the command line says of the same."""
    with pytest.raises(gnnc.Error) as error:
        call()
    text = command(*words)[1].strip()
    return str(error.value), text.removeprefix("error: ")


GRAPH = "graph g { vertices = 9 edges = 9 features = 4 classes = 2 }\n"
RIGHT = GRAPH + "model m() on g { let h = x |> gcn_conv(2) loss cross_entropy(h, labels, on = train) }\n"
WRONG = RIGHT.replace("gcn_conv", "gcn_con").replace("(h,", "(q,")
CASES = {
    "mistakes in a model": (WRONG, lambda file: gnnc.Model(file).check(), ["check"]),
    "a cluster": (RIGHT, lambda file: gnnc.plan(file, cluster="nope"), ["plan", "--cluster", "nope"]),
    "keys of a cluster": (RIGHT, lambda file: gnnc.plan(file, cluster="gpus=0"), ["plan", "--cluster", "gpus=0"]),
    "statistics": (RIGHT, gnnc.train, ["train"]),
    "a graph": (RIGHT.replace(GRAPH, 'graph g = "nothing.npz"\n'), gnnc.train, ["train"]),
    "a checkpoint": (
        None,
        lambda file: gnnc.predict(file, checkpoint="none.ckpt"),
        ["predict", "--checkpoint", "none.ckpt", "--out", "p.csv"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_errors_have_the_texts_of_the_command_line(name, tmp_path):
    text, call, words = CASES[name]
    file = tmp_path / "model.gir"
    file.write_text(text or "")
    path = str(file) if text else GCN
    found, expected = said(lambda: call(path), words[0], path, *words[1:])
    assert found == expected


def test_errors_are_of_kinds():
    assert issubclass(gnnc.InputError, ValueError) and issubclass(gnnc.MachineError, RuntimeError)
    assert issubclass(gnnc.UnsupportedError, gnnc.InputError)
    for call, text in [
        (lambda: gnnc.Model("nothing.gir"), "cannot read nothing.gir: No such file or directory"),
        (lambda: gnnc.plan(GCN, objective="fun"), "found the objective `fun`, expected one of time, memory, bytes"),
        (
            lambda: gnnc.plan(GCN, allow=["all"]),
            "found a permission `all`, expected one of decouple, stale, sample, quantise",
        ),
        (lambda: gnnc.plan(GCN, storage="f8"), "found the storage `f8`, expected one of"),
        (lambda: gnnc.train(GCN, placement="left"), "found the placement `left`, expected one of graph"),
        (lambda: gnnc.train(GCN, workers=0), "found 0 workers or threads, expected at least 1 of each"),
        (lambda: gnnc.train(GCN, device="tpu"), "found the device `tpu`, expected cpu, cuda or cuda:N"),
        (lambda: gnnc.train(GCN, np.ones(3)), "found a ndarray as the graph, expected a gnnc.Graph"),
        (lambda: gnnc.predict(GCN), "the model has no weights; train it"),
        (lambda: gnnc.Model(GCN, set={"hiden": 3}).check(), "E0404"),
        (lambda: gnnc.Model(GCN).to_torch(), "this model does not come from PyTorch"),
        (lambda: gnnc.predict(gnnc.Model(GCN, weights={"w": np.ones((1, 1, 1))})), "found `w`"),
        (lambda: gnnc.predict(gnnc.Model(GCN, weights={"w": np.ones(3)})), "expected (iterations, rows, columns)"),
    ]:
        with pytest.raises(gnnc.InputError) as error:
            call()
        assert text in str(error.value)


def test_a_run_that_diverges_says_so():
    with pytest.raises(gnnc.InputError, match="the loss is .* after epoch .*; try a smaller learning rate"):
        gnnc.train(GCN, epochs=20, lr=1e30)


def test_parameters_of_models_are_set():
    wide = gnnc.train(gnnc.Model(GCN, set={"hidden": 5, "train.patience": 3}), epochs=1)
    assert wide.model.weights["gcn_conv_1.weight"].shape == (1, 1433, 5)
    assert repr(wide.model).endswith(f": {1433 * 5 + 5 + 5 * 7 + 7} weights>")


def test_runs_with_one_seed_are_alike():
    one, other, third = (gnnc.train(GCN, epochs=3, seed=seed).losses for seed in (1, 1, 2))
    assert (one == other).all() and (one != third).any()


def test_predictions_have_probabilities_and_classes():
    run = gnnc.train(GCN, epochs=5)
    found = run.predict()
    assert found.labels == "class" and found.scores["metric"] == "accuracy"
    assert np.allclose(found.probabilities.sum(axis=1), 1, atol=1e-6)
    assert (found.classes == found.probabilities.argmax(axis=1)).all()
    assert run.embeddings("h").shape == (2708, 16)
