"""Placement: which device, and why."""

import pytest

from tracer.model.cluster import DeviceName, TaskName
from tracer.model.graph import Graph, GraphError, Input
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.registry import lookup
from tracer.passes.check_graph import check_graph
from tracer.passes.place import place
from tracer.passes.placement_error import PlacementError
from tracer.passes.placer import BY_RULE, Placer

PS = TaskName("ps", 0).device()
W0 = TaskName("worker", 0).device()
W0_1 = TaskName("worker", 0).device(index=1)
W1 = TaskName("worker", 1).device()
DEVICES = (PS, W0, W0_1, W1)


def placed(
    b: GraphBuilder, devices: tuple[DeviceName, ...] = DEVICES, placer: Placer = BY_RULE
) -> dict[str, tuple[str, str]]:
    check_graph(b.graph(), devices, lookup, soft=placer.soft)
    graph = placer.place(b.graph(), devices, W0, lookup)
    return {node.name: (node.device, node.reason) for node in graph.nodes}


def variable(b: GraphBuilder, name: str = "v", op: str = "VarHandleOp") -> Input:
    return b.op(op, name=name, dtype="float32", shape=[2], shared_name=name)


def test_a_node_goes_where_it_asks_to() -> None:
    b = GraphBuilder()
    with b.device("/job:worker/task:0/device:CPU:1"):
        b.op("NoOp", name="n")
    assert placed(b)["n"] == (str(W0_1), "requested")


def test_a_request_that_leaves_a_choice_gets_the_first_device_near_the_client() -> None:
    b = GraphBuilder()
    with b.device("/job:worker"):
        b.op("NoOp", name="n")
    assert placed(b)["n"] == (str(W0), "requested")


def test_an_open_request_prefers_a_gpu() -> None:
    b = GraphBuilder()
    with b.device("/job:worker/task:1"):
        b.op("NoOp", name="n")
    gpu = TaskName("worker", 1).device("GPU")
    assert placed(b, (*DEVICES, gpu))["n"] == (str(gpu), "requested")


def test_without_a_request_the_client_device_it_is() -> None:
    b = GraphBuilder()
    x = b.placeholder([2], name="x")
    b.op("Neg", x, name="n", T="float32")
    assert placed(b)["n"] == (str(W0), "default")


def test_without_a_request_a_gpu_beside_the_client_is_preferred() -> None:
    b = GraphBuilder()
    b.op("NoOp", name="n")
    far, near = TaskName("worker", 1).device("GPU"), TaskName("worker", 0).device("GPU")
    assert placed(b, (*DEVICES, far))["n"] == (str(W0), "default")
    assert placed(b, (*DEVICES, far, near))["n"] == (str(near), "default")


def test_a_colocation_class_shares_one_device_though_its_name_was_pruned() -> None:
    b = GraphBuilder()
    b.op("NoOp", name="open", _class=["loc:@gone"])
    with b.device("/job:ps"):
        b.op("NoOp", name="asks", _class=["loc:@gone"])
    assert placed(b) == {"open": (str(PS), "colocated"), "asks": (str(PS), "requested")}


def test_a_class_whose_members_ask_for_different_devices_is_refused() -> None:
    b = GraphBuilder()
    with b.device("/job:ps"):
        b.op("NoOp", name="one")
    with b.device("/job:worker"):
        b.op("NoOp", name="other", _class=["loc:@one"])
    with pytest.raises(PlacementError, match=r"'one' and 'other'.*/job:ps and /job:worker"):
        placed(b)


def test_ops_go_with_their_variable_whatever_they_ask() -> None:
    b = GraphBuilder()
    with b.device("/job:ps"):
        v = variable(b)
    b.op("ReadVariableOp", v, name="read", dtype="float32")
    with b.device("/job:worker/task:1"):
        b.op("AssignVariableOp", v, b.const([1.0, 2.0]), name="assign", dtype="float32")
    found = placed(b)
    assert found["v"] == (str(PS), "requested")
    assert found["read"] == found["assign"] == (str(PS), "resource")


def test_two_variables_of_one_op_share_a_device() -> None:
    b = GraphBuilder()
    accumulator = variable(b, "slot")
    with b.device("/job:ps"):
        v = variable(b)
    zero = b.const(0.0, name="zero")
    b.op("ResourceApplyMomentum", v, accumulator, zero, zero, zero, name="apply", T="float32")
    found = placed(b)
    assert found["slot"] == (str(PS), "colocated")
    assert found["apply"] == (str(PS), "resource")


