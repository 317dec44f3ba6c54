"""Compute once what two nodes on one device would compute alike (TF `optimizer_cse.cc`)."""

from collections.abc import Mapping
from typing import Any

from tracer.model.graph import Graph, Input, Node
from tracer.passes.optimizations.rules import Lookup, is_pure

COMMUTATIVE = frozenset(
    ("Add", "AddV2", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "LogicalAnd", "LogicalOr")
) | frozenset(("Maximum", "Minimum", "Mul", "NotEqual", "SquaredDifference"))


def merge_common_subexpressions(graph: Graph, lookup: Lookup) -> Graph:
    """Of pure nodes with one op, device, attributes and inputs, the first stands for all."""
    first: dict[Any, str] = {}
    stands_for: dict[str, str] = {}
    for name in graph.topological():
        node = _rewired(graph[name], stands_for)
        if is_pure(graph, graph[name], lookup):
            keeper = first.setdefault(_identity(node), name)
            if keeper != name:
                stands_for[name] = keeper
    return Graph(_rewired(node, stands_for) for node in graph.nodes if node.name not in stands_for)


def _rewired(node: Node, stands_for: Mapping[str, str]) -> Node:
    inputs = tuple(Input(stands_for.get(i.node, i.node), i.port) for i in node.inputs)
    controls = tuple(dict.fromkeys(stands_for.get(name, name) for name in node.control_inputs))
    if (inputs, controls) == (node.inputs, node.control_inputs):
        return node
    return node.with_(inputs=inputs, control_inputs=controls)


def _identity(node: Node) -> Any:
    """Equal for nodes that compute the same at the same place."""
    inputs = tuple(sorted(node.inputs)) if node.op in COMMUTATIVE else node.inputs
    return node.op, node.device, inputs, frozenset(node.control_inputs), _frozen(node.attrs)


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return frozenset((name, _frozen(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return type(value), value
