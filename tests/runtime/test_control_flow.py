"""Conds and loops: what is taken runs, what is not is known to be dead everywhere, and all ends."""

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.clusters import TestCluster, running_cluster
from tests.runtime.graphs import CLUSTER, PS_0, WORKER_0, WORKER_1
from tests.runtime.loops import at, choice, choice_of_loop, doubling, table
from tracer.model.graph import Graph, Input, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.model.trace_folder import Flag
from tracer.ops.kernel import Kernel, OpContext, OpDef
from tracer.ops.registry import lookup
from tracer.runtime.frame_plan import frame_id, hash64
from tracer.runtime.interfaces import StepError
from tracer.runtime.session import DirectSession

Start = Callable[..., TestCluster]
X = torch.tensor([1.0, -2.0])


def count(n: int) -> dict[str, torch.Tensor]:
    return {"n:0": torch.tensor(n, dtype=torch.int32)}


def pred(value: bool) -> dict[str, torch.Tensor]:
    return {"pred:0": torch.tensor(value), "x:0": X}


def test_the_branch_not_taken_leaves_nobody_waiting(start_cluster: Start) -> None:
    session = start_cluster(CLUSTER).session(choice())
    for value, expected in ((True, X + X), (False, -X), (True, X + X)):
        assert session.run("out:0", pred(value)).equal(expected)


def beside() -> Graph:
    """ps:0 gets `y`, which is always there, and `x`, which is dead if `pred` is true."""
    b = GraphBuilder()
    with b.device(at(WORKER_0)):
        predicate = b.placeholder([], "bool", name="pred")
        x, y = b.placeholder([2], name="x"), b.const([1.0, 1.0], name="y")
        taken, other = (
            b.op("Switch", x, predicate, name="switch", T="float32")._replace(port=port)
            for port in (0, 1)
        )
    with b.device(at(PS_0)):
        twice = b.op("AddV2", y, y, name="twice", T="float32")
        mixed = b.op("AddV2", taken, twice, name="mixed", T="float32")
        after = b.op("Neg", b.op("Neg", mixed, name="minus", T="float32"), name="back", T="float32")
    with b.device(at(WORKER_0)):
        b.op("Merge", after, other, name="merge", T="float32")
    return b.graph()


@pytest.mark.parametrize("executor", ["generated", "queue"])
def test_the_live_part_of_a_partition_runs_beside_its_dead_part(
    start_cluster: Start, executor: str
) -> None:
    cluster = start_cluster(CLUSTER, executor=executor)
    session = cluster.session(beside())
    for value, expected, index in ((False, X + 2, 0), (True, X, 1), (False, X + 2, 0)):
        twice, merged, which = session.run(["twice:0", "merge:0", "merge:1"], pred(value))
        assert twice.tolist() == [2.0, 2.0]
        assert merged.equal(expected)
        assert which.item() == index
    dead = Counter(s.name for s in cluster.spans("op.run") if s.flags & Flag.DEAD)
    assert dead == {"mixed": 1, "minus": 1, "back": 1}


@pytest.mark.parametrize("body_at", [PS_0, WORKER_1], ids=str)
def test_a_loop_over_tasks_runs_as_often_as_its_predicate_says(
    start_cluster: Start, body_at: Any
) -> None:
    session = start_cluster(CLUSTER).session(doubling(body_at=body_at, loop_at=PS_0))
    for n in (3, 0, 1, 30):
        assert [v.item() for v in session.run(["i:0", "s:0"], count(n))] == [n, 2.0**n]


@pytest.mark.parametrize("parallel_iterations", [1, 2, 10])
def test_a_loop_gives_the_same_however_many_iterations_may_run_at_once(
    parallel_iterations: int,
) -> None:
    with running_cluster("near", CLUSTER) as cluster:
        session = cluster.session(doubling(parallel_iterations))
        for n in (0, 1, 5, 100):
            assert [v.item() for v in session.run(["i:0", "s:0"], count(n))] == [n, 2.0**n]


