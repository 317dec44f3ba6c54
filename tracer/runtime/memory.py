"""Which values of a GPU's partition lie in host memory (TF `memory_types.cc`).

A value is on the host if its op makes it there, or if it is free to lie anywhere (a constant,
something received) and all its readers want it there.
"""

from collections.abc import Callable

from tracer.model.graph import Graph, Input, Node
from tracer.ops.kernel import OpDef
from tracer.passes.memory import host_outputs, host_ports

OpOf = Callable[[Node], OpDef]

_FREE = ("Const", "_Recv", "_Arg")  # ops whose output may lie in either memory


def host_values(graph: Graph, op_of: OpOf) -> frozenset[Input]:
    """The outputs that lie in host memory."""
    wanted: dict[Input, list[bool]] = {}
    for node in graph.nodes:
        ports = host_ports(node, op_of(node))
        for port, source in enumerate(node.inputs):
            wanted.setdefault(source, []).append(port in ports)
    made = {
        Input(node.name, port) for node in graph.nodes for port in host_outputs(node, op_of(node))
    }
    free = {
        source for source, wants in wanted.items() if graph[source.node].op in _FREE and all(wants)
    }
    return frozenset(made | free)
