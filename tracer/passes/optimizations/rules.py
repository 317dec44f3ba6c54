"""Which nodes an optimization may touch."""

from collections.abc import Callable

from tracer.model.graph import HANDLES, REFS, Graph, Node
from tracer.ops.kernel import OpDef
from tracer.passes.frames import CONTROL_FLOW
from tracer.passes.prune import PLACEHOLDERS

Lookup = Callable[[str], OpDef]


def is_pure(graph: Graph, node: Node, lookup: Lookup) -> bool:
    """Whether the node's outputs depend on its inputs and attributes alone, and nothing else on it.

    What a variable holds depends on when it is read, also through an op that hands it on.
    """
    if node.op in (*CONTROL_FLOW, *PLACEHOLDERS, *HANDLES):
        return False
    op = lookup(node.op)
    if op.stateful or op.is_transfer or not op.outputs_of(node):
        return False
    sources = (graph[source.node] for source in node.inputs)
    return not any(source.op in (*HANDLES, *REFS) or lookup(source.op).writes for source in sources)
