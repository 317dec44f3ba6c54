"""Shapes of a graph, found without data."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from tracer.model.graph import Graph, Input, Literal, Node, TensorSpec
from tracer.model.literal import literal_of
from tracer.ops.infer import infer_specs

GOLDEN = Path(__file__).parent.parent / "golden" / "viii_mlp_resource_1ps__grpc.json"


def const(name: str, dtype: str, value: Any) -> Node:
    return Node(name, "Const", attrs={"value": literal_of(dtype, value)})


def placeholder(name: str, shape: list[int] | None) -> Node:
    return Node(name, "Placeholder", attrs={"dtype": "float32", "shape": shape})


def op(name: str, kind: str, *inputs: str, **attrs: Any) -> Node:
    return Node(name, kind, tuple(map(Input.parse, inputs)), attrs=attrs)


def test_a_shape_computed_from_a_shape_is_known() -> None:
    graph = Graph(
        [
            placeholder("x", [5000, 6]),
            op("shape", "Shape", "x"),
            const("two", "int32", [1, 2]),
            op("wide", "Mul", "shape", "two"),
            op("tiled", "Fill", "wide", "zero"),
            const("zero", "float32", 0.0),
        ]
    )
    specs = infer_specs(graph)
    assert specs["wide"] == (TensorSpec("int32", (2,)),)
    assert specs["tiled"] == (TensorSpec("float32", (5000, 12)),)


def test_a_shape_that_data_decides_is_unknown() -> None:
    graph = Graph(
        [
            placeholder("x", [4]),
            placeholder("n", [1]),
            op("reshaped", "Reshape", "x", "n"),
            op("parts", "DynamicPartition", "x", "n", num_partitions=2),
            op("after", "Neg", "reshaped"),
        ]
    )
    specs = infer_specs(graph)
    assert specs["reshaped"] == specs["parts"] == specs["after"] == ()


def test_an_open_placeholder_and_an_unknown_op_stay_unknown() -> None:
    specs = infer_specs(Graph([placeholder("x", [-1, 3]), op("odd", "Nonsense", "x")]))
    assert specs == {"x": (), "odd": ()}


def test_variables_and_several_outputs_have_specs() -> None:
    graph = Graph(
        [
            op("v", "VarHandleOp", dtype="float32", shape=[2, 3]),
            op("read", "ReadVariableOp", "v"),
            op("parts", "Unpack", "read", num=2),
            op("apply", "AssignAddVariableOp", "v", "read"),
            Node("word", "Const", attrs={"value": Literal("string", (), b"\1\0\0\0a")}),
        ]
    )
    specs = infer_specs(graph)
    assert specs["v"] == (TensorSpec("resource", ()),)
    assert specs["read"] == (TensorSpec("float32", (2, 3)),)
    assert specs["parts"] == (TensorSpec("float32", (3,)),) * 2
    assert specs["apply"] == ()
    assert specs["word"] == (TensorSpec("string", ()),)


def test_no_data_is_made_to_see_how_much_it_would_be() -> None:
    graph = Graph(
        [
            const("dims", "int32", [10**6, 10**6]),
            const("zero", "float32", 0.0),
            op("filled", "Fill", "dims", "zero"),
            op("tiled", "Tile", "dims", "times"),
            const("times", "int32", [10**9]),
            op("drawn", "aten.zeros.default", args=[[10**6, 10**6]]),
        ]
    )
    specs = infer_specs(graph)
    assert specs["filled"] == specs["drawn"] == (TensorSpec("float32", (10**6, 10**6)),)
    assert specs["tiled"] == (TensorSpec("int32", (2 * 10**9,)),)


def test_a_ref_variable_is_read_by_whoever_wants_its_value() -> None:
    graph = Graph(
        [
            op("v", "VariableV2", dtype="float32", shape=[2, 3]),
            op("minus", "Neg", "v"),
            op("added", "AssignAdd", "v", "minus"),
        ]
    )
    specs = infer_specs(graph)
    assert specs["minus"] == specs["added"] == (TensorSpec("float32", (2, 3)),)


def test_a_hand_written_step_needs_none_of_torchs_slow_rules() -> None:
    code = (
        "import sys; from pathlib import Path; from tracer.model.graph_json import read_graph_file;"
        "from tracer.ops.infer import infer_specs;"
        f"infer_specs(read_graph_file(Path({str(GOLDEN)!r})).graph);"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_data_is_made_for_a_large_tensor() -> None:
    graph = Graph([placeholder("x", [10**6, 10**6]), op("y", "Exp", "x")])
    assert infer_specs(graph)["y"] == (TensorSpec("float32", (10**6, 10**6)),)
