"""Plans."""

from __future__ import annotations

import html
import json
import os
from typing import Any, Iterable, Mapping

from . import _gnnc
from .graph import Graph
from .model import Model, model_of, native, words


class Plan:
    """The ways to place a model on a cluster, with their predicted times, best first.

    `str(plan)` is the text of `gnnc plan`, `plan.why` that of `gnnc plan --why --all`.
    """

    def __init__(self, text: str, why: str, names: list[str], plan: str) -> None:
        #: The plan as JSON, which `gnnc train` runs and `gnnc diff` compares.
        self.json = text
        #: The text with the reasons of all candidates.
        self.why = why
        #: The same as `json`, as dictionaries and lists.
        self.data = json.loads(text)
        self._names = names
        self._text = plan

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """The candidates as dictionaries, each with its `name`."""
        return [{"name": name, **about} for name, about in zip(self._names, self.data["candidates"])]

    @property
    def chosen(self) -> dict[str, Any] | None:
        """The chosen candidate; `None` if none fits and is allowed."""
        at = self.data["chosen"]
        return None if at is None else self.candidates[at]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan for `gnnc train FILE` and `gnnc diff`."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.json)

    def to_dataframe(self) -> Any:
        """The candidates as a table of pandas: times in seconds, memory and messages in bytes."""
        import pandas

        columns = [
            "epoch_seconds",
            "compute_seconds",
            "exposed_communication_seconds",
            "bubble_seconds",
            "bytes",
            "peak_memory_bytes",
            "fits",
            "allowed",
            "reason",
        ]
        rows = []
        for at, about in enumerate(self.candidates):
            row = {"name": about["name"], "placement": about["placement"], "ranks": about["parameters"]["ranks"]}
            row.update({key: about[key] for key in columns})
            low, high = about["range"]["low"], about["range"]["high"]
            rows.append({**row, "low_seconds": low, "high_seconds": high, "chosen": at == self.data["chosen"]})
        return pandas.DataFrame(rows)

    def _repr_html_(self) -> str:
        cells = []
        for at, about in enumerate(self.candidates[:10]):
            shown = [
                ">" if at == self.data["chosen"] else "",
                about["name"],
                f"{about['epoch_seconds'] * 1e3:.3g} ms",
                f"{about['bytes'] / 2**20:.3g} MiB",
                f"{about['peak_memory_bytes'] / 2**20:.4g} MiB",
                "fits" if about["fits"] else "does not fit",
                "allowed" if about["allowed"] else about["reason"].split(";")[0],
            ]
            cells.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in shown) + "</tr>")
        heads = ("", "candidate", "epoch", "sent", "memory", "fits", "allowed")
        head = "".join(f"<th>{head}</th>" for head in heads)
        cluster = self.data["cluster"]
        title = f"{self.data['model']} on {cluster['name']}: {cluster['nodes']} x {cluster['devices_per_node']} devices"
        reason = html.escape(self.chosen["reason"]) if self.chosen else "no candidate fits and is allowed"
        body = "".join(cells)
        return f"<p><b>{html.escape(title)}</b></p><table><tr>{head}</tr>{body}</table><p>{reason}</p>"

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        chosen = self.chosen
        return f"<gnnc.Plan of {self.data['model']}: {chosen['name'] if chosen else 'nothing chosen'}>"


def plan(
    model: Model | str | os.PathLike[str],
    *,
    graph: Graph | None = None,
    cluster: str | None = None,
    gpus: int | None = None,
    nodes: int | None = None,
    objective: str = "time",
    allow: Iterable[str] = (),
    storage: str = "f32",
    pin: Mapping[str, Any] | None = None,
    overlap: bool = True,
    top: int | None = None,
    evaluate_every: int | None = None,
) -> Plan:
    """Finds the best placement of a model on a cluster, without running it.

    model:     a `Model`, its text, or its path
    graph:     a `Graph` in place of the model's own
    cluster:   a name such as `cpu` or `h100x8`, a file, or keys such as `"nodes=2 gpus=4 gpu=a100-40 link=25gb"`
    gpus:      number of devices over all nodes; without `cluster`, of h100x8 nodes
    nodes:     number of nodes
    objective: what to minimize: `time`, `memory` or `bytes`
    allow:     relaxations to permit: `decouple`, `stale`, `sample`, `quantise`
    storage:   how tensors are stored: `f32`, `bf16` or `f16`
    pin:       consider only candidates with these values, such as `{"placement": "graph", "wire": "int8"}`, or plan for
               batches such as `{"batch": 1024, "fanouts": [25, 10]}`; the keys are those of `gnnc plan --pin`
    """
    model = model_of(model)
    model._fits(graph)
    how = {
        "cluster": cluster,
        "gpus": gpus,
        "nodes": nodes,
        "objective": objective,
        "allow": list(allow),
        "storage": storage,
        "pin": words(pin),
        "overlap": overlap,
        "top": top,
        "evaluate_every": evaluate_every,
    }
    text, short, long, names = _gnnc.plan(model._on(graph), native(graph), how)
    return Plan(text, long, names, short)
