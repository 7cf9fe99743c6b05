"""Training from the same weights loses what PyTorch loses, within 1e-4 over 20 epochs, and what users do with runs."""

import copy
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import gnnc  # noqa: E402
import modules  # noqa: E402
from test_layers import arguments, seeded  # noqa: E402

TOLERANCE = 1e-4
EPOCHS = 20
DEVICE = os.environ.get("GNNC_TEST_DEVICE", "cpu")  # cuda on a machine with a GPU


def adam(module):
    return torch.optim.Adam(module.parameters(), lr=0.01, weight_decay=5e-4)


def curve(module, data, make=adam, loss=torch.nn.functional.cross_entropy):
    """The losses of PyTorch; trains a copy of the module and returns it too."""
    module = copy.deepcopy(module).train()
    optimizer = make(module)
    losses = []
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        out = module(*arguments(module, data))
        value = loss(out[data.train_mask], data.y[data.train_mask])
        value.backward()
        optimizer.step()
        losses.append(float(value.detach()))
    return np.array(losses), module


def undropped(module):
    """The module without dropout."""
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    return module


def agree(module, data, make=adam, **options):
    """Compares losses, and the weights that come back into PyTorch."""
    module = undropped(module)
    graph = gnnc.Graph.from_pyg(data)
    expected, trained = curve(module, data, make, **options)
    model = gnnc.from_torch(module, graph, optimizer=make(module))
    run = gnnc.train(model, graph, epochs=EPOCHS, device=DEVICE)
    assert len(run.losses) == EPOCHS
    assert expected[-1] < expected[0]
    assert np.abs(run.losses - expected).max() <= TOLERANCE
    run.last.to_torch(graph=graph)
    with torch.no_grad():
        found, wanted = (part.eval()(*arguments(part, data)) for part in (module, trained))
    if not run.last.source.norms:
        assert (found - wanted).abs().max() <= 20 * TOLERANCE


@pytest.mark.parametrize("name", modules.PLAIN)
def test_losses_on_a_directed_graph(name, directed):
    data = directed.data()
    agree(seeded(modules.PLAIN[name], data.num_features, 4), data)


@pytest.mark.parametrize("name", modules.PLAIN)
def test_losses_on_cora(name, cora):
    data = cora.data()
    agree(seeded(modules.PLAIN[name], data.num_features, 7), data)


@pytest.mark.parametrize("name", [*modules.WEIGHTED, *modules.TYPED])
def test_losses_with_weights_and_types_of_edges(name, directed):
    data = directed.data()
    make, sizes = (modules.WEIGHTED[name], ()) if name in modules.WEIGHTED else (modules.TYPED[name], (3,))
    agree(seeded(make, data.num_features, 4, *sizes), data)


@pytest.mark.parametrize("norm", [torch.nn.BatchNorm1d, modules.pyg.BatchNorm])
def test_losses_with_running_statistics(norm, directed):
    data = directed.data()
    agree(seeded(lambda i, o: modules.Normed(i, o, norm(modules.HIDDEN)), data.num_features, 4), data)


OPTIMIZERS = {
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9),
    "adamw": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1),
    "adagrad": lambda m: torch.optim.Adagrad(m.parameters(), lr=0.02, weight_decay=1e-3),
    "groups": lambda m: torch.optim.Adam(
        [{"params": m.conv1.parameters(), "weight_decay": 5e-2}, {"params": m.conv2.parameters(), "weight_decay": 0.0}],
        lr=0.01,
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name, directed):
    data = directed.data()
    agree(seeded(modules.PLAIN["SAGEConv"], data.num_features, 4), data, OPTIMIZERS[name])


LOSSES = [
    (torch.nn.CrossEntropyLoss(label_smoothing=0.1), None),
    (torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5, 1.0])), None),
    (
        torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0, 1.0])),
        lambda y: torch.nn.functional.one_hot(y, 4).float(),
    ),
    (torch.nn.MSELoss(), lambda y: torch.stack([y.float(), 1 - y, y * 0.5, y * 0.0], 1)),
    (torch.nn.HuberLoss(delta=0.5), lambda y: torch.stack([y.float(), 1 - y, y * 0.5, y * 0.0], 1)),
]


