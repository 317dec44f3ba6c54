"""The master of a task: sessions of clients that dialled it (TF `master.cc`)."""

import random
import threading
from collections.abc import Sequence

from tracer.model.cluster import ClusterSpec, DeviceName, TaskName
from tracer.model.graph import Graph, GraphError
from tracer.model.step import SpanContext
from tracer.passes.place import check_graph
from tracer.runtime.client_graph import GraphMaker, with_specs
from tracer.runtime.device_finder import Progress, find_devices
from tracer.runtime.interfaces import (
    DeviceAttributes,
    RunStepRequest,
    RunStepResult,
    StepDone,
    StepError,
    WorkerInterface,
)
from tracer.runtime.master_session import MasterSession
from tracer.runtime.master_step import GRACE_S, Watchdog
from tracer.runtime.worker import Worker

CONNECT_TIMEOUT_S = 60.0
STEP_TIMEOUT_S = 60.0

_handles = random.SystemRandom()


class Master:
    """A near MasterInterface.

    It shares its process with `worker`, whose first device is the client device: there feeds come
    in and fetches go out.
    """

    def __init__(
        self,
        worker: Worker,
        cluster: ClusterSpec,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        step_timeout_s: float = STEP_TIMEOUT_S,
        progress: Progress | None = None,
        passes: Sequence[str] = (),
    ) -> None:
        self._worker = worker
        self._cluster = cluster
        self._connect_timeout_s = connect_timeout_s
        self._step_timeout_s = step_timeout_s
        self._progress = progress
        self._passes = tuple(passes)
        self._watchdog = Watchdog(min(0.25, step_timeout_s / 4))
        self._lock = threading.Lock()
        self._sessions: dict[str, MasterSession] = {}

    def join(self, cluster: ClusterSpec) -> None:
        """Learns the cluster's tasks and addresses; sessions made from here on span it."""
        self._cluster = cluster

    def create_session(self, graph: Graph, context: SpanContext) -> str:
        """Finds all tasks, waiting no longer than the connect timeout.

        Raises StepError: DEADLINE_EXCEEDED if a task does not come up, INVALID_ARGUMENT for a
        request of the graph that no device meets.
        """
        workers = self._acquire_workers()
        try:
            devices = self._find_devices(workers, context)
            session = self._new_session(graph, devices, workers, context)
            session.create_worker_sessions(self._cluster)
        except StepError:
            self._release_workers(workers)
            raise
        with self._lock:
            self._sessions[session.handle] = session
        return session.handle

    def _acquire_workers(self) -> dict[TaskName, WorkerInterface]:
        cluster, own = self._cluster, self._worker
        return {
            task: own if task == own.task else own.cache.acquire(task, cluster.address(task))
            for task in cluster.tasks()
        }

    def _release_workers(self, workers: dict[TaskName, WorkerInterface]) -> None:
        for stub in workers.values():
            if stub is not self._worker:
                self._worker.cache.release(stub)

    def _find_devices(
        self, workers: dict[TaskName, WorkerInterface], context: SpanContext
    ) -> list[DeviceAttributes]:
        statuses = find_devices(
            workers,
            {task: self._cluster.address(task) for task in workers},
            self._worker.env.recorder,
            context,
            self._connect_timeout_s,
            self._progress,
        )
        return [device for task in workers for device in statuses[task].devices]

    def _new_session(
        self,
        graph: Graph,
        devices: list[DeviceAttributes],
        workers: dict[TaskName, WorkerInterface],
        context: SpanContext,
    ) -> MasterSession:
        env = self._worker.env
        try:
            names = [DeviceName.parse(device.name) for device in devices]
            check_graph(graph, names, env.lookup)
        except GraphError as error:
            raise StepError("INVALID_ARGUMENT", str(error), task=env.name) from error
        maker = GraphMaker(
            f"{_handles.getrandbits(64):016x}",
            with_specs(graph) if context.sampled else graph,
            devices,
            env.client_device.name,
            workers,
            env.recorder,
            env.lookup,
            context.under(0),
            self._passes,
            env.label,
        )
        return MasterSession(maker, self._watchdog, self._step_timeout_s)

    def session(self, session: str) -> MasterSession:
        """Raises StepError ABORTED if there is none of this handle."""
        found = self._sessions.get(session)
        if found is None:
            raise StepError(
                "ABORTED",
                f"Session {session} is not found. Possibly this master "
                f"({self._worker.env.name}) just restarted.",
                task=self._worker.env.name,
            )
        return found

    def run_step(self, request: RunStepRequest) -> RunStepResult:
        """Runs one step and waits for it, no longer than the step timeout and its grace."""
        session = self.session(request.session)
        graph = session.made(request) or session.make(request)
        ended = threading.Lock()
        ended.acquire()
        outcomes: list[RunStepResult | StepError] = []

        def done(outcome: RunStepResult | StepError) -> None:
            outcomes.append(outcome)
            ended.release()

        session.start(graph, request, done)
        if not outcomes and not ended.acquire(timeout=self._step_timeout_s + 2 * GRACE_S):
            raise StepError("INTERNAL", "the step ended without an outcome")
        outcome = outcomes[0]
        if isinstance(outcome, StepError):
            raise outcome
        return outcome

    def start_step(self, request: RunStepRequest, done: StepDone) -> None:
        """As `run_step`, for a thread that must not wait."""
        try:
            session = self.session(request.session)
            graph = session.made(request)
            if graph is not None:
                session.start(graph, request, done)
                return
        except StepError as error:
            done(error)
            return
        make = threading.Thread(
            target=self._make_and_start, args=(session, request, done), name="make graph"
        )
        make.daemon = True
        make.start()

    @staticmethod
    def _make_and_start(session: MasterSession, request: RunStepRequest, done: StepDone) -> None:
        try:
            session.start(session.make(request), request, done)
        except StepError as error:
            done(error)
        except Exception as error:  # noqa: BLE001 (nobody else would tell the client)
            done(StepError("INTERNAL", f"{type(error).__name__}: {error}"))

    def close_session(self, session: str) -> None:
        found = self.session(session)
        with self._lock:
            is_ours = self._sessions.pop(session, None) is not None
        if is_ours:
            self._end(found)

    def _end(self, session: MasterSession) -> None:
        session.close()
        self._release_workers(dict(session.workers))

    def list_devices(self, session: str) -> tuple[DeviceAttributes, ...]:
        return self.session(session).devices

    def close(self) -> None:
        """Closes what clients left open."""
        with self._lock:
            left, self._sessions = list(self._sessions.values()), {}
        for session in left:
            self._end(session)
        self._watchdog.close()
