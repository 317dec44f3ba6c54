"""One bad op, a lost message, a slow step: one root cause comes out and nothing stays behind."""

import threading
import time
from collections.abc import Callable

import pytest

from tests.clusters import TestCluster, running_cluster
from tests.runtime.graphs import CLUSTER, PS_0, WORKER_0, WORKER_1, counter, failing, lost_recv
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.model.trace_folder import Flag
from tracer.runtime import master_step
from tracer.runtime.interfaces import StepError
from tracer.runtime.master_step import root_error

Start = Callable[..., TestCluster]


def test_the_error_of_one_task_ends_the_step_in_all_and_the_next_step_runs(
    start_cluster: Start,
) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(failing())
    for _ in range(3):
        with pytest.raises(StepError, match="shapes cannot be multiplied") as caught:
            session.run(["after:0", "fine:0"])
        assert (caught.value.task, caught.value.node) == ("ps:0", "bad")
        assert not caught.value.derived
        assert session.run("fine:0").tolist() == [-1.0]


def test_the_failed_op_and_the_aborted_recv_are_marked_and_say_why(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    with pytest.raises(StepError):
        cluster.session(failing()).run("after:0")
    bad = next(span for span in cluster.spans("op.run") if span.name == "bad")
    recv = next(span for span in cluster.spans("rendezvous.recv") if span.task == "worker:1")
    for span in (bad, recv):
        assert span.flags & Flag.ERROR
        assert "cannot be multiplied" in span.error
    assert not recv.link


def lost(cluster: TestCluster) -> Graph:
    device = cluster.workers[PS_0].env.devices[0]
    return lost_recv(device.incarnation)


def test_a_step_that_hangs_ends_in_time_and_names_the_unmatched_key(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER, step_timeout_s=0.3)
    session = cluster.session(lost(cluster))
    start = time.monotonic()
    with pytest.raises(StepError) as caught:
        session.run(["lost:0", "one:0"])
    assert time.monotonic() - start < 2.0
    assert caught.value.code == "DEADLINE_EXCEEDED"
    assert "step 1 did not end within 0.3 s" in caught.value.message
    assert "worker:0 waits for /job:ps/replica:0/task:0/device:CPU:0;" in caught.value.message
    assert ";edge_0_nothing;0:0" in caught.value.message
    assert session.run("one:0").item() == 1.0


def test_a_worker_that_never_answers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master_step, "GRACE_S", 0.1)
    with running_cluster("near", CLUSTER, step_timeout_s=0.1) as cluster:
        session = cluster.session(counter())
        session.run("init")
        with monkeypatch.context() as silence:
            silence.setattr(cluster.workers[WORKER_1], "run_graph", lambda request, done: None)
            with pytest.raises(StepError, match=r"(?s)within 0.1 s.* no answer from worker:1"):
                session.run("twice:0")
        assert session.run("twice:0").tolist() == [2.0, 2.0]


def test_closing_a_session_ends_the_step_that_runs(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(lost(cluster))
    errors: list[StepError] = []

    def client() -> None:
        try:
            session.run("lost:0")
        except StepError as error:
            errors.append(error)

    thread = threading.Thread(target=client)
    thread.start()
    worker = cluster.workers[WORKER_0]
    until = time.monotonic() + 5
    while not worker.rendezvous.running() and time.monotonic() < until:
        time.sleep(0.002)
    session.close()
    thread.join(5)
    assert [error.code for error in errors] == ["CANCELLED"]


def test_a_closed_session_runs_nothing(start_cluster: Start) -> None:
    session = start_cluster(CLUSTER).session(counter())
    session.close()
    with pytest.raises(StepError, match="Attempted to use a closed Session") as caught:
        session.run("init")
    assert caught.value.code == "FAILED_PRECONDITION"


def test_what_is_not_in_the_graph_is_refused_with_the_nearest_name(start_cluster: Start) -> None:
    session = start_cluster(CLUSTER).session(counter())
    for fetch in ("twize:0", "twice:3", "inti"):
        with pytest.raises(StepError, match=r"Near are|only has 1 output") as caught:
            session.run(fetch)
        assert caught.value.code == "INVALID_ARGUMENT"


def test_a_request_for_a_device_that_is_not_there_fails_the_whole_graph(
    start_cluster: Start,
) -> None:
    b = GraphBuilder()
    b.const(1.0, name="healthy")
    with b.device("/job:nosuch"):
        b.const(1.0, name="bad")
    with pytest.raises(StepError, match="Cannot assign a device for operation bad"):
        start_cluster(CLUSTER).session(b.graph())


def test_the_root_error_is_the_first_that_echoes_no_other() -> None:
    root = StepError("DEADLINE_EXCEEDED", "too slow", task="ps:0", node="n")
    echo = StepError("DEADLINE_EXCEEDED", "too slow\n\t worker:0 waits for k", derived=True)
    other = StepError("ABORTED", "another", derived=True)
    found = root_error([other, echo, root, echo])
    assert (found.code, found.task, found.node, found.derived) == (root.code, "ps:0", "n", False)
    assert found.message == "too slow\n\t worker:0 waits for k"
    assert root_error([other]).message == "another"
