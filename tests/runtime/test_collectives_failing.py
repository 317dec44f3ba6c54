"""Ranks that do not agree, do not come, or fail: one error that says who, and nobody hangs."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.clusters import GrpcTasks, TestCluster, running_cluster
from tests.runtime.collective_graphs import cpus_of, devices_of, fed, names, reducing, workers
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.model.trace_folder import Flag
from tracer.ops.kernel import Done, Kernel, OpContext, OpDef
from tracer.ops.registry import lookup
from tracer.runtime.interfaces import SessionOptions, StepError
from tracer.strategies.collective_nodes import CollectiveGroup, CollectiveKeys

Start = Callable[..., TestCluster]
WORKERS = [TaskName("worker", index) for index in range(2)]


def failing(cluster: TestCluster, graph: Graph, fetches: list[str], feeds: Any) -> StepError:
    with pytest.raises(StepError) as caught:
        cluster.session(graph).run(fetches, feeds)
    return caught.value


@pytest.mark.parametrize("shapes", [([4], [8]), ([2, 3], [3, 2])])
def test_shapes_are_compared_before_a_byte_moves(
    start_cluster: Start, shapes: tuple[list[int], list[int]]
) -> None:
    cluster = start_cluster(workers(2), devices=cpus_of(2, 2))
    graph, sums = reducing(devices_of(2, 2), shapes)
    feeds = {f"x{rank}:0": torch.ones(shape) for rank, shape in enumerate(shapes)}
    error = failing(cluster, graph, sums, feeds)
    assert error.code == "INVALID_ARGUMENT"
    for rank, shape in enumerate(shapes):
        assert f"rank {rank} has all_reduce of 'x' (Add, Id, ring) of float32 {shape}" in (
            error.message
        )
    assert not cluster.spans("collective.hop")
    for span in cluster.spans("collective.all_reduce"):
        assert span.flags & Flag.ERROR
        assert "do not agree on the shape" in span.error


def crossed(*, keys_by_tensor: bool) -> tuple[Graph, list[str]]:
    """Rank 0 sums a, then b; rank 1 sums b, then a. Both are alike in form."""
    b, devices = GraphBuilder(), devices_of(2, 2)
    outputs = []
    for rank, order in enumerate(["ab", "ba"]):
        keys = CollectiveKeys()
        group = CollectiveGroup(b, keys, devices, ranks=[rank])
        by_name = {}
        for of in order:
            with b.device(devices[rank]):
                x = b.const([1.0, 2.0, 3.0], name=f"{of}{rank}")
            (by_name[of],) = group.all_reduce([x], of=of)
        outputs += [by_name["a"], by_name["b"]]
        if keys_by_tensor:
            for of, key in (("a", 100), ("b", 101)):
                node = b[by_name[of].node]
                with b.device(devices[rank]):
                    const = b.const(key, "int32", name="instance_key")
                b.replace(node.name, inputs=(*node.inputs[:3], const))
    return b.graph(), names(outputs)


@pytest.mark.parametrize("keys_by_tensor", [True, False])
def test_another_order_on_one_rank_is_an_error_and_no_sum(
    start_cluster: Start, keys_by_tensor: bool
) -> None:
    cluster = start_cluster(workers(2), devices=cpus_of(2, 2))
    graph, fetches = crossed(keys_by_tensor=keys_by_tensor)
    error = failing(cluster, graph, fetches, {})
    assert error.code == "INVALID_ARGUMENT"
    for part in ("rank 0 has all_reduce of 'a'", "rank 1 has all_reduce of 'b'", "No bytes"):
        assert part in error.message
    assert ("different orders" in error.message) == keys_by_tensor


def test_an_op_that_fails_before_a_rank_arrives_is_the_root_cause(start_cluster: Start) -> None:
    cluster = start_cluster(workers(2), devices=cpus_of(3, 2))
    b, devices = GraphBuilder(), devices_of(3, 2)
    xs = [fed(b, d, r, [2, 2], "float32") for r, d in enumerate(devices)]
    with b.device(devices[1]):
        xs[1] = b.op("MatMul", xs[1], b.const([[1.0]], name="narrow"), name="bad", T="float32")
    group = CollectiveGroup(b, CollectiveKeys(), devices)
    fetches = names(group.all_reduce(xs, of="x"))
    feeds = {f"x{rank}:0": torch.ones(2, 2) for rank in range(3)}
    error = failing(cluster, b.graph(), fetches, feeds)
    assert (error.task, error.node) == ("worker:1", "bad")


def test_the_step_after_a_failed_one_is_whole(start_cluster: Start) -> None:
    cluster = start_cluster(workers(2), devices=cpus_of(2, 2))
    b, devices = GraphBuilder(), devices_of(2, 2)
    xs = [fed(b, d, r, [-1], "float32") for r, d in enumerate(devices)]
    for rank, x in enumerate(xs):
        b.replace(x.node, specs=(), attrs={"dtype": "float32"})
        assert rank < 2
    fetches = names(CollectiveGroup(b, CollectiveKeys(), devices).all_reduce(xs, of="x"))
    session = cluster.session(b.graph())
    for _ in range(2):
        with pytest.raises(StepError, match="do not agree on the shape"):
            session.run(fetches, {"x0:0": torch.ones(2), "x1:0": torch.ones(3)})
        sums = session.run(fetches, {"x0:0": torch.ones(3), "x1:0": torch.ones(3)})
        assert [each.tolist() for each in sums] == [[2.0] * 3] * 2


class Never:
    """`Square` never ends, until it is cancelled."""

    def lookup(self, name: str) -> OpDef:
        return OpDef("Square", self.bind, is_async=True) if name == "Square" else lookup(name)

    def bind(self, _node: Node, _context: OpContext) -> Kernel:
        def wait(done: Done, _: torch.Tensor) -> Any:
            return lambda: done(error=StepError("CANCELLED", "taken back", derived=True))

        return wait


def one_late(timeout_s: float) -> tuple[Graph, list[str]]:
    """Four ranks; what rank 2 brings never comes."""
    b, devices = GraphBuilder(), devices_of(4, 2)
    xs = [fed(b, d, r, [4, 4], "float32") for r, d in enumerate(devices)]
    with b.device(devices[2]):
        xs[2] = b.op("Square", xs[2], name="sleeps", T="float32")
    group = CollectiveGroup(b, CollectiveKeys(), devices, timeout_s=timeout_s)
    sums = group.all_reduce(xs, of="grads/w")
    return b.graph(), names(sums)


@pytest.mark.parametrize(("timeout_s", "step_s"), [(1.0, 20.0), (20.0, 1.0)])
def test_a_hang_names_the_rank_that_did_not_come(
    start_cluster: Start, timeout_s: float, step_s: float
) -> None:
    """Whichever limit comes first: that of the collective, or of the step."""
    cluster = start_cluster(
        workers(2), devices=cpus_of(4, 2), lookup=Never().lookup, step_timeout_s=step_s
    )
    graph, fetches = one_late(timeout_s)
    feeds = {f"x{rank}:0": torch.ones(4, 4) for rank in range(4)}
    began = time.monotonic()
    error = failing(cluster, graph, fetches, feeds)
    assert time.monotonic() - began < 10
    assert error.code == "DEADLINE_EXCEEDED", error.message
    for part in (
        "collective 1 of group 1",
        "all_reduce of 'grads/w' (Add, Id, ring) of float32 [4, 4] as instance 100",
        f"waits for rank 2 ({devices_of(4, 2)[2]}), which has come to no collective",
        "ranks 0, 1, 3 came, the first ",
    ):
        assert part in error.message, error.message
    spans = cluster.spans("collective.all_reduce")
    came = sorted(span.attributes["vizdist.collective.rank"] for span in spans)
    assert came == [0, 1, 3]
    assert all(span.flags & Flag.ERROR for span in spans)


class Between:
    """Two ranks in graphs of their own, each run by the master of its task."""

    def __init__(self, cluster: TestCluster, timeout_s: float = 5.0, **asked: Any) -> None:
        self.sessions, self.fetches = [], []
        self.workers = [cluster.workers[task] for task in WORKERS]
        devices = devices_of(2, 2)
        for rank, task in enumerate(WORKERS):
            b = GraphBuilder()
            x = fed(b, devices[rank], rank, [3], "float32")
            group = CollectiveGroup(
                b,
                CollectiveKeys(),
                devices,
                ranks=[rank],
                between_graphs=True,
                timeout_s=timeout_s,
                **asked,
            )
            self.fetches.append(names(group.all_reduce([x], of="x"))[0])
            alone = SessionOptions(device_filters=(f"/job:worker/task:{rank}",))
            self.sessions.append(cluster.session(b.graph(), task, alone))

    def run(self, steps: list[int], *, leave: bool = False) -> list[list[Any]]:
        """What each rank got in each of its steps: a list of numbers, or the error.

        `leave`: it says so when it is done.
        """
        got: list[list[Any]] = [[], []]

        def drive(rank: int) -> None:
            for step in range(steps[rank]):
                x = {f"x{rank}:0": torch.tensor([1.0, step, rank])}
                try:
                    got[rank].append(self.sessions[rank].run(self.fetches[rank], x).tolist())
                except StepError as error:
                    got[rank].append(error)
                    return
            if leave:
                self.workers[rank].finish()

        threads = [threading.Thread(target=drive, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        return got


@pytest.mark.parametrize("trace", [True, False])
def test_ranks_of_two_masters_meet(start_cluster: Start, trace: bool) -> None:
    between = Between(start_cluster(workers(2), trace=trace))
    expected = [[2.0, 2.0 * step, 1.0] for step in range(3)]
    assert between.run([3, 3]) == [expected, expected]


def test_a_rank_with_a_step_more_is_told_who_left(start_cluster: Start) -> None:
    between = Between(start_cluster(workers(2)), timeout_s=0.5)
    got = between.run([3, 4])
    assert len(got[0]) == 3
    error = got[1][3]
    assert error.code == "DEADLINE_EXCEEDED"
    assert "waits for rank 0 (/job:worker/replica:0/task:0/device:CPU:0), which came last to " in (
        error.message
    )
    assert "instance 100 of step 3" in error.message


@pytest.mark.parametrize(("steps", "last"), [([3, 4], 1), ([4, 3], 0)])
def test_a_rank_that_is_done_keeps_no_other_waiting(
    start_cluster: Start, steps: list[int], last: int
) -> None:
    between = Between(start_cluster(workers(2)), timeout_s=60.0)
    error = between.run(steps, leave=True)[last][3]
    assert error.code == "FAILED_PRECONDITION"
    for part in (
        "the ranks of group 1 run different numbers of steps: ",
        f"rank {last} came in step 4, but not rank {1 - last} ",
        "which came last to instance 100 of step 3",
        "and is done",
    ):
        assert part in error.message, error.message


@pytest.mark.parametrize(
    ("alone", "says"),
    [
        (0, "waits for rank 1 (/job:worker/replica:0/task:1/device:CPU:0), which has come to no"),
        (1, "rank 1 of group 1 waits in all_reduce of 'x' for other ranks, as worker:0 knows"),
    ],
)
def test_a_step_of_one_rank_alone_ends_with_whom_it_waits_for(
    start_cluster: Start, alone: int, says: str
) -> None:
    between = Between(start_cluster(workers(2), step_timeout_s=0.5), timeout_s=60.0)
    error = between.run([1, 0] if alone == 0 else [0, 1])[alone][0]
    assert error.code == "DEADLINE_EXCEEDED"
    assert says in error.message


def test_a_step_that_ends_for_a_lost_piece_names_it() -> None:
    with running_cluster("grpc", workers(2), step_timeout_s=0.5) as cluster:
        assert isinstance(cluster.tasks, GrpcTasks)
        cluster.tasks.let_frames_fail("drop:worker:1@step:2")
        error = Between(cluster, timeout_s=60.0).run([2, 2])[0][1]
        assert "rank 0 of group 1 waits in all_reduce of 'x' for piece " in error.message
        assert "of rank 1 (worker:1)" in error.message


def test_ranks_in_different_steps_do_not_add_up(start_cluster: Start) -> None:
    between = Between(start_cluster(workers(2)), timeout_s=5.0)
    between.sessions[1].run("x1:0", {"x1:0": torch.zeros(3)})  # rank 1 is a step ahead
    first, second = between.run([1, 1])
    for error in (first[0], second[0]):
        assert "do not agree on the step" in error.message
        assert "step" in error.message


def test_ranks_that_wait_for_a_task_that_dies_are_told_at_once() -> None:
    """Rank 1 has gone through a step with rank 0, and dies before the next."""
    with running_cluster("grpc", workers(2)) as cluster:
        between = Between(cluster, timeout_s=30.0)
        between.run([1, 1])
        began, errors = time.monotonic(), []

        def drive() -> None:
            with pytest.raises(StepError) as caught:
                between.sessions[0].run(between.fetches[0], {"x0:0": torch.ones(3)})
            errors.append(caught.value)

        thread = threading.Thread(target=drive)
        thread.start()
        while not cluster.workers[WORKERS[0]].env.collectives.leader.waiting():
            time.sleep(0.005)
        cluster.forget(between.sessions[1])
        assert isinstance(cluster.tasks, GrpcTasks)
        cluster.tasks.stop(WORKERS[1])
        thread.join(10)
        assert time.monotonic() - began < 10
        (error,) = errors
        assert error.code == "UNAVAILABLE"
        assert "worker:1" in error.message
        cluster.tasks.masters[WORKERS[1]].close()  # the rest of its process
        cluster.tasks.restart(WORKERS[1])


def test_answers_that_are_kept_for_receivers_are_forgotten(start_cluster: Start) -> None:
    cluster = start_cluster(workers(2), devices=cpus_of(4, 2), caches_responses=True)
    graph, sums = reducing(devices_of(4, 2), [[6]] * 4)
    session = cluster.session(graph)
    for _ in range(3):
        feeds = {f"x{rank}:0": torch.ones(6) for rank in range(4)}
        assert session.run(sums, feeds)[3].tolist() == [4.0] * 6
