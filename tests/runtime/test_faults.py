"""Faults that are asked for: they happen once, in their step, and the trace has them."""

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.clusters import RUN_ID
from tests.fakes import Recording, recorded
from tracer.model.cluster import TaskName
from tracer.model.fault import faults_from
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.model.step import trace_of_step
from tracer.runtime.faults import FaultyWorker
from tracer.runtime.interfaces import StepError
from tracer.runtime.session import Session, Tracing
from tracer.server import LocalServer, ServerConfig

RUN = trace_of_step(RUN_ID, "run", 0)


def doubled() -> Graph:
    b = GraphBuilder()
    b.op("AddV2", b.const(2.0, name="two"), b.const(2.0, name="also_two"), name="sum")
    return b.graph()


@contextmanager
def task_with(faults: str) -> Iterator[tuple[LocalServer, Recording]]:
    with recorded() as recording:
        config = ServerConfig(recording.recorder, RUN, faults=faults_from(faults))
        with closing(LocalServer(TaskName("worker", 0), ("cpu:0",), config)) as server:
            yield server, recording


@contextmanager
def session_of(server: LocalServer, recording: Recording) -> Iterator[Session]:
    tracing = Tracing(recording.recorder, RUN, lambda n: trace_of_step(RUN_ID, "run", n))
    with Session(server.master, doubled(), tracing) as session:
        yield session


def test_an_op_fails_in_its_step_and_in_no_other() -> None:
    with task_with("error:worker:0@step:3") as (server, recording):
        with session_of(server, recording) as session:
            assert [session.run("sum:0").item() for _ in range(2)] == [4.0, 4.0]
            with pytest.raises(StepError, match="--fault error:worker:0@step:3") as failed:
                session.run("sum:0")
            assert (failed.value.code, failed.value.node) == ("INTERNAL", "sum")
            assert failed.value.task == "worker:0"
            assert session.run("sum:0").item() == 4.0
        (fault,) = recording.of("fault.inject")
    assert fault.attributes["vizdist.fault"] == "error:worker:0@step:3"
    assert fault.step == 3


@pytest.mark.parametrize(("kind", "number"), [("kill", signal.SIGKILL), ("stop", signal.SIGSTOP)])
def test_a_task_is_sent_its_signal_once_after_the_trace_has_it(
    monkeypatch: pytest.MonkeyPatch, kind: str, number: int
) -> None:
    with task_with(f"{kind}:worker:0@step:2") as (server, recording):
        sent: list[tuple[int, int]] = []

        def kill(_pid: int, number: int) -> None:
            sent.append((number, len(recording.of("fault.inject"))))

        monkeypatch.setattr("os.kill", kill)
        with session_of(server, recording) as session:
            session.run("sum:0")
            assert not sent
            for _ in range(3):
                session.run("sum:0")
    assert sent == [(number, 1)]


def test_what_a_client_does_aside_of_its_run_is_no_step_of_it() -> None:
    with (
        task_with("error:worker:0@step:1") as (server, _),
        Session(server.master, doubled()) as aside,
    ):
        assert [aside.run("sum:0").item() for _ in range(3)] == [4.0] * 3


def test_a_task_without_faults_is_served_by_a_plain_worker() -> None:
    with task_with("") as (server, _):
        assert not isinstance(server._worker, FaultyWorker)
    with task_with("delay=5:worker:0@step:1") as (server, _):
        assert not isinstance(server._worker, FaultyWorker)
