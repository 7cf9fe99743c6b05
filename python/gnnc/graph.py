"""Data graphs."""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
import warnings
from typing import Any, Sequence

import numpy as np

from . import _gnnc
from .errors import InputError


def array(values: Any) -> np.ndarray:
    """An array of whatever NumPy or PyTorch has, without a copy if it is in the processor's memory and dense."""
    if hasattr(values, "detach"):
        values = values.detach()
        if getattr(values, "is_sparse", False):
            values = values.to_dense()
        values = values.cpu().numpy()
    elif hasattr(values, "toarray"):
        values = values.toarray()
    return np.asarray(values)


def loops_of(edges: np.ndarray, vertices: int) -> str:
    """`none`, `all` or `some` of the vertices have an edge to themselves; `all` have exactly one."""
    loops = edges[0][edges[0] == edges[1]]
    if not len(loops):
        return "none"
    return "all" if len(loops) == vertices == len(np.unique(loops)) else "some"


class Graph:
    """A data graph: edges, features, labels and the vertices to train, validate and test on.

    edge_index:  `(2, edges)` numbers of vertices; row 0 are sources, row 1 targets
    x:           `(vertices, features)` features
    y:           a class for each vertex (whole numbers, -1 if unknown), or numbers for each vertex; with `batch`, for each
                 graph
    *_mask:      whether a vertex is in the split; with `batch`, whether a graph is
    edge_attr:   a number or a row of numbers for each edge
    edge_type:   the type of each edge, below `num_relations`
    num_nodes:   number of vertices, if neither `x` nor `y` says it
    name:        the name of the graph in plans and messages
    arrays:      further arrays of an .npz graph (docs/data.md), such as `batch`, `pos` or `node_type`

    Features that are float32 and row by row are used where they are, without a copy, unless at most a quarter of them are
    nonzero: do not change them while the graph is in use. All else is copied: edges are sorted by their targets.

    gnnc keeps neither repeated edges nor self loops; layers add self loops where they need them. `self_loops` says which
    vertices had one: `none`, `all` or `some`.
    """

    def __init__(
        self,
        edge_index: Any,
        x: Any = None,
        y: Any = None,
        train_mask: Any = None,
        val_mask: Any = None,
        test_mask: Any = None,
        edge_attr: Any = None,
        *,
        edge_type: Any = None,
        num_relations: int | None = None,
        num_nodes: int | None = None,
        name: str = "graph",
        **arrays: Any,
    ) -> None:
        edges = array(edge_index)
        if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
            raise InputError(
                f"found edge_index of type {edges.dtype} and shape {edges.shape}, expected whole numbers of shape (2, edges)"
            )
        given = {
            "x": x,
            "y": y,
            "train_mask": train_mask,
            "val_mask": val_mask,
            "test_mask": test_mask,
            "edge_attr": edge_attr,
            "edge_type": edge_type,
            "relations": None if num_relations is None else np.array([num_relations]),
            **arrays,
        }
        known = {key: array(value) for key, value in given.items() if value is not None}
        if num_nodes is None:
            rows = [len(known[key]) for key in ("x", "y", "train_mask") if key in known and "batch" not in known]
            num_nodes = rows[0] if rows else None
        shared = None
        plain = not {"batch", "node_type"} & set(known)
        if plain and "x" in known and known["x"].ndim == 2:
            shared = np.ascontiguousarray(known.pop("x"), dtype=np.float32)
        if plain and num_nodes is not None:
            known["num_nodes"] = np.array([num_nodes])
            # Rows that prove the number of vertices.
            known.setdefault("train_mask", np.zeros(int(num_nodes), dtype=bool))
        file = io.BytesIO()
        np.savez(file, edge_index=edges, **known)  # type: ignore[arg-type]
        self._native = _gnnc.Graph.from_archive(file.getvalue(), name, shared)
        self.self_loops = loops_of(edges, self.num_nodes - self._native.subjects)

    @classmethod
    def _of(cls, native: _gnnc.Graph) -> Graph:
        graph = cls.__new__(cls)
        graph._native = native
        graph.self_loops = "some" if native.self_loops else "none"
        return graph

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Graph:
        """Reads a graph file or a folder of OGB, DGL or TU Dortmund, as the command line does (docs/data.md)."""
        return cls._of(_gnnc.Graph.read(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a graph file for the command line; `.npz` holds all of a graph but edges from a vertex to itself.

        Warns of what the file cannot hold: those edges and, in `.mtx`, `.graph`, `.csv`, `.tsv` and `.txt` (each also
        with `.gz`), features, labels and masks. A model adds such edges itself (`gcn_conv`, `add_self_loops`).
        """
        lost = self._native.save(os.fspath(path))
        if self.self_loops != "none":
            lost = ["self-loops", *lost]
        if lost:
            warnings.warn(f"{os.fspath(path)}: not saved, as the format cannot hold it: {', '.join(lost)}", stacklevel=2)

    @classmethod
    def from_pyg(cls, data: Any, *, split: int = 0, name: str = "graph", **more: Any) -> Graph:
        """A graph of a `Data` or a `Batch` of PyTorch Geometric.

        Takes `edge_index` or `adj_t`, `x`, `y`, the masks, `edge_attr` or `edge_weight`, `edge_type` and `batch`. Of masks
        with several columns, takes column `split`. `more` goes to `Graph`, such as `num_relations`.
        """
        if hasattr(data, "node_types"):
            raise InputError("found a HeteroData, expected a Data; call its method to_homogeneous() first")
        edges = getattr(data, "edge_index", None)
        weights = getattr(data, "edge_attr", None)
        weights = getattr(data, "edge_weight", None) if weights is None else weights
        if edges is None:
            adjacency = getattr(data, "adj_t", None)
            if adjacency is None:
                raise InputError("found a Data without edge_index and adj_t, expected one of them")
            row, column, value = adjacency.coo()
            edges = np.stack([array(column), array(row)])
            weights = value if weights is None else weights

        def mask(key: str) -> np.ndarray | None:
            found = getattr(data, key, None)
            if found is None:
                return None
            found = array(found)
            return found if found.ndim == 1 else found[:, split]

        taken = {key: getattr(data, key, None) for key in ("x", "y", "edge_type", "batch")}
        taken.update({key: mask(key) for key in ("train_mask", "val_mask", "test_mask")})
        taken["num_nodes"] = None if taken["batch"] is not None else data.num_nodes
        return cls(edges, edge_attr=weights, name=name, **{**taken, **more})

    @classmethod
    def from_dgl(
        cls,
        graph: Any,
        *,
        features: str = "feat",
        labels: str = "label",
        edge_features: str | None = None,
        edge_type: str | None = None,
        name: str = "graph",
        **more: Any,
    ) -> Graph:
        """A graph of a homogeneous `DGLGraph`.

        `features` and `labels` are keys of `ndata`, `edge_features` and `edge_type` of `edata`; the masks are `train_mask`,
        `val_mask` and `test_mask` of `ndata`.
        """
        if not getattr(graph, "is_homogeneous", True):
            raise InputError("found a DGLGraph with several types, expected one; call dgl.to_homogeneous first")
        sources, targets = graph.edges()
        vertex = {key: graph.ndata[key] for key in graph.ndata}
        taken = {key: vertex.get(key) for key in ("train_mask", "val_mask", "test_mask")}
        taken["x"], taken["y"] = vertex.get(features), vertex.get(labels)
        taken["edge_attr"] = None if edge_features is None else graph.edata[edge_features]
        taken["edge_type"] = None if edge_type is None else graph.edata[edge_type]
        edges = np.stack([array(sources), array(targets)])
        return cls(edges, num_nodes=graph.num_nodes(), name=name, **{**taken, **more})

    @classmethod
    def from_scipy(cls, matrix: Any, x: Any = None, y: Any = None, *, weights: bool = False, **more: Any) -> Graph:
        """A graph of a square sparse matrix: row `u`, column `v` is the edge from `u` to `v`.

        With `weights`, its values are the numbers of the edges. Stored zeros are edges then, and left out otherwise.
        """
        if matrix.shape[0] != matrix.shape[1]:
            raise InputError(
                f"found a matrix of shape {matrix.shape}, expected a square one, with a row for each vertex"
            )
        entries = matrix.tocoo()
        edges = np.stack([entries.row, entries.col])
        if weights:
            more["edge_attr"] = np.asarray(entries.data, dtype=np.float32)
        else:
            edges = edges[:, entries.data != 0]
        return cls(edges, x, y, num_nodes=matrix.shape[0], **more)

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        features: Sequence[str] | None = None,
        label: str | None = None,
        weight: str | None = None,
        **more: Any,
    ) -> Graph:
        """A graph of NetworkX, whose vertices are numbered in its order; edges without a direction become two.

        `features` are names of attributes of vertices, numbers or lists; `label` is one such name, with a whole number;
        `weight` is an attribute of edges.
        """
        number = {vertex: at for at, vertex in enumerate(graph.nodes)}
        listed = [(number[u], number[v], about) for u, v, about in graph.edges(data=True)]
        if not graph.is_directed():
            listed += [(v, u, about) for u, v, about in listed if u != v]
        edges = np.array([(u, v) for u, v, _ in listed], dtype=np.int64).reshape(-1, 2).T
        try:
            if weight is not None:
                more["edge_attr"] = np.array([about[weight] for _, _, about in listed], dtype=np.float32)
            if features is not None:
                rows = [
                    np.concatenate([np.ravel(about[key]) for key in features]) for _, about in graph.nodes(data=True)
                ]
                more["x"] = np.array(rows, dtype=np.float32)
            if label is not None:
                more["y"] = np.array([about[label] for _, about in graph.nodes(data=True)])
        except KeyError as error:
            raise InputError(f"not every vertex or edge of the NetworkX graph has the attribute {error}") from error
        return cls(edges, num_nodes=len(number), **more)

    @classmethod
    def from_pandas(
        cls,
        edges: Any,
        nodes: Any = None,
        *,
        symmetrize: bool = False,
        split: Sequence[float] | None = None,
        stratified: bool = False,
        seed: int = 0,
        name: str = "graph",
    ) -> Graph:
        """A graph of tables: a row for each edge, and a row for each vertex.

        Columns are found by their names, as `gnnc graph import` does (docs/data.md): `source`, `target` and `type` of edges,
        `id`, `label` and `split` of vertices; other columns of numbers are features. Ids may be any text.

        symmetrize: add the missing reverse edges
        split:      shares of the training, validation and test vertices, such as `(0.6, 0.2, 0.2)`, drawn by `seed`, each
                    class alike if `stratified`
        """
        shares = None if split is None else [float(share) for share in split]
        if shares is not None and not (len(shares) == 3 and min(shares) >= 0 and sum(shares) <= 1 + 1e-9):
            raise InputError(f"found split={split}, expected three shares from 0 to 1 that are at most 1 together")
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for table, file in ((edges, "edges.csv"), (nodes, "nodes.csv")):
                if table is not None:
                    paths.append(os.path.join(folder, file))
                    table.to_csv(paths[-1], index=False)
            native = _gnnc.Graph.from_tables(
                paths[0], paths[1] if nodes is not None else None, name, symmetrize, shares, stratified, seed
            )
        return cls._of(native)

    @property
    def name(self) -> str:
        """The name in plans and messages."""
        return self._native.name

    @property
    def num_nodes(self) -> int:
        """Number of vertices."""
        return self._native.vertices

    @property
    def num_edges(self) -> int:
        """Number of stored edges: one for each direction, without self loops and repeats."""
        return self._native.edges

    @property
    def num_features(self) -> int:
        """Features of a vertex."""
        return self._native.features

    @property
    def num_classes(self) -> int:
        """Classes, or numbers per vertex; 0 without labels."""
        return self._native.classes

    @property
    def num_graphs(self) -> int:
        """Graphs of a file of many graphs, whose labels, scores and predictions are of graphs; 0 of a single graph.

        The last vertices stand for the graphs.
        """
        return self._native.subjects if self._sets().get("graphs") else 0

    @property
    def predicts_pairs(self) -> bool:
        """Whether labels, scores and predictions are of pairs of vertices."""
        return self._native.subjects > 0 and not self.num_graphs

    def _sets(self) -> dict[str, int]:
        """Edges of each named set."""
        return {of["name"]: of["edges"] for of in self.statistics.get("edge_sets", [])}

    @property
    def repeated_edges(self) -> int:
        """How many repeated edges were left out."""
        return self._native.repeats

    @property
    def statistics(self) -> dict[str, Any]:
        """What plans know of the graph, as `gnnc graph stats --format json` prints it."""
        return json.loads(self._native.statistics())

    @property
    def word(self) -> str:
        """The name as one word of the language."""
        name = re.sub(r"\W", "_", self.name)
        return name if re.match("[A-Za-z]", name) else f"graph_{name}"

    def item(self, name: str | None = None, *, identity: bool = False, classes: int | None = None) -> str:
        """The statistics of the graph as an item of a model's text: enough to plan with the command line.

        identity: whether each vertex has a feature of its own, in place of those of the graph
        classes:  numbers that a model computes for a vertex, if the labels do not have all of them
        """
        about = self.statistics
        train, val, test = about["split"]
        lines = {
            "vertices": about["vertices"],
            "edges": about["edges"],
            "features": "identity" if identity else about["features"],
            "classes": classes or about["classes"],
            "train": train,
            "val": val,
            "test": test,
            "max_degree": about["max_degree"],
            "relations": about.get("relations"),
            "edge_features": about.get("edge_features"),
        }
        if sets := self._sets():
            lines["edge_sets"] = "{ " + ", ".join(f'"{name}": {edges}' for name, edges in sets.items()) + " }"
        if not identity and about["features"]:
            density = about["feature_nonzeros"] / (about["vertices"] * about["features"])
            lines["feature_density"] = f"{min(density, 1.0):.6g}"
        body = "".join(f"  {key} = {value}\n" for key, value in lines.items() if value is not None)
        return f"graph {name or self.word} {{\n{body}}}\n"

    def __repr__(self) -> str:
        about = f"{self.num_nodes} vertices, {self.num_edges} edges, {self.num_features} features, {self.num_classes} classes"
        return f"<gnnc.Graph {self.name}: {about}>"
