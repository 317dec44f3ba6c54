"""What is read out of a node table: pairs, names, kinds, phases, and what to do with odd ones."""

import json
from typing import Any

import pytest

from tests.figures.golden_stages import client_rows, device_rows, golden
from tracer.model.graph_table import NodeRow
from vizdist.analysis.node_measures import NOTHING_MEASURED, Measured, StepMeasures
from vizdist.figures.graph_facts import (
    GraphFacts,
    NodeFacts,
    PairFacts,
    ScopeFacts,
    facts_of,
)
from vizdist.figures.graph_nodes import look_of, phases_of, short_name, text_width
from vizdist.figures.graph_ranks import dataflow_order, order_boxes, phase_spans
from vizdist.figures.graph_stage import read_stage
from vizdist.figures.partitioned_graph import graph_payload, stage_counts

MLP = "viii_mlp_ref_2ps__grpc"
PS, WORKER = (f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("ps", "worker"))
HOSTILE = "<img src=x onerror=alert(1)>/a:b,c|d\"e'"


def row(name: str, op: str = "MatMul", *inputs: str, device: str = WORKER, **attrs: Any) -> NodeRow:
    specs = (("float32", (2, 3)),)
    return NodeRow(name, op, inputs, "", device, "", device, specs, 24, "", attrs)


def ends(src: str, dst: str, *, kind: str = "data") -> dict[str, Any]:
    return {
        "tensor_name": f"edge_1_{src}",
        "send_device": PS,
        "recv_device": dst,
        "edge_kind": kind,
    }


def crossing() -> list[NodeRow]:
    """v on ps goes to two consumers on the worker over one pair."""
    return [
        row("v", "VarHandleOp", device=PS),
        row("v/Read", "ReadVariableOp", "v", device=PS),
        row("s", "_Send", "v/Read", device=PS, **ends("v", WORKER)),
        row("r", "_Recv", **ends("v", WORKER)),
        row("a", "MatMul", "r"),
        row("b", "MatMul", "a", "r"),
    ]


def test_send_and_recv_with_one_key_are_one_pair() -> None:
    graph = read_stage("device", crossing())
    (pair,) = graph.pairs
    assert (pair.src, pair.send, pair.recv, pair.dsts) == ("v/Read", "s", "r", ["a", "b"])
    assert (pair.label, pair.num_bytes, pair.control) == ("v", 24, False)
    assert set(graph.tiles) == {"v", "v/Read", "a", "b"}


def test_what_carries_a_control_edge_is_part_of_the_pair() -> None:
    graph = read_stage("device", device_rows(MLP))
    control = [pair for pair in graph.pairs if pair.control]
    assert [(pair.src, pair.dsts) for pair in control if pair.src == "train/update"] == [
        ("train/update", ["train/value"])
    ]
    hidden = {name for pair in control for name in pair.carriers}
    assert len(hidden) == 2 * len(control)
    assert not hidden & set(graph.tiles)


def test_an_edge_between_devices_is_a_pair_to_be_once_for_each_target() -> None:
    rows = [
        row("v", device=PS),
        row("a", "MatMul", "v"),
        row("b", "MatMul", "v", "^v"),
    ]
    placed = [item._replace(partition="") for item in rows]
    graph = read_stage("placed", placed)
    assert [(pair.src, pair.dsts, pair.control) for pair in graph.pairs] == [
        ("v", ["a", "b"], False),
        ("v", ["b"], True),
    ]
    assert not graph.is_cut


@pytest.mark.parametrize("lost", ["s", "r"])
def test_a_send_without_its_recv_keeps_an_open_end(lost: str) -> None:
    rows = [item for item in crossing() if item.name != lost]
    payload = graph_payload({"device": rows}, "device")
    (wire,) = payload["wires"]
    (part,) = wire["parts"]
    assert (part["send"] == "") == (lost == "s")
    assert (part["recv"] == "") == (lost == "r")


def test_an_input_that_is_no_node_is_left_out() -> None:
    payload = graph_payload({"device": [row("a", "MatMul", "nobody:3", "^noone")]}, "device")
    assert [tile["id"] for tile in payload["tiles"]] == ["a"]
    assert payload["links"] == []


def test_two_nodes_of_one_name_are_two_tiles() -> None:
    payload = graph_payload({"device": [row("a"), row("a", device=PS), row("a")]}, "device")
    assert len({tile["id"] for tile in payload["tiles"]}) == 3


def test_a_cycle_that_no_loop_closes_is_still_drawn() -> None:
    rows = [row("a", "MatMul", "b"), row("b", "MatMul", "a"), row("c", "MatMul", "c")]
    assert len(graph_payload({"device": rows}, "device")["tiles"]) == 3


def test_odd_names_come_out_as_they_went_in() -> None:
    rows = [row(HOSTILE, HOSTILE), row("_send_/job:ps/replica:0", "MatMul", HOSTILE)]
    payload = json.loads(json.dumps(graph_payload({"device": rows}, "device")))
    assert [node["id"] for node in payload["nodes"]] == [HOSTILE, "_send_/job:ps/replica:0"]
    assert payload["nodes"][0]["op"] == HOSTILE


