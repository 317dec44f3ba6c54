"""The master of a task: sessions of clients that dialled it (TF `master.cc`)."""

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tracer.model.cluster import ClusterSpec, DeviceName, TaskName
from tracer.model.graph import Graph, GraphError, Node
from tracer.model.step import SpanContext
from tracer.passes.check_graph import check_graph
from tracer.passes.placer import BY_RULE, Placer
from tracer.runtime.client_graph import GraphMaker, with_specs
from tracer.runtime.device_finder import DeviceFilters, Progress, find_devices
from tracer.runtime.interfaces import (
    SHARED,
    DeviceAttributes,
    RequestNames,
    RunCallableRequest,
    RunStepRequest,
    RunStepResult,
    SessionOptions,
    StepDone,
    StepError,
    WorkerInterface,
)
from tracer.runtime.master_session import IDLE, Client, MasterSession
from tracer.runtime.master_step import GRACE_S, Lost, Watchdog, never
from tracer.runtime.request_ids import RecentRequestIds
from tracer.runtime.worker import Worker

CONNECT_TIMEOUT_S = 60.0
STEP_TIMEOUT_S = 60.0
GC_PERIOD_S = 10.0  #: between two looks for sessions that nobody uses
REQUEST_IDS = 10_000  #: that a master remembers
COLLECTED = 1_000  #: sessions that are remembered as closed for their client's silence

_log = logging.getLogger(__name__)

_handles = random.SystemRandom()


