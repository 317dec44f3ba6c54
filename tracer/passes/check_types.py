"""Refuse a graph whose dtypes do not fit, as TF does when it imports one.

A kernel would take them: torch promotes a mixture silently, and says little about a text.
"""

from collections.abc import Callable, Iterator

from tracer.model.dtypes import dtype_of
from tracer.model.graph import Graph, GraphError, Input, Node
from tracer.ops.kernel import OpDef


def check_types(graph: Graph, lookup: Callable[[str], OpDef]) -> None:
    """Raises GraphError for the first input whose dtype its op cannot take.

    What nothing tells before a step is left to the step.
    """
    known: dict[Input, str] = {}
    for node in graph.nodes:
        op = _op_of(node, lookup)
        if op is None or not node.inputs:
            continue
        if not _hands_on(op):
            _refuse_text(graph, node, known)
        _check_alike(graph, node, op, known)


def _op_of(node: Node, lookup: Callable[[str], OpDef]) -> OpDef | None:
    """None for an op that nobody knows: whoever runs the node will say so."""
    try:
        return lookup(node.op)
    except LookupError:
        return None


def _hands_on(op: OpDef) -> bool:
    """Whether the op keeps or moves what it gets, whatever it is."""
    return op.stateful or op.is_transfer or op.is_control_flow or op.is_view


def _refuse_text(graph: Graph, node: Node, known: dict[Input, str]) -> None:
    for port, dtype in _dtypes(graph, node, known):
        if dtype == "string":
            raise GraphError(
                f"Input {port} of node {node.name!r} was passed string from {node.inputs[port]}: "
                f"{node.op} computes numbers; a text can be handed on, saved, queued or asserted"
            )


def _check_alike(graph: Graph, node: Node, op: OpDef, known: dict[Input, str]) -> None:
    if op.alike is None:
        return
    picked = range(len(node.inputs))[op.alike]
    found = {port: dtype for port, dtype in _dtypes(graph, node, known) if port in picked}
    expected = str(node.attrs.get("T", "")) or next(iter(found.values()), "")
    for port, dtype in found.items():
        if dtype != expected:
            raise GraphError(
                f"Input {port} of node {node.name!r} was passed {dtype} from {node.inputs[port]} "
                f"incompatible with expected {expected}; put a Cast between them"
            )


def _dtypes(graph: Graph, node: Node, known: dict[Input, str]) -> Iterator[tuple[int, str]]:
    for port, source in enumerate(node.inputs):
        try:
            yield port, dtype_of(graph, source, known)
        except GraphError:
            continue
