"""What each op gives, against real TensorFlow.

`ops.json` holds a row per call: op, attributes, inputs, and the outputs or the error of TensorFlow
2.21 on a CPU. It was made from placeholders without shapes in a graph of one node, so that the
kernel itself had to answer: `op_def_library._apply_op_helper(op, **inputs, **attrs)` and
`Session.run`, with optimizers off, inputs drawn at random beside the edges (NaN, infinities, empty
tensors, negative axes, broadcasts, integer division, indices out of bounds). A tensor is written
[dtype, value] or [dtype, value, shape]. `again` is a second run of a node with seeds.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.ops.graph_runner import context
from tracer.model.dtypes import dtype_of, num_outputs
from tracer.model.graph import Graph, Input, Literal, Node
from tracer.model.literal import literal_of
from tracer.ops import array, checks, convolution, indexing, joining, math, nn, random, reduction
from tracer.ops.dtypes import literal_to_tensor
from tracer.ops.infer import infer_specs
from tracer.ops.kernel import OpError
from tracer.ops.registry import lookup

Row = dict[str, Any]
ROWS: list[Row] = json.loads((Path(__file__).parent.parent / "golden" / "ops.json").read_text())
OPS = sorted({row["op"] for row in ROWS})
CODES = {3: "INVALID_ARGUMENT"}
SOURCES = {"Const", "Placeholder", "PlaceholderWithDefault"}  #: no kernels to compare


def literal(written: list[Any]) -> Literal:
    found = literal_of(*written[:2])
    return Literal(written[0], tuple(written[2]), b"") if len(written) > 2 else found


def value(written: list[Any]) -> Tensor | Literal:
    found = literal(written)
    return found if found.dtype == "string" else literal_to_tensor(found)


def graph_of(row: Row) -> Graph:
    consts = [
        Node(f"input{i}", "Const", attrs={"dtype": written[0], "value": literal(written)})
        for i, written in enumerate(row["inputs"])
    ]
    inputs = tuple(Input(const.name) for const in consts)
    return Graph([*consts, Node("node", row["op"], inputs, attrs=row["attrs"])])


def calls(op: str) -> list[Row]:
    return [row for row in ROWS if row["op"] == op and "code" not in row]


def outputs(result: Any, row: Row) -> list[Tensor]:
    return list(result) if len(row["outputs"]) != 1 else [result]


def check(row: Row, result: Any, expected: list[list[Any]]) -> None:
    got = outputs(result, row) if expected else []
    assert len(got) == len(expected)
    for mine, written in zip(got, expected, strict=True):
        tolerance = 1e-6 if "Random" in row["op"] else None
        torch.testing.assert_close(
            mine, value(written), rtol=tolerance, atol=tolerance, equal_nan=True
        )


@pytest.mark.parametrize("op", OPS)
def test_an_op_gives_what_tensorflow_gives(op: str) -> None:
    for row in calls(op):
        kernel = lookup(op).bind(graph_of(row)["node"], context())
        inputs = [value(written) for written in row["inputs"]]
        check(row, kernel(*inputs), row["outputs"])
        if "again" in row:
            check(row, kernel(*inputs), row["again"])


@pytest.mark.parametrize("row", [row for row in ROWS if "code" in row], ids=lambda row: row["op"])
def test_what_tensorflow_refuses_is_refused(row: Row) -> None:
    kernel = lookup(row["op"]).bind(graph_of(row)["node"], context())
    with pytest.raises((OpError, RuntimeError, IndexError, ValueError)) as failed:
        kernel(*[value(written) for written in row["inputs"]])
    error = OpError.of(failed.value)
    assert error.code == CODES[row["code"]]
    if row["op"] in ("Assert", "BatchMatMulV2", "CheckNumerics"):
        assert error.message == row["message"]


@pytest.mark.parametrize("op", OPS)
def test_dtypes_and_shapes_are_known_before_a_step(op: str) -> None:
    for row in calls(op):
        graph = graph_of(row)
        node, expected = graph["node"], [value(written) for written in row["outputs"]]
        assert num_outputs(node) == lookup(op).outputs_of(node) == len(expected)
        names = [dtype_of(graph, Input("node", port)) for port in range(len(expected))]
        assert names == [written[0] for written in row["outputs"]]
        for spec, tensor in zip(infer_specs(graph)["node"], expected, strict=False):
            assert (spec.dtype, spec.shape) == (str(tensor.dtype)[6:], tuple(tensor.shape))


def test_every_kernel_is_compared() -> None:
    rooms = (array, checks, convolution, indexing, joining, math, nn, random, reduction)
    assert {op.name for room in rooms for op in room.OPS} - SOURCES == set(OPS)