def test_frames_nest_over_tasks(start_cluster: Start) -> None:
    session = start_cluster(CLUSTER).session(table())
    for n in (0, 1, 4, 6):
        expected = sum(i * j for i in range(n) for j in range(i))
        assert session.run("sum:0", count(n)).item() == expected


def test_a_loop_in_a_branch_not_taken_is_dead_to_its_exits(start_cluster: Start) -> None:
    session = start_cluster(CLUSTER).session(choice_of_loop())
    assert session.run("out:0", pred(False)).equal(-X)
    assert session.run("out:0", pred(True)).equal(8 * X)


def test_an_error_in_an_iteration_ends_the_loop_in_all_tasks(start_cluster: Start) -> None:
    third = Third()
    cluster = start_cluster(CLUSTER, lookup=third.lookup)
    session = cluster.session(doubling(body_at=PS_0, body="Mul"))
    with pytest.raises(StepError, match="the third one breaks") as failed:
        session.run("s:0", count(100))
    assert (failed.value.task, failed.value.node) == ("ps:0", "loop/doubled")
    assert third.calls == 3


class Third:
    """`Mul` fails when it is called for the third time."""

    def __init__(self) -> None:
        self.calls = 0

    def lookup(self, name: str) -> OpDef:
        return OpDef(name, self.bind) if name == "Mul" else lookup(name)

    def bind(self, _node: Node, _context: OpContext) -> Kernel:
        def mul(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            if self.calls == 3:
                raise ValueError("the third one breaks")
            return x

        return mul


def test_a_loop_that_never_ends_is_ended_by_the_step_timeout(start_cluster: Start) -> None:
    session = start_cluster(CLUSTER, step_timeout_s=0.3, trace=False).session(doubling())
    with pytest.raises(StepError) as failed:
        session.run("i:0", count(2**31 - 1))
    assert failed.value.code == "DEADLINE_EXCEEDED"


def test_an_error_elsewhere_ends_a_loop_that_waits_for_nobody(start_cluster: Start) -> None:
    loop = doubling()
    b = GraphBuilder(loop)
    with b.device(at(PS_0)):
        b.op("MatMul", b.const([[1.0]]), b.const([[1.0, 2.0]] * 2), name="bad", T="float32")
    session = start_cluster(CLUSTER, trace=False).session(b.graph())
    with pytest.raises(StepError, match="shapes cannot be multiplied") as failed:
        session.run(["i:0", "bad:0"], count(2**31 - 1))
    assert failed.value.node == "bad"


def test_a_dead_tensor_cannot_be_fetched(start_cluster: Start) -> None:
    session = start_cluster(CLUSTER).session(dead_end())
    with pytest.raises(StepError, match="Failed to fetch outputs for step") as failed:
        session.run("dead:0", pred(True))
    assert failed.value.code == "INTERNAL"
    assert "dead:0;0:0 was not valid" in failed.value.message


def dead_end(device: str = at(WORKER_1)) -> Graph:
    """`dead` has a value only where `pred` is false."""
    b = GraphBuilder()
    predicate = b.placeholder([], "bool", name="pred")
    switch = b.op("Switch", b.placeholder([2], name="x"), predicate, name="switch", T="float32")
    with b.device(device):
        b.op("Neg", switch, name="dead", T="float32")
    return b.graph()


@pytest.mark.parametrize("device", ["/device:CPU:0", "/device:CPU:1"])
def test_a_dead_tensor_is_no_result_without_a_cluster(device: str) -> None:
    with DirectSession(dead_end(device), ["cpu:0", "cpu:1"]) as session:
        assert session.run("dead:0", pred(False)).equal(-X)
        with pytest.raises(StepError) as failed:
            session.run("dead:0", pred(True))
    assert failed.value.code == "INVALID_ARGUMENT"
    assert failed.value.message == "Retval[0] does not have value"


def test_a_trigger_runs_for_the_dead_and_a_noop_does_not() -> None:
    b = GraphBuilder()
    switch = b.op("Switch", b.const([1.0]), b.const(True, "bool"), name="switch", T="float32")
    dead = b.op("Neg", switch, name="dead", T="float32")
    v = b.op("VarHandleOp", name="v", dtype="float32", shape=[1])
    b.op("AssignVariableOp", v, b.const([0.0]), name="init", dtype="float32")
    for name, op, more in (("trigger", "ControlTrigger", 1.0), ("noop", "NoOp", 10.0)):
        with b.control_dependencies([dead]):
            end = b.op(op, name=name)
        with b.control_dependencies([end]):
            b.op("AssignAddVariableOp", v, b.const([more]), name=f"after_{name}", dtype="float32")
    b.op("ReadVariableOp", v, name="read", dtype="float32")
    with DirectSession(b.graph()) as session:
        session.run("init")
        session.run(["after_trigger", "after_noop"])
        assert session.run("read:0").tolist() == [1.0]


def test_a_value_from_outside_must_come_in_by_an_enter() -> None:
    b = GraphBuilder()
    enter = b.op("Enter", b.const(1.0), name="enter", T="float32", frame_name="loop")
    b.op("AddV2", enter, b.const(2.0, name="outside"), name="sum", T="float32")
    with DirectSession(b.graph()) as session, pytest.raises(StepError, match="by an Enter") as bad:
        session.run("sum")
    assert bad.value.code == "INVALID_ARGUMENT"
    assert "'sum'" in bad.value.message


class Watched:
    """How many of the values that `AddV2` gave were alive at once."""

    def __init__(self) -> None:
        self.refs: list[weakref.ref[torch.Tensor]] = []
        self.peak = 0

    def lookup(self, name: str) -> OpDef:
        op = lookup(name)
        return OpDef(name, self.bind, infer=op.infer) if name == "AddV2" else op

    def bind(self, _node: Node, _context: OpContext) -> Kernel:
        def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            value = torch.add(x, y)
            self.refs = [ref for ref in self.refs if ref() is not None]
            self.refs.append(weakref.ref(value))
            self.peak = max(self.peak, len(self.refs))
            return value

        return add


def test_a_long_loop_holds_no_more_values_than_a_short_one() -> None:
    peaks = []
    for n in (100, 1000):
        watched = Watched()
        with running_cluster("near", CLUSTER, lookup=watched.lookup, trace=False) as cluster:
            session = cluster.session(doubling())
            session.run(["i:0", "s:0"], count(n))
            peaks.append(watched.peak)
        gc.collect()
        assert not [ref for ref in watched.refs if ref() is not None]
    assert peaks[0] == peaks[1] <= 8


def test_a_frame_has_tensorflows_number() -> None:
    """As it stands in the keys of golden/e_rendezvous.json; nested ones go on from their parent."""
    loop = hash64(b"loop/while_context")
    outer = frame_id(0, 0, loop)
    assert outer == 6339987812709914503
    inner = {frame_id(outer, i, hash64(b"inner")) for i in range(3)}
    assert len(inner) == 3
    assert all(number < 1 << 64 for number in inner)
    assert len({hash64(b"x" * size) for size in range(20)}) == 20


def test_a_loop_lets_a_variable_change_in_every_iteration(start_cluster: Start) -> None:
    b = GraphBuilder()
    with b.device(at(PS_0)):
        v = b.op("VarHandleOp", name="v", dtype="float32", shape=[])
        b.op("AssignVariableOp", v, b.const(0.0), name="init", dtype="float32")
        n = b.placeholder([], "int32", name="n")

        def body(i: Input) -> Input:
            added = b.op("AssignAddVariableOp", v, b.const(2.0), name="added", dtype="float32")
            with b.control_dependencies([added]):
                return b.op("AddV2", i, b.const(1, "int32"), T="int32")

        (i,) = b.while_loop(lambda i: b.op("Less", i, n, T="int32"), body, [b.const(0, "int32")])
        with b.control_dependencies([i]):
            b.op("ReadVariableOp", v, name="read", dtype="float32")
    session = start_cluster(CLUSTER).session(b.graph())
    session.run("init")
    assert session.run("read:0", count(7)).item() == 14.0