def test_a_reference_variable_holds_its_assignments_but_not_its_readers() -> None:
    b = GraphBuilder()
    with b.device("/job:ps"):
        v = variable(b, op="VariableV2")
    b.op("Assign", v, b.const([1.0, 2.0]), name="assign", T="float32")
    b.op("Identity", v, name="read", T="float32")
    found = placed(b)
    assert found["assign"] == (str(PS), "resource")
    assert found["read"] == (str(W0), "default")


def test_an_unplaced_source_goes_with_its_consumers() -> None:
    b = GraphBuilder()
    alone, shared = b.const(1.0, name="alone"), b.const(1.0, name="shared")
    with b.device("/job:ps"):
        b.op("AddV2", alone, shared, name="far", T="float32")
    with b.device("/job:worker/task:1"):
        b.op("Neg", shared, name="other", T="float32")
    found = placed(b)
    assert found["alone"] == (str(PS), "generator")
    assert found["shared"] == (str(W0), "default")


def test_a_source_that_leaves_a_choice_goes_with_its_consumers_within_it() -> None:
    b = GraphBuilder()
    with b.device("/job:worker"):
        x = b.const(1.0, name="x")
    with b.device("/job:worker/task:1"):
        b.op("Neg", x, name="n", T="float32")
    assert placed(b)["x"] == (str(W1), "requested")


def test_what_reads_a_shape_goes_with_the_tensor() -> None:
    b = GraphBuilder()
    with b.device("/job:ps"):
        x = b.placeholder([2], name="x")
    b.op("Shape", x, name="shape", T="float32")
    assert placed(b)["shape"] == (str(PS), "metadata")


@pytest.mark.parametrize(
    ("request_", "hint"),
    [
        (
            "/job:nosuch/task:0",
            r"assigned to /job:nosuch/task:0 but available devices are \[ /job:ps",
        ),
        (
            "/job:worker/task:9",
            r"operation bad \(tests/passes/test_place.py:\d+\): .* near is /job:w",
        ),
        ("/device:TPU:0", "Make sure the device specification refers to a valid device"),
        ("/jobs:ps", r"operation bad \(tests/passes/test_place.py:\d+\): 'jobs:ps'"),
    ],
)
def test_a_device_that_is_not_there_is_named_with_those_that_are(request_: str, hint: str) -> None:
    b = GraphBuilder()
    b.op("NoOp", name="healthy")
    graph = Graph(
        [*b.graph().nodes, b.graph()["healthy"].with_(name="bad", requested_device=request_)]
    )
    with pytest.raises(PlacementError, match=hint):
        place(graph, DEVICES, W0, lookup)
    with pytest.raises(PlacementError, match=hint):
        check_graph(graph, DEVICES, lookup)


def refusal(b: GraphBuilder, devices: tuple[DeviceName, ...] = DEVICES) -> str:
    """What is said of a graph that cannot be placed, of all of it as of a part."""
    with pytest.raises(PlacementError) as checked:
        check_graph(b.graph(), devices, lookup)
    with pytest.raises(PlacementError) as placing:
        place(b.graph(), devices, W0, lookup)
    assert str(checked.value) == str(placing.value)
    return str(placing.value)


def test_who_blocks_a_group_is_named_with_the_group_and_what_there_is() -> None:
    b = GraphBuilder()
    with b.device("/job:worker"):
        b.op("NoOp", name="one")
    b.op("NoOp", name="open", _class=["loc:@one"])
    with b.device("/device:CPU:1"):
        b.op("NoOp", name="fits", _class=["loc:@one"])
    with b.device("/job:ps"):
        b.op("NoOp", name="other", _class=["loc:@one"])
    said = refusal(b)
    assert "nodes 'one' and 'other'" in said
    assert "open (NoOp (" in said
    assert "asks for nothing;" in said
    assert "asks for /job:ps and blocks. Available devices are [ /job:ps/replica:0" in said


def test_requests_that_no_device_meets_together_are_refused() -> None:
    b = GraphBuilder()
    with b.device("/job:ps"):
        b.op("NoOp", name="one")
    with b.device("/device:CPU:1"):
        b.op("NoOp", name="other", _class=["loc:@one"])
    assert "ask for /job:ps and /device:CPU:1" in refusal(b)


