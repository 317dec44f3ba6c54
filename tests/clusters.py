"""Real clusters for tests: near (one process, plain calls), over gRPC, or over local sockets.

A test asks the `start_cluster` fixture for a cluster and runs the same body over both. When the
cluster goes, everything that must hold after any run is checked: no step, key or stub is left, no
thread lives on, and the recorded spans obey the schema.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import grpc
import pytest

from tests.fakes import Recording, SpanData, check, recorded
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.fault import faults_from
from tracer.model.graph import Graph
from tracer.model.step import trace_of_step
from tracer.passes.placer import BY_RULE
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.rpc.master_stub import RemoteMaster
from tracer.rpc.server import TaskServer, serve
from tracer.rpc.transport import Transport
from tracer.rpc.worker_stub import RemoteWorker
from tracer.runtime.cuda import CUDA
from tracer.runtime.devices import make_devices
from tracer.runtime.interfaces import (
    SHARED,
    MasterInterface,
    SessionOptions,
    WorkerInterface,
)
from tracer.runtime.master import Master
from tracer.runtime.near_cluster import NearCluster
from tracer.runtime.resource_manager import TaskResources
from tracer.runtime.session import NO_TRACING, Session, Tracing
from tracer.runtime.worker import Worker
from tracer.runtime.worker_cache import WorkerCache
from tracer.runtime.worker_env import WorkerEnv

KINDS = ("near", "grpc")
RUN_ID = "test"
WORKER_0 = TaskName("worker", 0)
RUNTIME_THREADS = (
    "get_status",
    "step watchdog",
    "collective",
    "session gc",
    "make graph",
    "ps:",
    "worker:",
)
_QUIET_S = 5.0  #: what rides with a next message (cleanup) has come by then


class Tasks(Protocol):
    """The tasks of a running cluster, whatever joins them."""

    workers: dict[TaskName, Worker]
    masters: dict[TaskName, Master]

    def close(self) -> None: ...


class GrpcTasks:
    """Each task with a gRPC server of its own on loopback, all in this process.

    With `sockets`, a folder, they talk by the unix sockets there.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        *,
        recorder_of: Callable[[TaskName], Recorder],
        sockets: Path | None = None,
        **options: Any,
    ) -> None:
        self._sockets = sockets
        self._recorder_of = recorder_of
        self._step_timeout_s = options.pop("step_timeout_s", 60.0)
        self._session_gc_s = options.pop("session_gc_s", 0.0)
        self._passes = options.pop("passes", ())
        self._placer = options.pop("placer", BY_RULE)
        self._devices, self._driver = options.pop("devices", {}), options.pop("driver", CUDA)
        self._checkpoints = options.pop("checkpoints", None)
        if options.get("clock", ...) is None:
            del options["clock"]
        self._options = options
        self.workers: dict[TaskName, Worker] = {}
        self.masters: dict[TaskName, Master] = {}
        self._transports: dict[TaskName, Transport] = {}
        self._servers: dict[TaskName, TaskServer] = {}
        for task in cluster.tasks():
            self._start(task, "127.0.0.1:0")
            cluster = cluster.with_address(task, self._servers[task].address)
        self._cluster = cluster
        for master in self.masters.values():
            master.join(cluster)

    def _start(self, task: TaskName, address: str) -> None:
        recorder = self._recorder_of(task)
        own = make_devices(task, self._devices.get(task, ("cpu:0",)), recorder, self._driver)
        resources = TaskResources(self._checkpoints)
        env = WorkerEnv(task, own, recorder, resources=resources, **self._options)
        transport = Transport(
            str(task),
            recorder=recorder,
            sockets=self._sockets,
            peers_cache_responses=env.caches_responses,
        )
        worker = Worker(env, WorkerCache(self._stubs(transport), recorder))
        master = Master(
            worker,
            ClusterSpec({}),
            step_timeout_s=self._step_timeout_s,
            session_gc_s=self._session_gc_s,
            passes=self._passes,
            placer=self._placer,
        )
        self.workers[task], self.masters[task] = worker, master
        self._transports[task] = transport
        self._servers[task] = serve(transport, worker, master, address)

    def stop(self, task: TaskName) -> None:
        """It is gone as a killed process is: nobody is told, its connections break."""
        self._servers[task].stop()
        self._transports[task].close()
        self.workers[task].close()

    def restart(self, task: TaskName) -> None:
        """Another life on the same address, which knows nothing of the one before."""
        self._start(task, self._servers[task].address)
        self.masters[task].join(self._cluster)

    @staticmethod
    def _stubs(transport: Transport) -> Callable[[TaskName, str], WorkerInterface]:
        return lambda task, address: RemoteWorker(transport, task, address)

    def break_within_large_answer(self, task: TaskName, peer: TaskName) -> None:
        """The stream that joins the two breaks once, when a part of a large answer has come."""
        transport, address = self._transports[task], self._servers[peer].address
        connection = transport.open_connection(address)
        assert connection is not None, f"{task} and {peer} are not joined"
        whole = connection.receive

        def receive(message: Any) -> None:
            whole(message)
            if connection.reader.num_partial:
                code, nothing = grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata()
                raise grpc.aio.AioRpcError(code, nothing, nothing, "the stream broke")

        connection.receive = receive  # type: ignore[method-assign]

    def let_frames_fail(self, faults: str) -> None:
        """As `--fault` writes them."""
        for fault in faults_from(faults):
            self._servers[fault.task].let_frames_fail([fault])

    def dial(self, task: TaskName, recorder: Recorder) -> RemoteMaster:
        address = self._servers[task].address
        return RemoteMaster(address, recorder=recorder, sockets=self._sockets)

    def close(self) -> None:
        for master in self.masters.values():
            master.close()
        for task, server in self._servers.items():
            server.stop()
            self.workers[task].close()
            self._transports[task].close()


