"""Refuse a whole graph that could not be placed or run, whatever is asked of it (TF `graph.cc`)."""

from collections.abc import Callable, Sequence

from tracer.model.cluster import DeviceName
from tracer.model.graph import Graph, GraphError, Node
from tracer.ops.kernel import OpDef
from tracer.passes.check_types import check_types
from tracer.passes.colocation import Colocation
from tracer.passes.feasible import Feasible
from tracer.passes.frames import ENTERS, EXITS, NEXT_ITERATIONS, SWITCHES

#: of the ops whose inputs passes look at; kernels count their own
_NUM_INPUTS = dict.fromkeys(SWITCHES, 2) | dict.fromkeys(
    (*ENTERS, *EXITS, *NEXT_ITERATIONS, "LoopCond", "Identity", "Shape", "Size", "Rank"), 1
)


def check_graph(
    graph: Graph,
    devices: Sequence[DeviceName],
    lookup: Callable[[str], OpDef],
    *,
    soft: bool = False,
) -> None:
    """Raises GraphError for the first fault.

    TF checks edges as it builds a graph, and places before it prunes: one node whose request no
    device meets fails every request to its graph (PlacementError).
    """
    for node in graph.nodes:
        _check_inputs(graph, node, lookup)
    feasible = Feasible(devices, devices[0], lookup, soft=soft)
    colocation = Colocation(graph, lookup)
    for group in colocation.groups():
        feasible.of_group(group, colocation.followers)
    check_types(graph, lookup)


def _check_inputs(graph: Graph, node: Node, lookup: Callable[[str], OpDef]) -> None:
    expected = _NUM_INPUTS.get(node.op, len(node.inputs))
    if len(node.inputs) != expected:
        raise GraphError(
            f"Node {node.name!r}: {node.op} takes {expected} "
            f"input{'s' if expected > 1 else ''}, but has {len(node.inputs)}"
        )
    for source in node.inputs:
        count = _known_outputs(graph[source.node], lookup)
        if count is not None and source.port >= count:
            raise GraphError(
                f"Node {node.name!r}: Connecting to invalid output {source.port} of source "
                f"node {source.node} which has {count} outputs."
            )


def _known_outputs(node: Node, lookup: Callable[[str], OpDef]) -> int | None:
    """None if the op or its attribute is unknown: whoever runs the node will say so."""
    try:
        return lookup(node.op).outputs_of(node)
    except (LookupError, ValueError, TypeError):
        return None
