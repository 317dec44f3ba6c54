"""In which order a partition's nodes are tried: what others wait for comes as soon as it can.

Inputs come first, and of what could be next: a `_Send`, whose value leaves as it appears; a kernel
that waits, so that it waits while others compute; and whatever only packs values for such a kernel,
as gradients are packed for a collective, which so runs beside the rest of the backward pass.
"""

from collections.abc import Mapping

from tracer.model.graph import Graph
from tracer.ops.kernel import OpDef

_SENDS = ("_Send", "_HostSend")
_PACKS = ("Const", "Reshape", "ConcatV2", "Identity")


def in_running_order(graph: Graph, ops: Mapping[str, OpDef]) -> list[str]:
    """`ops` by node."""
    early = {name for name, op in ops.items() if op.is_async or graph[name].op in _SENDS}
    users = [name for name in early if ops[name].is_async]
    while users:
        for edge in graph.in_edges(users.pop()):
            if edge.src not in early and _only_packs(graph, edge.src, early):
                early.add(edge.src)
                users.append(edge.src)
    nodes = sorted(graph.nodes, key=lambda node: node.name not in early)
    return Graph(nodes).topological()


def _only_packs(graph: Graph, name: str, early: set[str]) -> bool:
    return graph[name].op in _PACKS and all(edge.dst in early for edge in graph.out_edges(name))