class TestCluster:
    """A cluster and its clients."""

    __test__ = False

    def __init__(self, tasks: Tasks, recording: Recording | None) -> None:
        self.tasks = tasks
        self.workers = tasks.workers
        self.recording = recording
        self._clients: list[Callable[[], None]] = []

    @property
    def tracing(self) -> Tracing:
        """What a client in a process of its own records with."""
        if self.recording is None:
            return NO_TRACING
        run = trace_of_step(RUN_ID, "run", 0)
        return Tracing(self.recording.recorder, run, lambda n: trace_of_step(RUN_ID, "run", n))

    def master(self, at: TaskName = WORKER_0) -> MasterInterface:
        """As a client that dials `at` sees it."""
        if not isinstance(self.tasks, GrpcTasks):
            return self.tasks.masters[at]
        remote = self.tasks.dial(at, self.tracing.recorder)
        self._clients.append(remote.close)
        return remote

    def session(
        self, graph: Graph, at: TaskName = WORKER_0, options: SessionOptions = SHARED
    ) -> Session:
        """A client that dials `at`; it ends with the cluster."""
        session = Session(self.master(at), graph, self.tracing, options)
        self._clients.append(session.close)
        return session

    def forget(self, session: Session) -> None:
        """A session that its master has ended needs no good bye."""
        self._clients.remove(session.close)

    def spans(self, kind: str) -> list[SpanData]:
        assert self.recording is not None, "this cluster records nothing"
        return self.recording.of(kind)

    def leave(self) -> None:
        """All clients say good bye."""
        while self._clients:
            self._clients.pop()()


@contextmanager
def running_cluster(
    kind: str, spec: ClusterSpec, *, trace: bool = True, **options: Any
) -> Iterator[TestCluster]:
    """A cluster of a kind (near, grpc, local), checked when it goes.

    Options are NearCluster's, and `detail`.
    """
    before = set(threading.enumerate())
    detail = options.pop("detail", "op")
    with ExitStack() as stack:
        recording = None
        if trace:
            recording = stack.enter_context(recorded("client", options.get("clock"), detail))
        recorder_of = recording_of(recording)
        make = NearCluster if kind == "near" else GrpcTasks
        if kind == "local":
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            options["sockets"] = Path(folder)
        tasks: Tasks = make(spec, recorder_of=recorder_of, **options)
        cluster = TestCluster(tasks, recording)
        try:
            yield cluster
            cluster.leave()
            faults = left_behind(tasks)
        finally:
            tasks.close()
        faults += [f"thread {t.name} lives on" for t in _living(before)]
        faults += check(recording.spans(at_end=True)) if recording else []
        assert not faults, "\n".join(faults)


def recording_of(recording: Recording | None) -> Callable[[TaskName], Recorder]:
    return lambda task: recording.add(str(task)) if recording else NO_RECORDER


def left_behind(tasks: Tasks) -> list[str]:
    """What a cluster whose clients have gone should not hold any more."""
    workers = tasks.workers.values()
    _eventually(lambda: not any(worker.rendezvous.running() for worker in workers))
    faults = [
        f"{worker.task}: step {step_id:x} was not cleaned up"
        for worker in workers
        for step_id in worker.rendezvous.running()
    ]
    faults += [f"{w.task}: key without {o.side}: {o.key}" for w in workers for o in w.leftovers()]
    faults += [
        f"{w.task}: execution {number:x} of a collective is not over"
        for w in workers
        for number in w.env.collectives.exchanges.running()
    ]
    faults += [f"{w.task}: {w.num_sessions} sessions are left" for w in workers if w.num_sessions]
    return faults + [
        f"{worker.task}: {worker.cache.num_in_use} stubs were not given back"
        for worker in workers
        if worker.cache.num_in_use
    ]


def _living(before: set[threading.Thread]) -> set[threading.Thread]:
    """Threads of the runtime that did not end; the RPC loop belongs to the whole process."""

    def new() -> set[threading.Thread]:
        return {
            thread
            for thread in set(threading.enumerate()) - before
            if thread.name.startswith(RUNTIME_THREADS)
        }

    _eventually(lambda: not new())
    return new()


def _eventually(holds: Callable[[], bool]) -> None:
    """Waits, within bounds, for what no callback announces."""
    until = time.monotonic() + _QUIET_S
    while not holds() and time.monotonic() < until:
        time.sleep(0.005)


@pytest.fixture(params=KINDS)
def cluster_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start_cluster(cluster_kind: str) -> Iterator[Callable[..., TestCluster]]:
    """`start_cluster(spec, …)` gives a cluster that is checked and ended after the test."""
    with ExitStack() as stack:
        yield lambda spec, **options: stack.enter_context(
            running_cluster(cluster_kind, spec, **options)
        )
