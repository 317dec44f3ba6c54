"""Values of every sort on their way: strings, reference variables, tensors that are too large."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.clusters import TestCluster, running_cluster
from tests.runtime.graphs import CLUSTER
from tracer.model.graph import Graph, Literal
from tracer.model.graph_builder import GraphBuilder
from tracer.model.literal import literal_of, value_of
from tracer.ops.kernel import Kernel, OpDef
from tracer.ops.registry import lookup
from tracer.runtime.interfaces import StepError
from tracer.runtime.session import DirectSession, Session
from tracer.runtime.worker_env import ExecutorKind

Start = Callable[..., TestCluster]
EXECUTORS = pytest.mark.parametrize("executor", ["generated", "queue"])


def words() -> Graph:
    """`here` on worker:0 is a text that ps:0 holds."""
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        text = b.const(["né", ""], "string", name="text")
    with b.device("/job:worker/task:0"):
        b.op("Identity", text, name="here", T="string")
    return b.graph()


@EXECUTORS
def test_strings_go_from_task_to_task(start_cluster: Start, executor: str) -> None:
    session = start_cluster(CLUSTER, executor=executor).session(words())
    here = session.run("here:0")
    assert isinstance(here, Literal)
    assert value_of(here) == ["né", ""]


def test_a_string_may_be_fed(start_cluster: Start) -> None:
    fed: Any = literal_of("string", ["x", "y"])
    assert start_cluster(CLUSTER).session(words()).run("here:0", {"text:0": fed}) == fed


def reference() -> Graph:
    """`v` on ps:0; `minus` on worker:0 and `sum` on ps:0 take it as a value."""
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        v = b.op("VariableV2", name="v", dtype="float32", shape=[2])
        b.op("Assign", v, b.const([1.0, 2.0], name="first"), name="init")
        b.op("AssignAdd", v, v, name="double")
        b.op("AddV2", v, v, name="sum")
    with b.device("/job:worker/task:0"):
        b.op("Neg", v, name="minus")
    return b.graph()


@EXECUTORS
def test_a_ref_variable_is_a_value_to_whoever_does_not_assign_it(
    start_cluster: Start, executor: str
) -> None:
    cluster = start_cluster(CLUSTER, executor=executor)
    session = cluster.session(reference())
    session.run("init")
    session.run("double")
    values = session.run(["sum:0", "minus:0", "v:0"])
    assert [value.tolist() for value in values] == [[4.0, 8.0], [-2.0, -4.0], [2.0, 4.0]]
    sends = [span for span in cluster.spans("rendezvous.send") if span.name.startswith("v_S")]
    assert {span.num_bytes for span in sends} == {8}


@EXECUTORS
def test_a_ref_variable_is_read_after_what_its_reader_waits_for(
    start_cluster: Start, executor: str
) -> None:
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        v = b.op("VariableV2", name="v", dtype="float32", shape=[2])
        b.op("Assign", v, b.const([1.0, 2.0], name="first"), name="init")
        more = b.op("AssignAdd", v, b.const([1.0, 1.0], name="one"), name="more")
    with b.device("/job:worker/task:0"), b.control_dependencies([more]):
        b.op("Identity", v, name="late", T="float32")
        b.op("Neg", v, name="minus")
    session = start_cluster(CLUSTER, executor=executor).session(b.graph())
    session.run("init")
    for turn in (1, 2, 3):
        late, minus = session.run(["late:0", "minus:0"])
        assert late.tolist() == [1.0 + turn, 2.0 + turn]
        assert minus.tolist() == [-1.0 - turn, -2.0 - turn]


@EXECUTORS
def test_a_ref_variable_is_a_value_in_a_task_of_its_own(executor: str) -> None:
    graph = Graph(node.with_(requested_device="") for node in reference().nodes)
    with DirectSession(graph, executor=executor) as session:  # type: ignore[arg-type]
        session.run("init")
        assert session.run("v:0").tolist() == [1.0, 2.0]
        assert session.run("minus:0").tolist() == [-1.0, -2.0]


def test_a_tensor_of_more_than_two_gib_is_refused_before_it_is_made(start_cluster: Start) -> None:
    b = GraphBuilder()
    dims = b.const([30_000, 30_000], "int32", name="dims")
    filled = b.op("Fill", dims, b.const(1.0, name="one"), name="filled", T="float32")
    b.op("Sum", filled, b.const([0, 1], "int32", name="axes"), name="sum", T="float32")
    session = start_cluster(CLUSTER).session(b.graph())
    with pytest.raises(StepError, match="3,600,000,000 bytes, 2 GiB is the most") as failed:
        session.run("sum:0")
    assert (failed.value.code, failed.value.node) == ("RESOURCE_EXHAUSTED", "filled")
    assert session.run("one:0").item() == 1.0


@EXECUTORS
def test_outputs_that_are_too_few_fail_their_node(start_cluster: Start, executor: str) -> None:
    def one_of_two(_node: object, _context: object) -> Kernel:
        return lambda x: (x,)

    def with_fault(name: str) -> OpDef:
        op = lookup(name)
        return replace(op, bind=one_of_two) if name == "Unpack" else op

    b = GraphBuilder()
    parts = b.op("Unpack", b.const([[1.0], [2.0]], name="rows"), name="parts", num=2, T="float32")
    b.op("Neg", parts, name="minus", T="float32")
    session = start_cluster(CLUSTER, executor=executor, lookup=with_fault).session(b.graph())
    with pytest.raises(StepError) as failed:
        session.run("minus:0")
    assert (failed.value.code, failed.value.node) == ("INVALID_ARGUMENT", "parts")


@pytest.mark.parametrize(
    ("op", "attrs", "says"),
    [
        ("Unpack", {"num": 3}, "must equal 3, got shape"),
        ("Unpack", {}, "Unpack needs the attribute 'num'"),
        ("Placeholder", {}, "Placeholder needs the attribute 'dtype'"),
        ("Cast", {"DstT": "float31"}, "did you mean float32"),
    ],
)
def test_a_wrong_attribute_is_an_error_of_its_node(
    op: str, attrs: dict[str, Any], says: str
) -> None:
    b = GraphBuilder()
    rows = b.const([[1.0], [2.0]], name="rows")
    b.op(op, *([] if op == "Placeholder" else [rows]), name="bad", **attrs)
    with DirectSession(b.graph()) as session, pytest.raises(StepError, match=says) as failed:
        session.run("bad")
    assert (failed.value.code, failed.value.node) == ("INVALID_ARGUMENT", "bad")


def test_a_fed_tensor_that_nothing_keeps_reaches_its_kernel_without_a_copy() -> None:
    seen: list[torch.Tensor] = []

    def with_witness(name: str) -> OpDef:
        op = lookup(name)
        return replace(op, bind=lambda *_: seen.append) if name == "Neg" else op

    b = GraphBuilder()
    with b.device("/job:worker/task:0"):
        b.op("Neg", b.placeholder([2], name="x"), name="y", T="float32")
    fed = torch.tensor([1.0, 2.0])
    with running_cluster("near", CLUSTER, lookup=with_witness) as cluster:
        cluster.session(b.graph()).run("y", {"x:0": fed})
    assert seen == [fed]
    assert seen[0] is fed


def kept(at: str) -> Graph:
    """A variable and a queue that keep the fed `x` as it came, or what it was shaped to."""
    b = GraphBuilder()
    with b.device(at):
        x = b.placeholder([2], name="x")
        row = b.op("Reshape", x, b.const([1, 2], "int32"), name="row", T="float32")
        v = b.op("VarHandleOp", name="v", dtype="float32", shape=[1, 2])
        b.op("AssignVariableOp", v, row, name="assign", dtype="float32")
        b.op("ReadVariableOp", v, name="read", dtype="float32")
        queue = b.op("FIFOQueueV2", name="queue", component_types=["float32"])
        b.op("QueueEnqueueV2", queue, x, name="put")
        b.op("QueueDequeueV2", queue, name="take", component_types=["float32"])
        b.const([1.0, 2.0], name="constant")
    return b.graph()


def check_that_nothing_is_shared(session: Session) -> None:
    fed = torch.tensor([1.0, 2.0])
    session.run("assign", {"x:0": fed})
    session.make_callable("put", "x:0")(fed)
    part = session.partial_run_setup("row:0", "x:0")
    part.run((), {"x:0": fed})
    fed.fill_(9)
    assert session.run("take:0").tolist() == [1.0, 2.0]
    (row,) = part.run("row:0")
    assert row is not None
    assert row.tolist() == [[1.0, 2.0]]
    for name, value in (("read:0", [[1.0, 2.0]]), ("constant:0", [1.0, 2.0])):
        session.run(name).fill_(7)
        assert session.run(name).tolist() == value


@EXECUTORS
@pytest.mark.parametrize("at", ["worker", "ps"])
def test_a_tensor_that_outlives_its_step_is_not_the_clients_to_change(
    start_cluster: Start, executor: str, at: str
) -> None:
    cluster = start_cluster(CLUSTER, executor=executor)
    check_that_nothing_is_shared(cluster.session(kept(f"/job:{at}/task:0")))


@EXECUTORS
def test_nor_is_it_in_one_task_alone(executor: ExecutorKind) -> None:
    with DirectSession(kept(""), executor=executor) as session:
        check_that_nothing_is_shared(session)