def test_a_long_group_is_not_told_member_by_member() -> None:
    b = GraphBuilder()
    for number in range(20):
        b.op("NoOp", name=f"n{number}", _class=["loc:@n0"])
    with b.device("/job:ps"):
        b.op("NoOp", name="ps", _class=["loc:@n0"])
    with b.device("/job:worker"):
        b.op("NoOp", name="worker", _class=["loc:@n0"])
    said = refusal(b)
    assert said.count("asks for") == 8
    assert "worker (NoOp" in said
    assert "; 14 more. Available" in said


GPU = TaskName("worker", 0).device("GPU")


def test_what_has_no_kernel_for_gpus_stays_off_them() -> None:
    b = GraphBuilder()
    b.op("RestoreV2", name="restore", dtypes=["float32"])
    b.op("NoOp", name="n")
    found = placed(b, (*DEVICES, GPU))
    assert found["restore"] == (str(W0), "default")
    assert found["n"] == (str(GPU), "default")


def test_a_group_of_a_gpus_variable_and_an_op_without_a_kernel_there_is_refused() -> None:
    b = GraphBuilder()
    with b.device("/device:GPU:0"):
        variable(b)
    b.op("RestoreV2", name="restore", dtypes=["float32"], _class=["loc:@v"])
    said = refusal(b, (*DEVICES, GPU))
    assert "operation restore (" in said
    assert "RestoreV2 has a kernel for CPU only. The group: v (VarHandleOp" in said
    assert "asks for /device:GPU:0; restore" in said
    assert "asks for nothing and blocks" in said


def test_a_variable_that_a_loop_brings_in_holds_its_readers() -> None:
    b = GraphBuilder()
    with b.device("/job:ps"):
        v = variable(b)
    enter = b.op("Enter", v, name="enter", T="resource", frame_name="loop", is_constant=True)
    with b.device("/job:worker/task:1"):
        b.op("ReadVariableOp", enter, name="read", dtype="float32")
    found = placed(b)
    assert found["enter"] == found["read"] == (str(PS), "resource")


@pytest.mark.parametrize("op", ["FIFOQueueV2", "StackV2"])
def test_what_uses_a_queue_or_stack_goes_to_it(op: str) -> None:
    b = GraphBuilder()
    with b.device("/job:ps"):
        handle = b.op(op, name="handle")
    with b.device("/job:worker/task:1"):
        b.op("StackPushV2", handle, b.const(1.0), name="push", T="float32")
    assert placed(b)["push"] == (str(PS), "resource")


@pytest.mark.parametrize(("op", "port", "count"), [("Placeholder", 1, 1), ("NoOp", 0, 0)])
def test_an_input_that_is_no_output_of_its_source_is_refused(
    op: str, port: int, count: int
) -> None:
    b = GraphBuilder()
    source = b.op(op, name="a")
    b.op("Neg", Input(source.node, port), name="b")
    with pytest.raises(GraphError, match=f"'b': .* output {port} of .* a which has {count} out"):
        check_graph(b.graph(), DEVICES, lookup)


@pytest.mark.parametrize(
    ("op", "count", "inputs"), [("Switch", "2 inputs", 1), ("Exit", "1 input", 0)]
)
def test_control_flow_without_its_inputs_is_refused(op: str, count: str, inputs: int) -> None:
    b = GraphBuilder()
    x = b.const(1.0, name="x")
    b.op(op, *[x] * inputs, name="bad")
    with pytest.raises(GraphError, match=f"'bad': {op} takes {count}, but has {inputs}"):
        check_graph(b.graph(), DEVICES, lookup)


def test_the_outputs_of_an_unknown_op_are_anyones_guess() -> None:
    b = GraphBuilder()
    b.op("Neg", Input(b.op("Nonsense", name="a").node, 3))
    b.op("Neg", Input(b.op("Unpack", name="u", num="many").node, 3))
    check_graph(b.graph(), DEVICES, lookup)


def test_a_graph_whose_requests_can_be_met_passes_the_check() -> None:
    b = GraphBuilder()
    with b.device("/job:ps/device:CPU:*"):
        b.op("NoOp")
    check_graph(b.graph(), DEVICES, lookup)
