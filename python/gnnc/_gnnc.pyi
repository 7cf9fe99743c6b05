"""The native part of gnnc. Use the functions of the package instead."""

from typing import Any, Callable, Optional

__version__: str
__build__: str

class Floats:
    """Floats that `numpy.asarray` has where they are."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

class Graph:
    @staticmethod
    def read(path: str) -> Graph: ...
    @staticmethod
    def from_archive(archive: bytes, name: str, x: Any = None) -> Graph: ...
    @staticmethod
    def from_tables(
        edges: str,
        nodes: Optional[str],
        name: str,
        symmetrize: bool,
        shares: Optional[list[float]],
        stratified: bool,
        seed: int,
    ) -> Graph: ...
    def save(self, path: str) -> list[str]: ...
    @property
    def name(self) -> str: ...
    @property
    def vertices(self) -> int: ...
    @property
    def edges(self) -> int: ...
    @property
    def features(self) -> int: ...
    @property
    def classes(self) -> int: ...
    @property
    def label_kind(self) -> str: ...
    @property
    def sparse_features(self) -> bool: ...
    @property
    def self_loops(self) -> int: ...
    @property
    def repeats(self) -> int: ...
    @property
    def subjects(self) -> int: ...
    @property
    def not_used(self) -> list[str]: ...
    def statistics(self) -> str: ...

def check(model: Any, graph: Optional[Graph] = None) -> tuple[str, str]: ...
def plan(model: Any, graph: Optional[Graph], how: dict[str, Any]) -> tuple[str, str, str, list[str]]: ...
def predict(
    model: Any,
    graph: Optional[Graph],
    weights: dict[str, Any],
    checkpoint: Optional[str],
    last: bool,
    workers: int,
    threads: int,
) -> dict[str, Any]: ...
def rows_of(
    model: Any,
    graph: Optional[Graph],
    name: str,
    weights: dict[str, Any],
    checkpoint: Optional[str],
    last: bool,
    workers: int,
    threads: int,
) -> Floats: ...
def train(
    model: Any,
    graph: Optional[Graph],
    weights: dict[str, Any],
    how: dict[str, Any],
    watch: Optional[Callable[[dict[str, Any]], bool]] = None,
) -> tuple[dict[str, Any], Optional[BaseException]]: ...
