"""Graphs as JSON: the wire form loses nothing, a graph file's faults are named."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.model.cluster import ClusterSpec, DeviceName
from tracer.model.graph import Graph, GraphError, Input, Literal, Node, TensorSpec
from tracer.model.graph_json import (
    graph_file_from_json,
    graph_from_json,
    graph_to_json,
    read_graph_file,
)
from tracer.model.literal import literal_of, strings_of, value_of

GOLDEN = Path(__file__).parent.parent / "golden"
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
ATTRS = st.recursive(
    SCALARS | st.builds(Literal, st.just("int8"), st.tuples(st.just(3)), st.binary(min_size=3)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
TWO_NODES: list[dict[str, Any]] = [
    {"name": "x", "op": "Placeholder", "attrs": {"dtype": "int32", "shape": [2]}},
    {"name": "y", "op": "Neg", "inputs": ["x"], "attrs": {"T": "int32"}},
]


def const(**attrs: Any) -> dict[str, Any]:
    return {"name": "x", "op": "Const", "attrs": {"const_value": 1.0, **attrs}}


def graph_file(**changes: Any) -> dict[str, Any]:
    given_: dict[str, Any] = {
        "client_graph": TWO_NODES,
        "devices": {"A": "/job:ps/task:0", "B": "/job:worker/task:1"},
        "run": {"init": None, "feeds": {"x:0": [1, 2]}, "fetches": ["y", "y:0"]},
    }
    return given_ | changes


@given(st.dictionaries(st.text(min_size=1, max_size=5), ATTRS, max_size=4), st.text(max_size=9))
def test_the_wire_form_loses_nothing(attrs: dict[str, Any], device: str) -> None:
    source = Node("a", "Op", attrs=attrs, specs=(TensorSpec("int8", (3, 0)),), source="f.py:3")
    node = Node("b/c", "Op2", (Input("a"), Input("a", 2)), ("a",), device, "/d", "requested")
    graph = Graph([source, node])
    read = graph_from_json(json.loads(json.dumps(graph_to_json(graph))))
    assert list(read.nodes) == list(graph.nodes)


def test_every_golden_graph_survives_the_wire() -> None:
    for path in GOLDEN.glob("*__*.json"):
        graph = read_graph_file(path).graph
        read = graph_from_json(json.loads(json.dumps(graph_to_json(graph))))
        assert list(read.nodes) == list(graph.nodes)


def test_a_graph_file_says_what_to_run_and_where() -> None:
    read = graph_file_from_json(graph_file())
    assert read.cluster == ClusterSpec({"ps": {0: ""}, "worker": {1: ""}})
    assert read.client_device == DeviceName("worker", 1, "CPU", 0)
    assert (read.run.fetches, read.run.targets, read.run.names) == (("y:0",), ("y",), ("y", "y:0"))
    assert value_of(read.run.feeds["x:0"]) == [1, 2]
    assert read.run.feeds["x:0"].dtype == "int32"
    assert not read.is_direct


def test_a_cluster_may_be_given_by_counts() -> None:
    read = graph_file_from_json(graph_file(devices={"chief": 1, "worker": 2}))
    assert read.client_device.job == "chief"
    assert [str(device.task_name) for device in read.devices] == ["chief:0", "worker:0", "worker:1"]


def test_devices_without_a_job_are_one_task_without_a_cluster() -> None:
    read = graph_file_from_json(graph_file(devices={"A": "/device:CPU:0", "C": "/device:CPU:2"}))
    assert read.is_direct
    assert [device.short for device in read.devices] == ["CPU:0", "CPU:1", "CPU:2"]
    assert str(read.client_device) == "/job:localhost/replica:0/task:0/device:CPU:0"


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"client_graph": {}}, "'client_graph', a list"),
        ({"run": None}, "'run', an object"),
        ({"client_graph": [{"name": "x"}]}, r"client_graph\[0\] must be an object"),
        ({"client_graph": [{"name": "x;y", "op": "NoOp"}]}, "'x;y' is no node name"),
        ({"client_graph": [{"name": "x", "op": "NoOp", "input": []}]}, "unknown field 'input'"),
        ({"client_graph": [{"name": "x", "op": "Neg", "inputs": ["w"]}]}, "'w', which is no node"),
        ({"client_graph": [TWO_NODES[0], TWO_NODES[0]]}, "two nodes are named 'x'"),
        ({"devices": {}}, "'devices' is empty"),
        ({"devices": {"A": "/job:ps", "B": 1}}, r"devices\['B'\] must be a device"),
        ({"devices": {"A": "/jobs:ps"}}, r"devices\['A'\]"),
        ({"devices": {"A": "/job:ps", "B": "/device:CPU:1"}}, "with a job and without one"),
        ({"devices": {"worker": 0}}, "no task"),
        ({"devices": {"worker": -1, "ps": 2}}, "no task"),
        ({"devices": {"worker": 1000, "ps": 25}}, "1025 tasks; 1024 is the most"),
        ({"devices": {"A": "/device:CPU:99999999"}}, "numbered 1024 or above"),
        ({"devices": {"A": "/job:ps/task:5000"}}, "numbered 1024 or above"),
        ({"client_graph": [{"name": "x", "op": "Const"}]}, "needs attrs.const_value"),
        ({"client_graph": [const(const_shape=3)]}, "const_shape must be a list of numbers"),
        ({"client_graph": [const(_class="w")]}, "_class must be a list of texts"),
        ({"client_graph": [const(dtype=[])]}, r"does not fit into \[\]"),
        ({"client_graph": [{"name": "x", "op": "Neg", "inputs": ["w:²"]}]}, "which is no node"),
        ({"client_graph": [{"name": "x", "op": 3}]}, r"client_graph\[0\].op must be a text"),
        ({"client_graph": [{"name": "x", "op": "Neg", "inputs": [1]}]}, "inputs must be a list of"),
        ({"client_graph": [{"name": "x", "op": "Neg", "attrs": []}]}, "attrs must be an object"),
        ({"run": {"fetches": "y:0"}}, "run.fetches must be a list of texts"),
        ({"run": {"feeds": {"z:0": 1}}}, "names no node"),
        ({"run": {"feeds": {"x:0": [[1], [2, 3]]}}}, "ragged"),
        ({"run": {"feeds": {"x:0": ["p"]}}}, "does not fit into int32"),
    ],
)
def test_a_fault_of_a_graph_file_is_named(changes: dict[str, Any], hint: str) -> None:
    with pytest.raises(GraphError, match=hint):
        graph_file_from_json(graph_file(**changes))


def test_a_cycle_is_no_graph() -> None:
    nodes = [
        {"name": "a", "op": "Neg", "inputs": ["b"]},
        {"name": "b", "op": "Neg", "inputs": ["a"]},
    ]
    with pytest.raises(GraphError, match="cycle"):
        graph_file_from_json(graph_file(client_graph=nodes, run={}))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float32", [[0.5, -2.0], [math.inf, 0.0]]),
        ("float64", 0.1),
        ("float16", [1.5]),
        ("bfloat16", [1.0, -2.5, math.inf]),
        ("int64", [2**62, -1]),
        ("uint8", [[0], [255]]),
        ("bool", [True, False]),
        ("string", [["a", ""], ["é", "中"]]),
        ("int32", []),
        ("int32", [[], []]),
    ],
)
def test_a_value_comes_back_from_its_literal(dtype: str, value: Any) -> None:
    assert value_of(literal_of(dtype, value)) == value


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_float_may_be_spelt(dtype: str) -> None:
    value = value_of(literal_of(dtype, ["Infinity", "-Infinity", "NaN", 1.5]))
    assert value[:2] == [math.inf, -math.inf]
    assert math.isnan(value[2])
    with pytest.raises(GraphError, match="does not fit"):
        literal_of(dtype, "1.5")


def test_a_bool_is_true_or_false() -> None:
    assert value_of(literal_of("bool", [1, 0, True])) == [True, False, True]
    with pytest.raises(GraphError, match="'no' is neither true nor false"):
        literal_of("bool", "no")


def test_bfloat16_rounds_to_nearest_even_and_keeps_nan() -> None:
    rounded = value_of(literal_of("bfloat16", [1 + 1 / 256, 1 + 3 / 256, math.nan]))
    assert rounded[:2] == [1.0, 1 + 4 / 256]
    assert math.isnan(rounded[2])


def test_the_texts_of_a_string_literal_are_in_row_major_order() -> None:
    assert strings_of(literal_of("string", [["a", "b"], ["c", ""]])) == ["a", "b", "c", ""]


@pytest.mark.parametrize("value", [[1, [2]], [[1], 2], [[1, 2], [3]], 300, "x", None])
def test_a_value_that_does_not_fit_is_refused(value: Any) -> None:
    with pytest.raises(GraphError):
        literal_of("int8", value)
