"""Steps whose feeds and fetches come in several calls, and steps that are run by handle.

Each story is told over a near cluster and over gRPC.
"""

import threading
import time
from collections.abc import Callable
from unittest.mock import patch

import pytest
import torch

from tests.clusters import TestCluster, running_cluster
from tests.runtime.graphs import CLUSTER, PS_0, WORKER_0, failing, lost_recv
from tests.runtime.refused import refused
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.runtime.interfaces import RequestNames, RunCallableRequest, RunStepRequest, StepError
from tracer.runtime.master_step import MasterStep, Watchdog
from tracer.runtime.session import NO_TRACING, DirectSession, Value

Start = Callable[..., TestCluster]

ONES, TWOS = torch.ones(2), torch.full((2,), 2.0)


def in_parts() -> Graph:
    """`sum` on ps:0 is `x + y`; `product` on worker:1 is `sum * z`."""
    b = GraphBuilder()
    x, y, z = (b.placeholder([2], name=name) for name in "xyz")
    with b.device("/job:ps/task:0"):
        total = b.op("AddV2", x, y, name="sum", T="float32")
    with b.device("/job:worker/task:1"):
        b.op("Mul", total, z, name="product", T="float32")
    return b.graph()


def one(values: list[Value]) -> list[float]:
    (value,) = values
    assert isinstance(value, torch.Tensor)
    numbers: list[float] = value.tolist()
    return numbers


# partial runs


def test_a_partial_run_is_one_step_whose_feeds_come_when_they_are_there(
    start_cluster: Start,
) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(in_parts())
    part = session.partial_run_setup(["sum:0", "product:0"], ["x:0", "y:0", "z:0"])
    assert part.run(feeds={"x:0": ONES}) == []
    assert one(part.run(["sum:0"], {"y:0": TWOS})) == [3.0, 3.0]
    steps = {step for worker in cluster.workers.values() for step in worker.rendezvous.running()}
    assert len(steps) == 1
    assert one(part.run(["product:0"], {"z:0": TWOS})) == [6.0, 6.0]
    assert session.num_steps == 1
    over = refused(lambda: part.run(["product:0"]))
    assert (over.code, "Must run PartialRunSetup" in over.message) == ("INVALID_ARGUMENT", True)
    calls = [s for s in cluster.spans("session.run") if "vizdist.partial_run" in s.attributes]
    ran = calls[:3]
    assert {span.attributes["vizdist.partial_run"] for span in ran} == {part.handle}
    assert len({span.attributes["vizdist.step.id"] for span in ran}) == 1


def test_two_partial_runs_of_one_session_do_not_meet(start_cluster: Start) -> None:
    session = start_cluster(CLUSTER).session(in_parts())
    names = ["sum:0"], ["x:0", "y:0"]
    first, second = session.partial_run_setup(*names), session.partial_run_setup(*names)
    first.run(feeds={"x:0": ONES})
    second.run(feeds={"x:0": TWOS})
    assert one(second.run(["sum:0"], {"y:0": TWOS})) == [4.0, 4.0]
    assert one(first.run(["sum:0"], {"y:0": ONES})) == [2.0, 2.0]


@pytest.mark.parametrize(
    ("fetches", "feeds", "text"),
    [
        ([], ["x:0"], "The feed x:0 has already been fed."),
        ([], ["sum:0"], "The feed sum:0 was not specified in partial_run_setup."),
        (["x:0"], [], "The fetch x:0 was not specified in partial_run_setup."),
        (
            ["product:0"],
            ["y:0"],
            "Fetch product:0 can't be computed from the feeds that have been fed so far.",
        ),
    ],
)
def test_a_part_that_cannot_be_is_refused_and_the_run_goes_on(
    start_cluster: Start, fetches: list[str], feeds: list[str], text: str
) -> None:
    session = start_cluster(CLUSTER).session(in_parts())
    part = session.partial_run_setup(["sum:0", "product:0"], ["x:0", "y:0", "z:0"])
    part.run(feeds={"x:0": ONES})
    error = refused(lambda: part.run(fetches, dict.fromkeys(feeds, ONES)))
    assert (error.code, error.message) == ("INVALID_ARGUMENT", text)
    values = part.run(["sum:0", "product:0"], {"y:0": ONES, "z:0": TWOS})
    assert [v.tolist() for v in values if v is not None] == [[2.0, 2.0], [4.0, 4.0]]