@pytest.mark.parametrize("loss, labels", LOSSES)
def test_losses_of_pytorch(loss, labels, directed):
    data = directed.data()
    data.y = data.y if labels is None else labels(data.y)
    module = seeded(modules.PLAIN["GCNConv"], data.num_features, 4)
    graph = gnnc.Graph.from_pyg(data)
    expected, _ = curve(module, data, loss=loss)
    run = gnnc.train(gnnc.from_torch(module, graph, loss=loss, optimizer=adam(module)), graph, epochs=EPOCHS, device=DEVICE)
    assert np.abs(run.losses - expected).max() <= TOLERANCE


def small(directed, **options):
    data = directed.data()
    module = seeded(modules.PLAIN["GCNConv"], data.num_features, 4)
    graph = gnnc.Graph.from_pyg(data)
    return gnnc.from_torch(module, graph, **options), graph


def test_callbacks_see_epochs_and_end_runs(directed):
    model, graph = small(directed)
    seen = []
    run = gnnc.train(model, graph, epochs=50, callbacks=[seen.append, lambda epoch: epoch.epoch < 7])
    assert [epoch.epoch for epoch in seen] == list(range(1, 8))
    assert [epoch.loss for epoch in seen] == list(run.losses)
    last = seen[-1]
    assert last.epochs == 50 and last.metric == "accuracy" and 0 <= last.val <= 1 and last.val_loss > 0
    assert run.summary["epochs"] == 7 and run.summary["interrupted"]


def test_an_exception_of_a_callback_ends_a_run_and_keeps_it(directed):
    model, graph = small(directed)

    def fail(epoch):
        if epoch.epoch == 3:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough") as error:
        gnnc.train(model, graph, epochs=50, callbacks=fail)
    assert len(error.value.run.losses) == 3


def test_the_best_epoch_is_kept_beside_the_last(directed):
    model, graph = small(directed, optimizer="adam(lr = 0.1)")
    seen = []
    run = gnnc.train(model, graph, epochs=40, callbacks=seen.append)
    best = min(seen, key=lambda epoch: epoch.val_loss)
    assert run.summary["best_epoch"] == best.epoch < 40
    assert run.predict().scores["val"] == best.val
    assert gnnc.predict(run.last, graph).scores["val"] == seen[-1].val
    assert any((run.model.weights[name] != run.last.weights[name]).any() for name in run.model.weights)


def test_checkpoints_are_those_of_the_command_line(directed, tmp_path):
    model, graph = small(directed)
    file = tmp_path / "run.ckpt"
    half = gnnc.train(model, graph, epochs=10, checkpoint=file)
    rest = gnnc.train(model, graph, epochs=20, resume=file)
    whole = gnnc.train(model, graph, epochs=20)
    assert (np.concatenate([half.losses, rest.losses]) == whole.losses).all()
    found = gnnc.predict(model, graph, checkpoint=file, last=True).logits
    assert (found == gnnc.predict(half.last, graph).logits).all()


def test_workers_train_alike(directed):
    model, graph = small(directed)
    one = gnnc.train(model, graph, epochs=10)
    for options in (
        {"workers": 2},
        {"workers": 3, "placement": "broadcast"},
        {"workers": 2, "placement": "best"},
        {"threads": 2},
    ):
        assert np.abs(gnnc.train(model, graph, epochs=10, device=DEVICE, **options).losses - one.losses).max() <= TOLERANCE


def test_batches_of_all_neighbors_train_as_the_whole_graph_does(directed):
    model, graph = small(directed)
    whole = gnnc.train(model, graph, epochs=10)
    batches = {"batch": 1000, "fanouts": [10_000, 10_000]}
    run = gnnc.train(model, graph, epochs=10, allow=["sample"], knobs=batches)
    assert np.abs(run.losses - whole.losses).max() <= TOLERANCE
    few = gnnc.train(model, graph, epochs=10, allow=["sample"], workers=2, knobs={"batch": 16, "fanouts": [3, 3]})
    assert few.losses[-1] < few.losses[0]
    with pytest.raises(gnnc.InputError, match="--allow sample"):
        gnnc.train(model, graph, placement="minibatch", knobs=batches)


def test_knobs_are_those_of_the_command_line(directed):
    model, graph = small(directed)
    plain = gnnc.train(model, graph, epochs=5, workers=4)
    tiers = gnnc.train(model, graph, epochs=5, workers=4, knobs={"node_ranks": 2, "overlap": False})
    assert np.abs(tiers.losses - plain.losses).max() <= TOLERANCE
    assert "bytes_crossed" not in plain.summary and tiers.summary["bytes_crossed"] > 0
    for knobs, said in (
        ({"wires": "int8"}, "found the knob wires=int8, expected one of partitioner, overlap"),
        ({"wire": "int7"}, "found the knob wire=int7, expected"),
    ):
        with pytest.raises(gnnc.InputError, match=said):
            gnnc.train(model, graph, knobs=knobs)


