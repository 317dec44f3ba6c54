"""Compute once, before the run, what constants alone decide (TF grappler `constant_folding.cc`)."""

from collections.abc import Iterator
from typing import Any

from tracer.model.graph import Graph, Literal, Node, TensorSpec
from tracer.ops.dtypes import literal_to_tensor, spec_of, tensor_to_literal
from tracer.ops.infer import infer_specs, run_on_host
from tracer.passes.optimizations.rules import Lookup, is_pure

MAX_GROWTH_BYTES = 100 * 1024  #: a result that is larger, and larger than its operands, stays


def fold_constants(graph: Graph, lookup: Lookup) -> Graph:
    """Nodes with one output and only constants for inputs become constants, on their own device.

    They keep their names and wait for what their operands waited for. Constants that only served
    them fall away. What fails is left as it is, so that the step says why.
    """
    constants = {node.name: node for node in graph.nodes if node.op == "Const"}
    specs = infer_specs(graph)  # nothing is computed before it is known how large it will be
    for name in graph.topological():
        node = graph[name]
        operands = [constants[source.node] for source in node.inputs if source.node in constants]
        if not operands or len(operands) < len(node.inputs) or not is_pure(graph, node, lookup):
            continue
        if _stays_small(specs[name], operands) and (made := _folded(node, operands, lookup)):
            constants[name] = made
    return Graph(_without_idle(graph, [constants.get(name, graph[name]) for name in graph]))


def _stays_small(specs: tuple[TensorSpec, ...], operands: list[Node]) -> bool:
    operand_bytes = sum(operand.attrs["value"].nbytes for operand in operands)
    return len(specs) == 1 and specs[0].num_bytes <= max(MAX_GROWTH_BYTES, operand_bytes)


def _folded(node: Node, operands: list[Node], lookup: Lookup) -> Node | None:
    """None if its kernel refuses the operands."""
    literals = [operand.attrs["value"] for operand in operands]
    try:
        (value,) = run_on_host(node, lookup(node.op), [_value(literal) for literal in literals])
        literal = value if isinstance(value, Literal) else tensor_to_literal(value)
    except Exception:  # noqa: BLE001 (kernels may raise anything, and will again in the step)
        return None
    before = [*node.control_inputs, *(name for each in operands for name in each.control_inputs)]
    return node.with_(
        op="Const",
        inputs=(),
        control_inputs=tuple(dict.fromkeys(before)),
        attrs={"dtype": literal.dtype, "value": literal},
        specs=(spec_of(literal),),
        reason=f"{node.reason}, folded",
    )


def _value(literal: Literal) -> Any:
    return literal if literal.dtype == "string" else literal_to_tensor(literal)


def _without_idle(graph: Graph, nodes: list[Node]) -> Iterator[Node]:
    """All but the constants that had a consumer and have none any more."""
    used = {source for node in nodes for source in _sources(node)}
    for node in nodes:
        if node.op != "Const" or node.name in used or not graph.out_edges(node.name):
            yield node


def _sources(node: Node) -> Iterator[str]:
    yield from (source.node for source in node.inputs)
    yield from node.control_inputs
