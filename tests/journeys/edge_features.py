#!/usr/bin/env python3
"""Columns of a table of edges as features of edges, on a task that cannot be solved without them.

The user has payments between accounts with an amount and an hour. Every account receives as many payments from each of
three kinds of accounts; what kind of business it is, only the amounts say. The same model is trained with and without.
"""

import numpy as np

from journey import at_least, at_most, check, close, equal, facts, gnnc, run, table, write_table

KINDS = ["bank", "person", "shop"]
ACCOUNTS = 900
MODEL = """
graph payments = "payments.npz"

layer paid(h, out, amounts) {
  let sent = linear(h, out)
  let message = if amounts { sent@src * linear(edge_features, out) } else { sent@src }
  return linear(h, out) + gather(message, mean)
}

model net(hidden = 32, amounts = true) on payments {
  let h = x |> paid(hidden, amounts) |> relu
  let z = h |> linear(classes)
  loss cross_entropy(z, labels, on = train)
}

train {
  optimizer = adam(lr = 0.01)
  epochs = 200
}
"""


def tables(random):
    """Accounts with a kind and a class, and payments whose amounts are large from one kind, which is the class."""
    kind = np.arange(ACCOUNTS) % 3
    business = random.integers(0, 3, ACCOUNTS)
    rows = []
    for account in range(ACCOUNTS):
        for of in range(3):
            others = np.flatnonzero((kind == of) & (np.arange(ACCOUNTS) != account))
            for payer in random.choice(others, 4, replace=False):
                amount = random.lognormal(1.0 if of == business[account] else 0.0, 0.5)
                rows.append((f"a{payer}", f"a{account}", f"{amount:.3f}", random.integers(0, 24), "eur"))
    write_table("payments.csv", ["payer", "payee", "amount", "hour", "currency"], rows)
    accounts = ((f"a{n}", *(int(kind[n] == of) for of in range(3)), KINDS[business[n]]) for n in range(ACCOUNTS))
    write_table("accounts.csv", ["id", *(f"is_{name}" for name in KINDS), "business"], accounts)
    return rows, business


def main(folder):
    rows, business = tables(np.random.default_rng(5))
    ends = ["--source", "payer", "--target", "payee"]
    accounts = ["--nodes", "accounts.csv", "--label", "business", "--split", "0.5,0.2,0.3", "--stratified"]
    said = gnnc("graph", "import", "payments.csv", *ends, *accounts, "--out", "all.npz")
    check("amount" in said and "hour" in said, f"expected the columns that were taken in: {said}")
    check("currency" in said, f"expected the column that was left out in: {said}")
    equal("numbers of an edge", np.load("all.npz", allow_pickle=False)["edge_features"].shape, (len(rows), 2))
    only = ["--edge-features", "amount"]
    gnnc("graph", "import", "payments.csv", *ends, *accounts, *only, "--out", "payments.npz")

    # The numbers are those of the table, edge by edge.
    data = np.load("payments.npz", allow_pickle=False)
    targets = np.repeat(np.arange(ACCOUNTS), np.diff(data["indptr"]))
    found = dict(zip(zip(data["indices"].tolist(), targets.tolist()), data["edge_features"].ravel().tolist()))
    expected = {(int(u[1:]), int(v[1:])): float(amount) for u, v, amount, *_ in rows}
    equal("edges", set(found), set(expected))
    close("amounts", [found[edge] for edge in expected], list(expected.values()), 1e-4)

    (folder / "model.gir").write_text(MODEL)
    gnnc("check", "model.gir")
    report = facts("train", "model.gir", "--checkpoint", "run.ckpt", "--quiet")
    # Measured: 0.989.
    at_least("test accuracy with amounts", report["test_accuracy"], 0.93)
    without = facts("train", "model.gir", "--set", "amounts=0", "--checkpoint", "without.ckpt", "--quiet")
    # Measured: 0.328. A third is chance.
    at_most("test accuracy without amounts", without["test_accuracy"], 0.43)

    gnnc("predict", "model.gir", "--checkpoint", "run.ckpt", "--out", "p.csv", "--vertices", "test")
    predicted = table("p.csv")
    right = [row["class"] == KINDS[business[int(row["id"][1:])]] for row in predicted]
    close("test accuracy of the predictions", np.mean(right), report["test_accuracy"], 1e-9)

    # Two workers, who have the features of their edges, compute the same.
    both = facts("train", "model.gir", "--workers", 2, "--quiet")
    close("loss of two workers", both["train_loss"], report["train_loss"], 1e-3)

    # A graph without features of edges is refused by the model that reads them, and taken by the other.
    gnnc("graph", "import", "payments.csv", *ends, *accounts, "--edge-features", "none", "--out", "none.npz")
    message = gnnc("train", "model.gir", "--graph", "none.npz", "--epochs", 1, code=1)
    check("E0312" in message, f"expected E0312 in: {message}")
    gnnc("train", "model.gir", "--graph", "none.npz", "--set", "amounts=0", "--epochs", 1)


if __name__ == "__main__":
    run(main)
