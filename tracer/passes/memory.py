"""Which inputs a node reads on the host, and which outputs it makes there (TF `memory_types.cc`).

Shapes, axes, bounds, predicates and the states of generators are read by the host, strings are
never anywhere else.
"""

from collections.abc import Iterator, Mapping

from tracer.model.graph import Edge, Graph, Literal, Node
from tracer.ops.kernel import OpDef
from tracer.ops.registry import lookup

_OF_HOST = ("_HostSend", "_HostRecv")

#: TF says of most kernels on CPUs too which of their ends lie on the host; not of these
_READ_ON_HOST_BY_GPUS = (
    *("BroadcastTo", "DynamicPartition", "LoopCond"),
    *("Max", "Mean", "Min", "Prod", "Sum"),
)
_MADE_ON_HOST_BY_GPUS = ("LoopCond", "Merge", "Range", "_HostRecv")


def host_ports(node: Node, op: OpDef) -> frozenset[int]:
    """The inputs that a node reads on the host."""
    if node.op in _OF_HOST:
        return frozenset({0})
    count = len(node.inputs)
    ports = {port % count for port in op.host_inputs if count}
    return frozenset(ports.union(_generators(node)))


def host_outputs(node: Node, op: OpDef) -> tuple[int, ...]:
    """The outputs that a node makes on the host."""
    if node.op in _OF_HOST or _is_text(node):
        return (0,)
    if any(True for _ in _generators(node)):
        return (op.outputs_of(node) - 1,)  # what state it left
    return op.host_outputs


def is_read_on_host(graph: Graph, edge: Edge, dtype: str) -> bool:
    """Whether an edge ends in host memory, whatever made the value."""
    node = graph[edge.dst]
    if edge.dst_port is None or dtype == "string":
        return dtype == "string"
    if not _is_on_gpu(node):
        if node.op in _READ_ON_HOST_BY_GPUS:
            return False
        if (node.op, dtype) == ("NextIteration", "int32"):
            return True  # TF's kernel for counters, whatever the device
    op = _known(node)
    return op is not None and edge.dst_port in host_ports(node, op)


def is_made_on_host(graph: Graph, edge: Edge, dtype: str) -> bool:
    """Whether an edge begins in host memory."""
    node = graph[edge.src]
    if edge.src_port is None or dtype == "string":
        return dtype == "string"
    if not _is_on_gpu(node) and node.op in _MADE_ON_HOST_BY_GPUS:
        return False
    op = _known(node)
    return op is not None and edge.src_port in host_outputs(node, op)


def _is_on_gpu(node: Node) -> bool:
    return "GPU" in node.device


def _known(node: Node) -> OpDef | None:
    """None for an op that nobody knows: whoever runs it will say so."""
    try:
        return lookup(node.op)
    except LookupError:
        return None


def _generators(node: Node) -> Iterator[int]:
    """The inputs that give an `aten.*` op its seed or its generator's state."""
    for value in node.attrs.get("kwargs", {}).values():
        if isinstance(value, Mapping) and "generator" in value:
            yield int(value["generator"])


def _is_text(node: Node) -> bool:
    value = node.attrs.get("value")
    return node.op == "Const" and isinstance(value, Literal) and value.dtype == "string"
