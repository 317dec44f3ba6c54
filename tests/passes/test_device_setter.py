"""Variables take turns over parameter servers, as TF's replica_device_setter has it."""

from collections.abc import Callable

from tracer.model.cluster import ClusterSpec
from tracer.model.graph import Node
from tracer.passes.device_setter import replica_device_setter

WORKER = "/job:worker/task:1"


def setter(num_ps: int) -> Callable[[Node], str]:
    return replica_device_setter(ClusterSpec.of_counts(ps=num_ps, worker=2), WORKER)


def variable(name: str, **fields: object) -> Node:
    return Node(name, "VarHandleOp", **fields)  # type: ignore[arg-type]


def test_variables_go_round_in_creation_order_and_ops_to_the_worker() -> None:
    device_of = setter(2)
    nodes = [variable("a"), Node("n", "MatMul"), *(variable(c) for c in "bcde")]
    tasks = [device_of(node) for node in nodes]
    ps0, ps1 = "/job:ps/task:0", "/job:ps/task:1"
    assert tasks == [ps0, WORKER, ps1, ps0, ps1, ps0]


def test_a_nodes_own_request_wins_part_by_part() -> None:
    device_of = setter(2)
    assert device_of(Node("n", "Neg", requested_device="/job:ps/task:1")) == "/job:ps/task:1"
    assert device_of(variable("v", requested_device="/job:worker")) == "/job:worker"
    assert (
        device_of(variable("w", requested_device="/device:CPU:0")) == "/job:ps/task:0/device:CPU:0"
    )


def test_a_colocated_node_follows_and_takes_no_turn() -> None:
    device_of = setter(2)
    assert device_of(variable("v", attrs={"_class": ["loc:@v"]})) == "/job:ps/task:0"
    assert not device_of(variable("v/Momentum", attrs={"_class": ["loc:@v"]}))
    assert device_of(variable("w")) == "/job:ps/task:1"


def test_without_a_ps_requests_stay_as_they_are() -> None:
    device_of = setter(0)
    assert not device_of(variable("v"))
    assert device_of(Node("n", "Neg", requested_device="/job:worker")) == "/job:worker"
