"""Conditions and loops over several devices."""

from collections import Counter

import pytest

from tests.golden_cases import GOLDEN
from tracer.model.graph import Graph, GraphError, Partition
from tracer.model.graph_json import GraphFile, read_graph_file
from tracer.passes.control_flow import add_control_loops
from tracer.passes.describe import cut_graph_file
from tracer.passes.partition import partition_by_device, partition_by_worker

HERE = "/job:worker/replica:0/task:0/device:CPU:0"
BESIDE = "/job:worker/replica:0/task:0/device:CPU:1"
THERE = "/job:ps/replica:0/task:0/device:CPU:0"
LIVES = dict.fromkeys((HERE, BESIDE, THERE), 1)


def case(name: str) -> GraphFile:
    return read_graph_file(GOLDEN / f"{name}__grpc.json")


def loop(**devices: str) -> Graph:
    """The golden loop, at home except for nodes given by the last part of their name."""
    return Graph(
        node.with_(device=devices.get(node.name.rpartition("/")[2], HERE))
        for node in case("vi_while").graph.nodes
    )


def control_loops(graph: Graph) -> Counter[str]:
    return Counter(
        node.device
        for node in graph.nodes
        if node.name.startswith("_cloop") and node.op == "NextIteration"
    )


def cut(graph: Graph) -> list[Partition]:
    by_worker = partition_by_worker(graph, LIVES)
    return [part for w in by_worker for part in partition_by_device(w.graph, LIVES)]


def test_a_loop_at_home_turns_by_itself() -> None:
    graph = loop()
    assert add_control_loops(graph) is graph


def test_each_device_that_receives_in_a_loop_gets_a_control_loop() -> None:
    assert control_loops(add_control_loops(loop(body_mul_on_B=THERE))) == {HERE: 1, THERE: 1}


def test_a_device_that_only_sends_gets_none() -> None:
    far = dict.fromkeys(("Exit_1", "out"), THERE)
    assert control_loops(add_control_loops(loop(**far))) == {THERE: 1}


def test_control_loops_nest_as_their_frames_do() -> None:
    placed, _ = cut_graph_file(case("vii_nested_while"))
    with_loops = add_control_loops(placed)
    assert set(control_loops(with_loops).values()) == {2}
    inner = [node for node in with_loops.nodes if "_cloop" in node.name and node.op == "Enter"]
    fed_by = {node.attrs["frame_name"]: with_loops[node.inputs[0].node].op for node in inner}
    assert fed_by == {"outer/while_context": "Const", "outer/inner/while_context": "Merge"}


def test_a_recv_in_a_loop_begins_with_the_iteration_of_its_device() -> None:
    for part in cut(loop(body_mul_on_B=BESIDE, body_inc_on_A=THERE)):
        for node in part.graph.nodes:
            if node.op in ("_Recv", "_HostRecv"):
                (start,) = node.control_inputs
                assert start.startswith("_cloop")
                assert part.graph[start].op == "Merge"


def test_who_receives_does_not_wait_for_the_iteration_itself() -> None:
    nodes = {n.name: n for part in cut(loop(body_mul_on_B=BESIDE)) for n in part.graph.nodes}
    assert not nodes["loop/body_mul_on_B"].control_inputs


def test_the_predicate_goes_to_each_device_as_an_edge_of_its_own_kind() -> None:
    _, parts = cut_graph_file(case("vi_while_three_devices"))
    told = [
        (node.op, node.attrs["_src"], node.attrs["recv_device"])
        for part in parts
        for node in part.graph.nodes
        if node.attrs.get("edge_kind") == "loop"
    ]
    assert Counter(op for op, _, _ in told) == {"_Send": 2, "_HostRecv": 2}
    assert {source for _, source, _ in told} == {"loop/LoopCond"}
    assert len({device for _, _, device in told}) == 2


def test_a_predicate_that_hops_twice_stays_one() -> None:
    graph = loop(body_mul_on_B=BESIDE, less=THERE, LoopCond=THERE)
    hops = [
        node.attrs["recv_device"]
        for part in cut(graph)
        for node in part.graph.nodes
        if node.op == "_HostRecv" and node.attrs["edge_kind"] == "loop"
    ]
    assert sorted(hops) == [HERE, BESIDE]


def test_a_loop_over_devices_that_nothing_ends_is_refused() -> None:
    graph = Graph(
        n.with_(op="Identity") if n.op == "LoopCond" else n for n in loop(body_mul_on_B=THERE).nodes
    )
    with pytest.raises(GraphError, match="must have a pivot predicate: loop/while_context has no"):
        add_control_loops(graph)


def test_control_flow_goes_with_its_data_whatever_it_asked_for() -> None:
    placed, _ = cut_graph_file(case("v_cond"))
    switch = placed["cond/Switch"]
    assert switch.requested_device == "/job:ps/task:0"
    assert (switch.device, switch.reason) == (HERE, "control_flow")


def test_an_invariant_enters_where_it_is_used() -> None:
    placed, _ = cut_graph_file(case("vi_while_invariant"))
    assert placed["loop/mul_w_on_B/Enter"].device == HERE
    assert placed["loop/add_k_on_A/Enter"].device == THERE