def test_a_device_that_is_none_is_a_box_of_its_own() -> None:
    payload = graph_payload({"device": [row("a", device="toaster")]}, "device")
    assert [box["id"] for box in payload["boxes"]] == ["toaster"]


def test_the_task_without_a_cluster_is_called_as_in_the_trace() -> None:
    local = "/job:localhost/replica:0/task:0/device:CPU:0"
    measures = StepMeasures({}, {"worker:0": 0.5}, "worker:0")
    (box,) = graph_payload({"device": [row("a", device=local)]}, "device", measures)["boxes"]
    assert (box["id"], box["busy"], box["isMaster"]) == ("worker:0", 0.5, True)


def test_stages_are_counted_as_tensorflow_counts_them() -> None:
    stages = {"full": client_rows(MLP), "device": device_rows(MLP)}
    full, device = stage_counts(stages)
    assert full["nodes"] == len(golden(MLP)["client_graph"])
    transfers = golden(MLP)["summary"]["transfers"]
    assert (device["pairs"], device["devices"]) == (len(transfers), 3)
    assert device["client"] == 3


# names and looks


@pytest.mark.parametrize(
    ("name", "op", "short"),
    [
        ("train/update_w1/ApplyGradientDescent", "ApplyGradientDescent", "update_w1"),
        ("w1/read", "Identity", "w1/read"),
        ("fc1/weight/Read", "ReadVariableOp", "fc1/weight"),
        ("train/learning_rate/replicate/_1", "Const", "learning_rate"),
        ("_arg_x_0_0", "_Arg", "x"),
        ("gradients/xent/xent_grad/mul", "Mul", "mul"),
        ("xent/xent", "SparseSoftmaxCrossEntropyWithLogits", "xent"),
        ("a//", "MatMul", "a"),
        ("_cloopwhile/NextIteration_1_S5", "Merge", "Merge"),
        ("", "MatMul", ""),
    ],
)
def test_a_short_name_tells_a_node_from_its_neighbours(name: str, op: str, short: str) -> None:
    assert short_name(row(name, op)) == short


def test_an_unknown_op_computes_and_shows_its_first_letter() -> None:
    assert look_of(row("n", "Frobnicate")) == ("compute", "F")
    assert look_of(row("n", "aten._to_copy.default")) == ("compute", "t")
    assert look_of(row("n", "ResourceApplyAdam")) == ("update", "Δ")
    assert look_of(row("n", "")) == ("compute", "?")


def test_wide_letters_are_wider() -> None:
    assert text_width("ii") < text_width("xx") < text_width("WW") < text_width("图图")


# phases, order, folding


def test_phases_follow_from_the_graph_not_from_names() -> None:
    names = {
        "v": "VarHandleOp",
        "read": "ReadVariableOp",
        "mm": "MatMul",
        "loss": "Mean",
        "fetch": "_Retval",
        "g": "MatMul",
        "up": "ResourceApplyGradientDescent",
        "done": "NoOp",
    }
    nodes = {name: row(name, op) for name, op in names.items()}
    edges = [("v", "read"), ("read", "mm"), ("mm", "loss"), ("loss", "fetch"), ("loss", "g"),
             ("g", "up"), ("v", "up"), ("up", "done")]  # fmt: skip
    found = phases_of(nodes, edges)
    assert [found[name] for name in names] == [
        "read", "read", "forward", "forward", "forward", "backward", "update", "update",
    ]  # fmt: skip


def test_spans_of_phases_misplace_as_few_as_they_can() -> None:
    members = {"forward": [0, 1, 2, 5], "backward": [3, 4, 6], "update": [7]}
    spans = phase_spans(("forward", "backward", "update"), members, 8)
    assert spans == [("forward", 0, 2), ("backward", 3, 6), ("update", 7, 7)]


def test_dataflow_order_opens_a_loop_where_it_is_entered() -> None:
    edges = [("enter", "merge"), ("merge", "body"), ("body", "next"), ("next", "merge")]
    order = dataflow_order(["next", "body", "merge", "enter"], edges)
    assert order == ["enter", "merge", "body", "next"]


def test_many_boxes_are_ordered_without_trying_all_orders() -> None:
    names = [f"t{i}" for i in range(12)]
    weights = {(names[i], names[(i * 5) % 12]): 1.0 + i for i in range(1, 12)}
    order = order_boxes(names, weights)
    assert sorted(order) == sorted(names)

    def cost(boxes: list[str]) -> float:
        return sum(w * abs(boxes.index(a) - boxes.index(b)) for (a, b), w in weights.items())

    assert cost(order) < cost(names)