def test_calls_of_a_partial_run_come_one_after_the_other(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    device = cluster.workers[PS_0].env.devices[0]
    session, master = cluster.session(lost_recv(device.incarnation)), cluster.master()
    part = session.partial_run_setup(["lost:0", "one:0"])
    errors: list[StepError] = []
    waiting = threading.Thread(
        target=lambda: errors.append(refused(lambda: part.run(["lost:0"]))), daemon=True
    )
    waiting.start()
    until = time.monotonic() + 5
    while not cluster.workers[WORKER_0].rendezvous.running() and time.monotonic() < until:
        time.sleep(0.002)
    call = RunStepRequest(session.handle, {}, ("one:0",), (), NO_TRACING.step(1), part.handle)
    error = refused(lambda: master.run_step(call))
    assert (error.code, "still runs" in error.message) == ("FAILED_PRECONDITION", True)
    session.close()
    waiting.join(5)
    assert [error.code for error in errors] == ["CANCELLED"]


def test_the_next_call_waits_until_nobody_holds_the_one_before() -> None:
    """Both have the step's id: else the next one would be forgotten in its place."""
    with running_cluster("near", CLUSTER, step_timeout_s=2.0) as cluster:
        session, master = cluster.session(in_parts()), cluster.master()
        part = session.partial_run_setup(["sum:0"], ["x:0", "y:0"])
        feeds = {"y:0": TWOS}
        call = RunStepRequest(
            session.handle, feeds, ("sum:0",), (), NO_TRACING.step(1), part.handle
        )
        early: list[StepError] = []
        really_forget = Watchdog.forget

        def forget(watchdog: Watchdog, step: MasterStep) -> None:
            if not early:
                early.append(refused(lambda: master.run_step(call)))
            really_forget(watchdog, step)

        with patch.object(Watchdog, "forget", forget):
            part.run(feeds={"x:0": ONES})
        assert [error.code for error in early] == ["FAILED_PRECONDITION"]
        assert one(part.run(["sum:0"], feeds)) == [3.0, 3.0]


def two_queues() -> Graph:
    """A queue on worker:0 and one on ps:0, each with what puts in, takes out and counts."""
    b = GraphBuilder()
    for task, job in ((WORKER_0, "worker"), (PS_0, "ps")):
        with b.device(f"/job:{job}/task:{task.index}"):
            queue = b.op(
                "FIFOQueueV2", name=f"{job}_queue", component_types=["float32"], capacity=4
            )
            b.op("QueueDequeueV2", queue, name=f"{job}_take", component_types=["float32"])
            element = b.const([1.0], "float32", name=f"{job}_element")
            b.op("QueueEnqueueV2", queue, element, name=f"{job}_put", Tcomponents=["float32"])
            b.op("QueueSizeV2", queue, name=f"{job}_size")
    with b.device("/job:worker/task:0"):
        b.op("Neg", b.placeholder([1], name="x"), name="minus", T="float32")
    return b.graph()


def test_a_call_that_takes_too_long_ends_what_other_tasks_wait_for_too(
    start_cluster: Start,
) -> None:
    """Also those that had answered the call: else one of them would take the next element."""
    session = start_cluster(CLUSTER, step_timeout_s=0.5).session(two_queues())
    part = session.partial_run_setup(["worker_take:0", "minus:0", "ps_take"], ["x:0"])
    assert refused(lambda: part.run(["worker_take:0"])).code == "DEADLINE_EXCEEDED"
    for job in ("worker", "ps"):
        session.run(f"{job}_put")
        assert session.run(f"{job}_size:0").item() == 1


def test_a_partial_run_that_fails_is_over(start_cluster: Start) -> None:
    session = start_cluster(CLUSTER).session(failing())
    part = session.partial_run_setup(["after:0", "fine:0"])
    error = refused(lambda: part.run(["after:0"]))
    assert (error.task, error.node) == ("ps:0", "bad")
    assert "Must run PartialRunSetup" in refused(lambda: part.run(["fine:0"])).message
    assert session.run("fine:0").tolist() == [-1.0]


def test_a_session_that_closes_ends_a_partial_run_between_its_calls(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(in_parts())
    session.partial_run_setup(["product:0"], ["x:0", "y:0", "z:0"]).run(feeds={"x:0": ONES})
    session.close()  # that nothing is left behind, the cluster checks


def test_one_task_alone_runs_in_parts_too() -> None:
    b = GraphBuilder()
    x, y = (b.placeholder([2], name=name) for name in "xy")
    b.op("AddV2", b.op("Neg", x, name="minus", T="float32"), y, name="sum", T="float32")
    with DirectSession(b.graph()) as session:
        part = session.partial_run_setup(["minus:0", "sum:0"], ["x:0", "y:0"])
        assert one(part.run(["minus:0"], {"x:0": ONES})) == [-1.0, -1.0]
        assert one(part.run(["sum:0"], {"y:0": TWOS})) == [1.0, 1.0]
        assert session.worker.rendezvous.running() == []


# callables


def test_a_callable_is_made_once_run_by_handle_and_released(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(in_parts())
    add = session.make_callable(["sum:0"], ["y:0", "x:0"])
    master = cluster.tasks.masters[WORKER_0].session(session.handle)
    assert master.num_graphs == 1
    for _ in range(2):
        (value,) = add(TWOS, ONES)
        assert value is not None
        assert value.tolist() == [3.0, 3.0]
    assert master.num_graphs == 1
    add.release()
    error = refused(lambda: add(TWOS, ONES))
    assert error.code == "INVALID_ARGUMENT"
    assert error.message.startswith("Attempted to run callable after handle was released")


def test_a_callable_of_what_is_not_there_is_refused_when_it_is_made(start_cluster: Start) -> None:
    session = start_cluster(CLUSTER).session(in_parts())
    error = refused(lambda: session.make_callable(["sun:0"]))
    assert "'sun', does not exist in the graph. Near are sum." in error.message


def test_too_few_feeds_of_a_callable_are_counted(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session, master = cluster.session(in_parts()), cluster.master()
    handle = master.make_callable(session.handle, RequestNames(("x:0", "y:0"), ("sum:0",), ()))
    request = RunCallableRequest(session.handle, handle, (ONES,), NO_TRACING.step(1))
    error = refused(lambda: master.run_callable(request))
    assert error.message == "Expected 2 feed tensors, but got 1"
