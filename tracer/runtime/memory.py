"""Which values of a GPU's partition lie in host memory (TF `memory_types.cc`).

Shapes, axes, bounds and the states of generators are read by the host, strings are never anywhere
else. A value is on the host if its op makes it there, or if it is free to lie anywhere (a constant,
something received) and all its readers want it there.
"""

from collections.abc import Callable, Iterator, Mapping

from tracer.model.graph import Graph, Input, Node
from tracer.ops.kernel import OpDef

OpOf = Callable[[Node], OpDef]

_FREE = ("Const", "_Recv", "_Arg")  # ops whose output may lie in either memory
_OF_HOST = ("_HostSend", "_HostRecv")


def host_values(graph: Graph, op_of: OpOf) -> frozenset[Input]:
    """The outputs that lie in host memory."""
    wanted: dict[Input, list[bool]] = {}
    for node in graph.nodes:
        ports = host_ports(node, op_of(node))
        for port, source in enumerate(node.inputs):
            wanted.setdefault(source, []).append(port in ports)
    made = {
        Input(node.name, port) for node in graph.nodes for port in _made_on_host(node, op_of(node))
    }
    free = {
        source for source, wants in wanted.items() if graph[source.node].op in _FREE and all(wants)
    }
    return frozenset(made | free)


def host_ports(node: Node, op: OpDef) -> frozenset[int]:
    """The inputs that a node reads on the host."""
    if node.op in _OF_HOST:
        return frozenset({0})
    count = len(node.inputs)
    ports = {port % count for port in op.host_inputs if count}
    return frozenset(ports.union(_generators(node)))


def _generators(node: Node) -> Iterator[int]:
    """The inputs that give an `aten.*` op its seed or its generator's state."""
    for value in node.attrs.get("kwargs", {}).values():
        if isinstance(value, Mapping) and "generator" in value:
            yield int(value["generator"])


def _made_on_host(node: Node, op: OpDef) -> tuple[int, ...]:
    if node.op in _OF_HOST or _is_text(node):
        return (0,)
    if any(True for _ in _generators(node)):
        return (op.outputs_of(node) - 1,)  # what state it left
    return op.host_outputs


def _is_text(node: Node) -> bool:
    return node.op == "Const" and node.attrs["value"].dtype == "string"