def test_every_step_of_a_graph_looks_the_same_but_for_its_heat() -> None:
    rows = device_rows(MLP)
    first, second = (
        graph_payload({"device": rows}, "device", StepMeasures({row.name: found for row in rows}))
        for found in (Measured(time=5, runs=1), Measured(time=7000, wait=3, bytes=9, runs=1))
    )
    for part in ("tiles", "boxes", "bands", "links", "frames"):
        assert first[part] == second[part]
    assert first["nodes"] != second["nodes"]


def test_what_counts_steps_stands_after_what_reads_the_count() -> None:
    rows = [
        row("count", "VarHandleOp"),
        row("v", "VarHandleOp"),
        row("count/Read", "ReadVariableOp", "count"),
        row("v/Read", "ReadVariableOp", "v"),
        row("rate", "Pow", "count/Read"),
        row("mm", "MatMul", "v/Read"),
        row("_retval_loss_0_0", "_Retval", "mm"),
        row("gradients/mm", "MatMul", "mm"),
        row("train/update_v", "ResourceApplyAdam", "v", "rate", "gradients/mm"),
        row("train/count", "AssignAddVariableOp", "count", "count/Read"),
        row("train", "NoOp", "^train/update_v", "^train/count"),
    ]
    tiles = graph_payload({"device": rows}, "device")["tiles"]
    x = {tile["id"]: tile["x"] for tile in tiles}
    assert x["count/Read"] < x["rate"] < x["train/update_v"]
    assert x["count/Read"] < x["train/count"] < x["train"]
    assert x["rate"] > x["mm"]


def test_a_node_waits_for_its_values_and_then_to_be_run() -> None:
    measures = StepMeasures({"r": Measured(wait=70, runs=1), "a": Measured(queueing=5, runs=1)})
    nodes = graph_payload({"device": crossing()}, "device", measures)["nodes"]
    found = {node["id"]: (node["wait"], node["queueing"]) for node in nodes}
    assert (found["a"], found["b"], found["v"]) == ((75, 5), (70, 0), (0, 0))


def test_heat_is_measured_or_nothing() -> None:
    nodes = graph_payload({"device": crossing()}, "device")["nodes"]
    assert {(node["time"], node["wait"], node["bytes"]) for node in nodes} == {(0, 0, 0)}


# facts


def facts(selected: list[str], measures: StepMeasures = NOTHING_MEASURED) -> Any:
    stages = {"full": client_rows(MLP), "device": device_rows(MLP)}
    return facts_of(read_stage("device", stages["device"]), stages, measures, selected)


def test_a_node_tells_where_its_inputs_come_from() -> None:
    found = facts(["train/update_w1/ApplyGradientDescent"])
    assert isinstance(found, NodeFacts)
    assert [(i.label, i.is_reference, i.source_box) for i in found.inputs] == [
        ("w1", True, ""),
        ("learning_rate", False, ""),
        ("∇w1", False, "worker:0"),
    ]
    assert [(h.first, h.state, h.num_cut) for h in found.history] == [
        ("full", "whole", 0),
        ("device", "cut", 1),
    ]


def test_before_the_cut_an_input_comes_from_another_box_directly() -> None:
    rows = [row("v", device=PS), row("a", "MatMul", "v")]
    placed = {"placed": [item._replace(partition="") for item in rows]}
    graph = read_stage("placed", placed["placed"])
    found = facts_of(graph, placed, NOTHING_MEASURED, ["a"])
    assert isinstance(found, NodeFacts)
    assert [(i.name, i.source_box, i.over) for i in found.inputs] == [("v", "ps:0", "")]


def test_a_pair_is_found_by_either_end_and_by_its_key() -> None:
    transfers = golden(MLP)["summary"]["transfers"]
    recv = next(item["recv_nodes"][0] for item in transfers if item["source"] == "w2/read")
    measures = StepMeasures({recv: Measured(time=50, wait=20, bytes=7, runs=1, key="k;0:0")})
    by_key = facts(["k;0:0"], measures)
    assert isinstance(by_key, PairFacts)
    assert by_key == facts([by_key.send], measures) == facts([by_key.recv], measures)
    assert (by_key.num_bytes, by_key.wait, by_key.transfer) == (7, 20, 30)
    assert len(by_key.consumers) == 2


def test_without_a_selection_the_graph_speaks_of_itself() -> None:
    found = facts([])
    assert isinstance(found, GraphFacts)
    assert (found.num_nodes, found.num_pairs, found.num_control) == (89, 11, 3)


def test_a_folded_scope_lists_its_nodes_costliest_first() -> None:
    payload = graph_payload({"device": device_rows(MLP)}, "device")
    stack = next(tile for tile in payload["tiles"] if tile["label"] == "mm2_grad")
    cost = StepMeasures({"gradients/mm2_grad/MatMul_1": Measured(time=9, runs=1)})
    found = facts([stack["id"]], cost)
    assert isinstance(found, ScopeFacts)
    assert len(found.members) == stack["count"]
    assert found.members[0] == ("gradients/mm2_grad/MatMul_1", "MatMul", 9)


def test_what_this_stage_does_not_hold_is_not_made_up() -> None:
    assert facts(["no/such/node"]) is None
