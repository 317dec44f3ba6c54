"""Nodes, edges and graphs: what passes rewrite, masters cut and executors run.

A graph is a mapping from name to immutable node, in creation order; a pass makes a new graph. Node
and attribute names are TensorFlow's (`graph.proto`, `node_def.proto`).
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from tracer.model.refusal import Refusal

ITEM_BYTES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
}  #: bytes an element; a dtype that is not here (`string`, `resource`) has no fixed size

#: ops whose output is a variable itself; whoever wants a value of a ref variable reads it
REF_VARIABLE = "VariableV2"
HANDLES = ("VarHandleOp", REF_VARIABLE)
REFS = (REF_VARIABLE, "RefEnter")

CONTROL_LOOP = "_cloop"  #: how names begin of nodes that only follow a loop on another device


class GraphError(Refusal):
    """A graph that breaks a rule; the text names the node."""


class Input(NamedTuple):
    """One output of a node, as an input of another: written `name` (port 0) or `name:port`."""

    node: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.node}:{self.port}" if self.port else self.node

    @classmethod
    def parse(cls, text: str) -> Self:
        name, colon, port = text.rpartition(":")
        return cls(name, int(port)) if colon and port.isascii() and port.isdigit() else cls(text)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """dtype (TF's name) and shape of one output."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * ITEM_BYTES.get(self.dtype, 0)


@dataclass(frozen=True, slots=True)
class Literal:
    """The value of a Const: little-endian raw bytes, row-major, as in TF's `tensor_content`."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """As of a tensor: a string tensor is its literal, wherever it goes."""
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Node:
    """One operation.

    `attrs` holds what the op needs (`transpose_a`, `value`: Literal, `tensor_name` …); plain JSON
    values and Literals only. `specs` are its outputs where known. `device` is what the placer gave,
    `reason` why; both are empty before it ran. `source` is the user's `file:line`.
    """

    name: str
    op: str
    inputs: tuple[Input, ...] = ()
    control_inputs: tuple[str, ...] = ()
    requested_device: str = ""
    device: str = ""
    reason: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    specs: tuple[TensorSpec, ...] = ()
    source: str = ""

    def with_(self, **changes: Any) -> "Node":
        return replace(self, **changes)

    @property
    def colocated_with(self) -> tuple[str, ...]:
        """Names in this node's `_class: ["loc:@name"]` requests."""
        return tuple(c[5:] for c in self.attrs.get("_class", ()) if c.startswith("loc:@"))


class Edge(NamedTuple):
    """A data edge (ports given) or a control edge (both ports None)."""

    src: str
    src_port: int | None
    dst: str
    dst_port: int | None

    @property
    def is_control(self) -> bool:
        return self.src_port is None


class Graph(Mapping[str, Node]):
    """Nodes by name, in creation order. Immutable: passes build new graphs from it."""

    __slots__ = ("_consumers", "_nodes")

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        """Raises GraphError if a name occurs twice or an input names no node."""
        self._nodes: dict[str, Node] = {}
        for node in nodes:
            if node.name in self._nodes:
                raise GraphError(f"two nodes are named {node.name!r}; names must be unique")
            self._nodes[node.name] = node
        self._consumers: dict[str, list[Edge]] | None = None
        self._check_inputs()

    def _check_inputs(self) -> None:
        for node in self._nodes.values():
            for source in (*(i.node for i in node.inputs), *node.control_inputs):
                if source not in self._nodes:
                    raise GraphError(f"node {node.name!r} has input {source!r}, which is no node")

    def __getitem__(self, name: str) -> Node:
        return self._nodes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __repr__(self) -> str:
        return f"Graph({len(self)} nodes)"

    @property
    def nodes(self) -> Iterable[Node]:
        return self._nodes.values()

    def in_edges(self, name: str) -> Iterator[Edge]:
        node = self._nodes[name]
        for port, source in enumerate(node.inputs):
            yield Edge(source.node, source.port, name, port)
        for control in node.control_inputs:
            yield Edge(control, None, name, None)

    def edges(self) -> Iterator[Edge]:
        for name in self._nodes:
            yield from self.in_edges(name)

    def out_edges(self, name: str) -> list[Edge]:
        if self._consumers is None:
            self._consumers = {n: [] for n in self._nodes}
            for edge in self.edges():
                self._consumers[edge.src].append(edge)
        return self._consumers[name]

    def topological(self) -> list[str]:
        """Names in an order where inputs come first, ties by creation order.

        The back edges of loops (into Merge, from NextIteration) are not counted. Raises GraphError
        naming a node on a cycle otherwise.
        """
        position = {name: i for i, name in enumerate(self._nodes)}
        pending = {
            name: sum(not self._is_back_edge(edge) for edge in self.in_edges(name))
            for name in self._nodes
        }
        ready = [position[name] for name, count in pending.items() if not count]
        names = list(self._nodes)
        order: list[str] = []
        while ready:
            name = names[heapq.heappop(ready)]
            order.append(name)
            for edge in self.out_edges(name):
                if self._is_back_edge(edge):
                    continue
                pending[edge.dst] -= 1
                if not pending[edge.dst]:
                    heapq.heappush(ready, position[edge.dst])
        if len(order) < len(self):
            stuck = next(name for name in names if pending[name])
            raise GraphError(f"node {stuck!r} lies on a cycle that no loop (NextIteration) closes")
        return order

    def _is_back_edge(self, edge: Edge) -> bool:
        return self._nodes[edge.src].op == "NextIteration" and self._nodes[edge.dst].op == "Merge"


@dataclass(frozen=True, slots=True)
class Partition:
    """The nodes of one side of a cut. `place` is a task prefix (by worker) or a device name."""

    place: str
    graph: Graph