class Master:
    """A near MasterInterface.

    It shares its process with `worker`, whose first device is the client device: there feeds come
    in and fetches go out. The sessions of a client in another process are closed once it has called
    none of them for `session_gc_s` seconds; 0 keeps all, as TF does unless it is told otherwise.
    `lost`: see Watchdog.
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
        placer: Placer = BY_RULE,
        session_gc_s: float = 0.0,
        lost: Lost = never,
    ) -> None:
        self._worker = worker
        self._cluster = cluster
        self._connect_timeout_s = connect_timeout_s
        self._step_timeout_s = step_timeout_s
        self._progress = progress
        self._passes = tuple(passes)
        self._placer = placer
        self._watchdog = Watchdog(min(0.25, step_timeout_s / 4), lost)
        self._lock = threading.Lock()
        self._sessions: dict[str, MasterSession] = {}
        self._collected: deque[str] = deque(maxlen=COLLECTED)
        self._session_gc_s = session_gc_s
        self._request_ids = RecentRequestIds("RunStep (Master)", REQUEST_IDS)
        self._now = worker.env.clock.now_ns
        self._gc = SessionCollector(self.collect_idle, session_gc_s) if session_gc_s else None

    def join(self, cluster: ClusterSpec) -> None:
        """Learns the cluster's tasks and addresses; sessions made from here on span it."""
        self._cluster = cluster

    def create_session(
        self, graph: Graph, context: SpanContext, options: SessionOptions = SHARED
    ) -> str:
        """Finds the tasks that its filters admit, waiting no longer than the connect timeout.

        Raises StepError: DEADLINE_EXCEEDED if a task does not come up, INVALID_ARGUMENT for a
        filter that is none or a request of the graph that no device meets.
        """
        filters = DeviceFilters(options.device_filters, self._worker.task)
        tasks = filters.tasks(self._cluster.tasks())
        with self._worker.env.recorder.span("session.master", context) as span:
            span.set("vizdist.session.targets", ", ".join(map(str, tasks)))
            span.set("vizdist.session.isolated", options.isolate_session_state)
            workers = self._acquire_workers(tasks, span.context)
            try:
                devices = filters.devices(self._find_devices(workers, span.context))
                session = self._new_session(graph, devices, workers, context)
                span.set("vizdist.session.handle", session.handle)
                session.create_worker_sessions(
                    self._cluster, isolated=options.isolate_session_state, context=span.context
                )
            except StepError:
                self._release_workers(workers)
                raise
        with self._lock:
            session.client = self._client(options.client)
            self._sessions[session.handle] = session
        return session.handle

    def _client(self, name: str) -> Client:
        known = (s.client for s in self._sessions.values() if s.client.name == name)
        client = next(known, None) or Client(name, 0)
        client.last_call_ns = self._now()
        return client

    def _acquire_workers(
        self, tasks: Sequence[TaskName], context: SpanContext
    ) -> dict[TaskName, WorkerInterface]:
        cluster, own = self._cluster, self._worker
        return {
            task: own
            if task == own.task
            else own.cache.acquire(task, cluster.address(task), context)
            for task in tasks
        }

    def _release_workers(self, workers: Mapping[TaskName, WorkerInterface]) -> None:
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
        names = [DeviceName.parse(device.name) for device in devices]
        check = partial(check_graph, devices=names, lookup=env.lookup, soft=self._placer.soft)
        try:
            check(graph)
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
            self._placer,
            env.label,
        )
        return MasterSession(maker, self._watchdog, self._step_timeout_s, check)

    def extend_session(self, session: str, nodes: tuple[Node, ...], version: int) -> int:
        return self.session(session).extend(nodes, version)

    def partial_run_setup(self, session: str, names: RequestNames, request_id: int = 0) -> str:
        self._check_id(request_id)
        return self.session(session).partial_run_setup(names)

    def make_callable(self, session: str, names: RequestNames, request_id: int = 0) -> int:
        self._check_id(request_id)
        return self.session(session).make_callable(names)

    def release_callable(self, session: str, handle: int) -> None:
        self.session(session).release_callable(handle)

    def session(self, session: str) -> MasterSession:
        """A call of its client. Raises StepError ABORTED if there is none of this handle."""
        found = self._sessions.get(session)
        if found is None:
            raise self._not_found(session)
        found.client.last_call_ns = self._now()
        return found

    def _not_found(self, session: str) -> StepError:
        name = self._worker.env.name
        if session in self._collected:
            text = (
                f"Session {session} was closed after {self._session_gc_s:g} s without a call of "
                f"its client (--session-gc). Make a new one, or let {name} keep it for longer."
            )
        else:
            text = f"Session {session} is not found. Possibly this master ({name}) just restarted."
        return StepError("ABORTED", text, task=name)

    def run_step(self, request: RunStepRequest) -> RunStepResult:
        """Runs one step and waits for it, no longer than the step timeout and its grace."""
        session = self.session(request.session)
        self._check_id(request.request_id)
        made = session.made(request)
        graph = made or session.make(request)
        return self._wait(partial(session.start, graph, request, was_made=made is not None))

    def run_callable(self, request: RunCallableRequest) -> RunStepResult:
        session = self.session(request.session)
        self._check_id(request.request_id)
        return self._wait(partial(session.start_callable, request))

    def _check_id(self, request_id: int) -> None:
        if request_id:
            self._request_ids.check(request_id, f"request {request_id:x}")

    def _wait(self, start: Callable[[StepDone], None]) -> RunStepResult:
        ended = threading.Lock()
        ended.acquire()
        outcomes: list[RunStepResult | StepError] = []

        def done(outcome: RunStepResult | StepError) -> None:
            outcomes.append(outcome)
            ended.release()

        start(done)
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
            self._check_id(request.request_id)
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

    def start_callable(self, request: RunCallableRequest, done: StepDone) -> None:
        try:
            self._check_id(request.request_id)
            self.session(request.session).start_callable(request, done)
        except StepError as error:
            done(error)

    @staticmethod
    def _make_and_start(session: MasterSession, request: RunStepRequest, done: StepDone) -> None:
        try:
            session.start(session.make(request), request, done, was_made=False)
        except StepError as error:
            done(error)
        except Exception as error:  # noqa: BLE001 (nobody else would tell the client)
            done(StepError("INTERNAL", f"{type(error).__name__}: {error}"))

    @property
    def num_sessions(self) -> int:
        return len(self._sessions)

    def close_session(self, session: str) -> None:
        found = self.session(session)
        with self._lock:
            is_ours = self._sessions.pop(session, None) is not None
        if is_ours:
            self._end(found)

    def _end(self, session: MasterSession) -> None:
        session.close()
        self._release_workers(session.workers)

    def list_devices(self, session: str) -> tuple[DeviceAttributes, ...]:
        return self.session(session).devices

    def collect_idle(self, idle_s: float) -> None:
        """Closes sessions whose client said nothing for so long, also those that run a step.

        A client in this process is never gone.
        """
        oldest = self._now() - idle_s * 1e9
        with self._lock:
            sessions = list(self._sessions.values())
            idle = [s for s in sessions if s.client.name and s.client.last_call_ns < oldest]
            for session in idle:
                del self._sessions[session.handle]
                self._collected.append(session.handle)
        for session in idle:
            _log.warning("GC session %s after %g seconds", session.handle, idle_s)
            session.close("garbage collect", IDLE)
            self._release_workers(session.workers)

    def reset(self, containers: tuple[str, ...] = (), device_filters: tuple[str, ...] = ()) -> None:
        """Raises the first StepError of a task that could not be reached, after all were tried."""
        filters = DeviceFilters(device_filters, self._worker.task)
        tasks = filters.tasks(self._cluster.tasks())
        workers = self._acquire_workers(tasks, self._worker.env.recorder.run)
        errors: list[StepError] = []
        for worker in workers.values():
            try:
                worker.cleanup_all(containers)
            except StepError as error:
                errors.append(error)
        self._release_workers(workers)
        self._close_all()
        if errors:
            raise errors[0]

    def _close_all(self) -> None:
        with self._lock:
            left, self._sessions = list(self._sessions.values()), {}
        for session in left:
            self._end(session)

    def close(self) -> None:
        """Closes what clients left open."""
        if self._gc is not None:
            self._gc.close()
        self._close_all()
        self._watchdog.close()


class SessionCollector:
    """Looks for idle sessions now and then, from a thread of its own (TF `Master::GC`)."""

    def __init__(self, collect: Callable[[float], None], idle_s: float) -> None:
        self._collect = collect
        self._idle_s = idle_s
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="session gc", daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._closed.wait(min(GC_PERIOD_S, self._idle_s)):
            self._collect(self._idle_s)

    def close(self) -> None:
        self._closed.set()
        self._thread.join(5.0)
