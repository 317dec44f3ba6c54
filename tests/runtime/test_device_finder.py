"""Waiting for tasks that do not come up: bounded, told, recorded."""

import threading
from collections.abc import Sequence

import pytest

from tests.fakes import check, recorded
from tests.runtime.graphs import CLUSTER, WORKER_0, WORKER_1
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph
from tracer.model.step import SpanContext, trace_of_step
from tracer.model.trace_folder import Flag
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.runtime import device_finder
from tracer.runtime.device_finder import DeviceFilters, Missing, find_devices
from tracer.runtime.devices import make_devices
from tracer.runtime.interfaces import (
    DeviceAttributes,
    SessionOptions,
    StepError,
    WorkerInterface,
    WorkerStatus,
)
from tracer.runtime.master import Master
from tracer.runtime.worker import Worker
from tracer.runtime.worker_cache import WorkerCache
from tracer.runtime.worker_env import WorkerEnv

RUN = trace_of_step("test", "run", 0)
ADDRESSED = ClusterSpec(
    {job: {i: f"host:{2000 + i}" for i in tasks} for job, tasks in CLUSTER.jobs.items()}
)


class Late(Worker):
    """Does not answer the first calls."""

    def __init__(self, task: TaskName, refusals: int) -> None:
        super().__init__(WorkerEnv(task, make_devices(task, ["cpu:0"])), WorkerCache())
        self.refusals = refusals

    def get_status(self, _: SpanContext | None = None, /) -> WorkerStatus:
        self.refusals -= 1
        if self.refusals >= 0:
            raise StepError("UNAVAILABLE", "connection refused", task=str(self.task))
        return super().get_status()


def master_of(
    refusals: dict[TaskName, int],
    told: list[list[Missing]],
    recorder: Recorder = NO_RECORDER,
    timeout_s: float = 5.0,
) -> Master:
    def stub(task: TaskName, _address: str) -> WorkerInterface:
        return Late(task, refusals.get(task, 0))

    env = WorkerEnv(WORKER_0, make_devices(WORKER_0, ["cpu:0"]), recorder)
    return Master(
        Worker(env, WorkerCache(stub)),
        ADDRESSED,
        connect_timeout_s=timeout_s,
        progress=lambda missing: told.append(list(missing)),
    )


def test_a_task_that_comes_late_is_waited_for() -> None:
    told: list[list[Missing]] = []
    master = master_of({WORKER_1: 2}, told)
    session = master.create_session(Graph(), RUN)
    assert len(master.list_devices(session)) == 3
    master.close()


def test_a_task_that_never_comes_is_named_with_address_and_last_error() -> None:
    told: list[list[Missing]] = []
    with recorded("worker:0") as recording:
        master = master_of({WORKER_1: 10**9}, told, recording.recorder, timeout_s=0.25)
        with pytest.raises(StepError) as caught:
            master.create_session(Graph(), RUN)
        told_spans = recording.spans()
        assert not check(told_spans)
        spans = [span for span in told_spans if span.kind == "session.wait"]
    assert caught.value.code == "DEADLINE_EXCEEDED"
    assert caught.value.message == (
        "waited 0.25 s for 1 of 3 tasks: worker:1 at host:2001: connection refused"
    )
    assert [str(one) for one in told[-1]] == ["worker:1 at host:2001: connection refused"]
    failed = [span for span in spans if span.flags & Flag.ERROR]
    assert [span.attributes["vizdist.peer"] for span in failed] == ["worker:1"]
    assert failed[0].attributes["vizdist.error"] == "connection refused"


def test_who_is_waited_for_is_said_in_the_log_now_and_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert device_finder.NOTICE_S == 10.0
    monkeypatch.setattr(device_finder, "NOTICE_S", 0.1)
    monkeypatch.setattr(device_finder, "_TELL_S", 0.02)
    master = master_of({WORKER_1: 10**9}, [], timeout_s=0.35)
    with pytest.raises(StepError):
        master.create_session(Graph(), RUN)
    said = [r.getMessage() for r in caplog.records if "still waiting" in r.getMessage()]
    assert 1 <= len(said) <= 3
    assert set(said) == {
        "CreateSession still waiting for response from worker: "
        "worker:1 at host:2001: connection refused"
    }
    master.close()


def test_nobody_is_asked_any_more_once_the_wait_was_interrupted() -> None:
    def interrupted(_: Sequence[Missing]) -> None:
        raise KeyboardInterrupt

    late = Late(WORKER_1, 10**9)
    addresses = {WORKER_1: "host:2001"}
    with pytest.raises(KeyboardInterrupt):
        find_devices({WORKER_1: late}, addresses, NO_RECORDER, RUN, 60.0, interrupted)
    for thread in threading.enumerate():
        if thread.name == f"get_status {WORKER_1}":
            thread.join(5)
            assert not thread.is_alive()


def test_a_task_that_filters_leave_out_is_not_waited_for() -> None:
    master = master_of({WORKER_1: 10**9}, [], timeout_s=0.5)
    session = master.create_session(Graph(), RUN, SessionOptions(("/job:ps",)))
    assert [d.name for d in master.list_devices(session)] == [
        f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("ps", "worker")
    ]
    master.close()


@pytest.mark.parametrize(
    ("filters", "admitted"),
    [
        ((), "ps:0 worker:0 worker:1"),
        (("/job:ps", "/job:worker/task:1"), "ps:0 worker:0 worker:1"),
        (("/job:worker/task:1",), "worker:0 worker:1"),
        (("/task:0",), "ps:0 worker:0"),
        (("/job:nosuch",), "worker:0"),
        (("/device:GPU:0",), "ps:0 worker:0 worker:1"),
    ],
)
def test_a_filter_admits_the_tasks_it_meets_and_always_the_masters_own(
    filters: tuple[str, ...], admitted: str
) -> None:
    found = DeviceFilters(filters, WORKER_0).tasks(CLUSTER.tasks())
    assert " ".join(map(str, found)) == admitted


def test_a_filter_may_name_a_kind_of_device() -> None:
    devices = [
        DeviceAttributes(str(task.device(kind)), 1)
        for task in (WORKER_0, WORKER_1)
        for kind in ("CPU", "GPU")
    ]
    left = DeviceFilters(("/device:GPU:0",), WORKER_0).devices(devices)
    assert [device.name for device in left] == [
        str(WORKER_0.device("CPU")),
        str(WORKER_0.device("GPU")),
        str(WORKER_1.device("GPU")),
    ]


def test_a_failed_session_gives_its_stubs_back() -> None:
    master = master_of({WORKER_1: 10**9}, [], timeout_s=0.05)
    with pytest.raises(StepError):
        master.create_session(Graph(), RUN)
    assert master._worker.cache.num_in_use == 0
