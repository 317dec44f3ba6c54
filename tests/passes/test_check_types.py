"""A graph whose dtypes do not fit is refused before anything runs."""

from typing import Any

import pytest

from tracer.model.graph import Graph, GraphError
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.registry import lookup
from tracer.passes.check_types import check_types


def graph(op: str, *operands: tuple[str, Any], **attrs: Any) -> Graph:
    b = GraphBuilder()
    inputs = [b.const(value, dtype, name=f"in{i}") for i, (dtype, value) in enumerate(operands)]
    b.op(op, *inputs, name="node", **attrs)
    return b.graph()


FLOAT, INT, TRUE, TEXT = ("float32", 1.0), ("int32", 1), ("bool", True), ("string", "a")


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (graph("AddV2", FLOAT, INT), "Input 1 of node 'node' was passed int32 from in1"),
        (graph("AddV2", INT, FLOAT, T="float32"), "Input 0 .* incompatible with expected float32"),
        (graph("SelectV2", TRUE, FLOAT, INT), "Input 2 .* put a Cast between them"),
        (graph("ConcatV2", FLOAT, INT, INT), "Input 1 .* int32"),
        (graph("Neg", TEXT), "was passed string from in0: Neg computes numbers"),
        (graph("aten.neg.default", TEXT), "computes numbers"),
    ],
)
def test_a_dtype_that_an_op_cannot_take_is_refused(made: Graph, says: str) -> None:
    with pytest.raises(GraphError, match=says):
        check_types(made, lookup)


@pytest.mark.parametrize(
    "made",
    [
        graph("AddV2", FLOAT, FLOAT),
        graph("SelectV2", TRUE, INT, INT),
        graph("ConcatV2", FLOAT, FLOAT, INT),
        graph("Identity", TEXT),
        graph("Assert", TRUE, TEXT, FLOAT, T=["string", "float32"]),
        graph("NobodyKnows", TEXT, INT),
    ],
)
def test_dtypes_that_fit_pass(made: Graph) -> None:
    check_types(made, lookup)