def test_a_run_follows_a_plan(directed):
    model, graph = small(directed)
    cluster = "nodes=1 gpus=4 gpu=cpu-core"
    plan = gnnc.plan(model, graph=graph, cluster=cluster, pin={"placement": "tensor", "ranks": 4, "slices": 2})
    assert plan.chosen["placement"] == "tensor" and plan.chosen["parameters"]["ranks"] == 4
    run = gnnc.train(model, graph, epochs=5, plan=plan)
    same = gnnc.train(model, graph, epochs=5, workers=4, placement="tensor", knobs={"slices": 2})
    assert run.summary["workers"] == 4 and (run.losses == same.losses).all()
    assert run.summary["bytes_sent"] == run.summary["bytes_predicted"] == same.summary["bytes_sent"] > 0
    with pytest.raises(gnnc.InputError, match="a plan fixes the workers"):
        gnnc.train(model, graph, plan=plan, workers=2)
    other = gnnc.from_torch(seeded(modules.PLAIN["SAGEConv"], graph.num_features, 4), graph)
    with pytest.raises(gnnc.InputError):
        gnnc.train(other, graph, plan=plan)
    with pytest.raises(gnnc.InputError, match="found the pin plaement=graph, expected placement=NAME"):
        gnnc.plan(model, graph=graph, pin={"plaement": "graph"})
    with pytest.raises(gnnc.InputError, match="expected at most 4, the devices of the cluster"):
        gnnc.plan(model, graph=graph, cluster=cluster, pin={"ranks": 5})


def test_runs_keep_what_callbacks_see(directed):
    model, graph = small(directed)
    seen = []
    run = gnnc.train(model, graph, epochs=4, callbacks=seen.append)
    assert run.history == seen and len(seen) == 4
    assert [epoch.loss for epoch in gnnc.train(model, graph, epochs=4).history] == list(run.losses)


def test_weights_go_into_another_module_of_the_kind(directed):
    model, graph = small(directed)
    run = gnnc.train(model, graph, epochs=5)
    data = directed.data()
    other = modules.PLAIN["GCNConv"](data.num_features, 4).eval()
    assert run.to_torch(other) is other
    with torch.no_grad():
        found = other(data.x, data.edge_index).numpy()
    assert np.abs(found - run.predict().logits).max() <= 1e-5
    with pytest.raises(
        gnnc.InputError, match=r"`conv1.lin.weight` has shape \(16, 3\) in the module, expected \(16, 12\)"
    ):
        run.to_torch(modules.PLAIN["GCNConv"](3, 4))


def test_the_lock_is_free_while_a_run_works(cora):
    data = cora.data()
    graph = gnnc.Graph.from_pyg(data)
    model = gnnc.from_torch(modules.Jumping(data.num_features, 7, "cat"), graph)
    counted, ended = [0], threading.Event()

    def count():
        while not ended.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    begin = time.perf_counter()
    gnnc.train(model, graph, epochs=100)
    seconds = time.perf_counter() - begin
    ended.set()
    thread.join()
    # A thread that never got the lock would have counted once or twice.
    assert counted[0] > 100 * seconds


INTERRUPTED = """
    import sys, gnnc
    from conftest import load_cora
    arrays = load_cora()
    graph = gnnc.Graph(**arrays)
    model = gnnc.Model('''
        model m() on g { loss cross_entropy(x |> gcn_conv(64) |> relu |> gcn_conv(7), labels, on = train) }
    ''')
    def first(epoch):
        if epoch.epoch == 1:
            print("begun", flush=True)
    try:
        gnnc.train(model, graph, epochs=10**6, callbacks=first, checkpoint=sys.argv[1])
    except KeyboardInterrupt as stop:
        print("epochs", len(stop.run.losses), stop.run.summary["interrupted"])
        raise
"""


def test_ctrl_c_ends_a_run_within_seconds(tmp_path):
    file = tmp_path / "run.ckpt"
    command = [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(file)]
    folders = [os.path.dirname(__file__), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    # Shells start what runs in the background with this signal ignored.
    heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, preexec_fn=heard)
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.5)
    begin = time.perf_counter()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert time.perf_counter() - begin < 5
    assert err.strip().endswith("KeyboardInterrupt")
    word, epochs, interrupted = out.split()
    assert word == "epochs" and int(epochs) >= 1 and interrupted == "True"
    assert file.exists()
