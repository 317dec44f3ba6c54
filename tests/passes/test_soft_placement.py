"""Soft placement: a device that is missing is replaced within its task, and the node says so."""

import pytest

from tracer.model.cluster import DeviceName, TaskName
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.registry import lookup
from tracer.passes.check_graph import check_graph
from tracer.passes.placement_error import PlacementError
from tracer.passes.placer import PLACERS, Placer

PS = TaskName("ps", 0).device()
W0 = TaskName("worker", 0).device()
W1 = TaskName("worker", 1).device()
GPU = TaskName("worker", 0).device("GPU")
DEVICES = (PS, W0, W1)


@pytest.fixture(params=PLACERS)
def soft(request: pytest.FixtureRequest) -> Placer:
    return Placer(request.param, soft=True)


def place(b: GraphBuilder, placer: Placer, devices: tuple[DeviceName, ...] = DEVICES) -> Graph:
    check_graph(b.graph(), devices, lookup, soft=placer.soft)
    return placer.place(b.graph(), devices, W0, lookup)


def where(graph: Graph, name: str) -> tuple[str, str, str]:
    """(asked device, given device, reason)."""
    node = graph[name]
    return node.requested_device, node.device, node.reason


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("/job:worker/task:1/device:GPU:0", W1),
        ("/job:ps/device:CPU:9", PS),
        ("/job:ps/task:0/device:TPU:0", PS),
    ],
)
def test_a_missing_device_is_replaced_in_the_task_that_was_asked_for(
    soft: Placer, asked: str, given: DeviceName
) -> None:
    b = GraphBuilder()
    with b.device(asked):
        b.op("Neg", b.placeholder([2], name="x"), name="n", T="float32")
    assert where(place(b, soft), "n") == (asked, str(given), "soft")


def test_who_asks_for_no_task_stays_with_the_client() -> None:
    b = GraphBuilder()
    with b.device("/device:GPU:0"):
        b.op("NoOp", name="n")
    assert where(place(b, Placer(soft=True)), "n") == ("/device:GPU:0", str(W0), "soft")


def test_what_can_be_met_is_met(soft: Placer) -> None:
    b = GraphBuilder()
    with b.device("/device:GPU:0"):
        b.op("NoOp", name="n")
    assert where(place(b, soft, (*DEVICES, GPU)), "n")[1:] == (str(GPU), "requested")


@pytest.mark.parametrize("asked", ["/job:nosuch/task:0", "/job:worker/task:9", "/jobs:ps"])
def test_a_missing_task_is_replaced_by_no_other(soft: Placer, asked: str) -> None:
    b = GraphBuilder()
    b.op("NoOp", name="healthy")
    graph = Graph([b.graph()["healthy"].with_(name="bad", requested_device=asked)])
    with pytest.raises(PlacementError, match="for operation bad"):
        check_graph(graph, DEVICES, lookup, soft=True)
    with pytest.raises(PlacementError, match="for operation bad"):
        soft.place(graph, DEVICES, W0, lookup)


def test_an_op_without_a_kernel_for_gpus_draws_its_group_to_the_cpu(soft: Placer) -> None:
    b = GraphBuilder()
    with b.device("/job:worker/task:0/device:GPU:0"):
        v = b.op("VarHandleOp", name="v", dtype="float32", shape=[2], shared_name="v")
        b.op("ReadVariableOp", v, name="read", dtype="float32")
    b.op("RestoreV2", name="restore", dtypes=["float32"], _class=["loc:@v"])
    found = place(b, soft, (*DEVICES, GPU))
    assert where(found, "v")[1:] == (str(W0), "soft")
    assert where(found, "read")[1:] == (str(W0), "resource")
    assert where(found, "restore")[1:] == (str(W0), "colocated")


def test_a_group_that_asks_for_two_devices_of_a_task_gets_one_of_them(soft: Placer) -> None:
    b = GraphBuilder()
    other = TaskName("worker", 0).device(index=1)
    with b.device("/job:worker/task:0/device:CPU:0"):
        b.op("NoOp", name="one")
    with b.device("/job:worker/task:0/device:CPU:1"):
        b.op("NoOp", name="two", _class=["loc:@one"])
    found = place(b, soft, (*DEVICES, other))
    assert where(found, "one")[1:] == (str(W0), "requested")
    assert where(found, "two")[1:] == (str(W0), "soft")


def test_a_group_that_asks_for_two_tasks_is_still_refused(soft: Placer) -> None:
    b = GraphBuilder()
    with b.device("/job:ps/device:GPU:0"):
        b.op("NoOp", name="one")
    with b.device("/job:worker/device:GPU:0"):
        b.op("NoOp", name="other", _class=["loc:@one"])
    with pytest.raises(PlacementError, match="'one' and 'other'"):
        place(b, soft)


def test_a_source_that_was_softened_still_goes_with_its_consumers() -> None:
    b = GraphBuilder()
    with b.device("/device:GPU:0"):
        x = b.const(1.0, name="x")
    with b.device("/job:worker/task:1"):
        b.op("Neg", x, name="n", T="float32")
    assert where(place(b, Placer(soft=True)), "x") == ("/device:GPU:0", str(W1), "soft")
