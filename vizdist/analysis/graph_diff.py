"""What of two graphs (or more) is not the same: nodes and edges by name, places, pairs.

A node is the same in two graphs if name and op are; its device may still differ. Compared is the
last stage before the cuts, as what the cuts add has numbers for names; the cuts themselves are
compared by what crosses.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tracer.model.graph_table import NodeRow, input_node
from vizdist.analysis.bytes_moved import device_title
from vizdist.analysis.graph_counts import SENDS, own_nodes
from vizdist.analysis.keys import tensor_title
from vizdist.store.graphs import GraphTable

UNCUT = ("placed", "pruned", "full")  #: stages before the cuts, the one that knows most first
CUT = ("device", "worker")
CLIENT_OPS = ("_Arg", "_Retval")  #: the client's ends of a graph that no master cuts

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class NodeKey(NamedTuple):
    name: str
    op: str


class EdgeKey(NamedTuple):
    """`source` is `name`, `name:port` or `^name` (control), as the target's input says it."""

    source: str
    target: str


class PairKey(NamedTuple):
    """What crosses from one device to another; `tensor` is the output that is sent."""

    tensor: str
    source: str
    target: str
    is_control: bool


Everywhere = tuple[str | None, ...]  #: a device for each graph, None where the thing is not


@dataclass(frozen=True, slots=True)
class GraphDiff:
    """What is not in all graphs, or not at the same place; a count of what is alike.

    `nodes` are in some graphs only, `moved` in all, on other devices. Devices are titles such as
    `ps:0 CPU:0`; of edges and pairs the place says no more than that they are there.
    """

    nodes: Mapping[NodeKey, Everywhere]
    moved: Mapping[NodeKey, Everywhere]
    edges: Mapping[EdgeKey, Everywhere]
    pairs: Mapping[PairKey, Everywhere]
    num_alike: int  #: nodes that are in all graphs, wherever they lie

    @property
    def none(self) -> bool:
        return not (self.nodes or self.moved or self.edges or self.pairs)


def graph_diff(graphs: Sequence[GraphTable]) -> GraphDiff:
    uncut = [_rows(graph, UNCUT) for graph in graphs]
    nodes = [
        {NodeKey(row.name, row.op): device_title(row.device) for row in rows} for rows in uncut
    ]
    edges = [dict.fromkeys(_edges(rows), "") for rows in uncut]
    pairs = [dict.fromkeys(_pairs(_rows(graph, CUT)), "") for graph in graphs]
    apart = differing(nodes)
    moved = {key: where for key, where in apart.items() if None not in where}
    return GraphDiff(
        {key: where for key, where in apart.items() if key not in moved},
        moved,
        differing(edges),
        differing(pairs),
        len(set[NodeKey].intersection(*map(set, nodes))),
    )


def differing(tables: Sequence[Mapping[K, V]]) -> dict[K, tuple[V | None, ...]]:
    """The keys whose values are not the same in all tables, with their values; None: not there."""
    every = dict.fromkeys(key for table in tables for key in table)
    found = {key: tuple(table.get(key) for table in tables) for key in every}
    return {key: values for key, values in found.items() if len(set(values)) > 1}


def _rows(graph: GraphTable, stages: Iterable[str]) -> list[NodeRow]:
    """Of the first stage there is; feeds and fetches are the client's, however it asks for them."""
    rows = next((graph.stages[name] for name in stages if name in graph.stages), ())
    return [row for row in own_nodes(rows) if row.op not in CLIENT_OPS]


def _edges(rows: Sequence[NodeRow]) -> Iterator[EdgeKey]:
    """`name:0` and `name` are one output."""
    names = {row.name for row in rows}
    for row in rows:
        for text in row.inputs:
            if input_node(text) in names:
                yield EdgeKey(text.removesuffix(":0"), row.name)


def _pairs(rows: Sequence[NodeRow]) -> Iterator[PairKey]:
    for row in rows:
        if row.op in SENDS:
            tensor = tensor_title(str(row.attrs.get("tensor_name", row.name)))
            source = device_title(str(row.attrs.get("send_device", "")))
            target = device_title(str(row.attrs.get("recv_device", "")))
            is_control = row.attrs.get("edge_kind") == "control"
            yield PairKey(tensor, source, target, is_control)
