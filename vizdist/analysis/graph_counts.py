"""How large the graph is at each stage, and how many pairs its cuts need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracer.model.graph_table import NodeRow
from vizdist.store.graphs import GraphTable

SENDS = ("_Send", "_HostSend")


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """`nodes` by stage, in order; `pairs` are Send/Recv pairs of devices.

    The client's own ends, which pruning puts where it feeds and fetches, are in neither.
    """

    nodes: Mapping[str, int]
    devices: int
    pairs: int
    control_pairs: int


def graph_counts(graph: GraphTable) -> GraphCounts:
    last = graph.stages.get("device") or graph.stages.get("worker") or ()
    sends = _sends(last)
    placed = graph.stages.get("placed") or last
    return GraphCounts(
        {stage: len(own_nodes(rows)) for stage, rows in graph.stages.items()},
        len({row.device for row in placed if row.device}),
        len(sends),
        sum(send.attrs.get("edge_kind") == "control" for send in sends),
    )


def own_nodes(rows: Sequence[NodeRow]) -> list[NodeRow]:
    """The nodes of the graph itself: without the client's ends."""
    return [row for row in rows if not row.attrs.get("client_terminated")]


def _sends(rows: Sequence[NodeRow]) -> list[NodeRow]:
    return [row for row in own_nodes(rows) if row.op in SENDS]
