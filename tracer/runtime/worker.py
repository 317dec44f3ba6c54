"""The worker of a task: serves what masters and other workers ask of it (TF `worker.cc`)."""

import threading
import time
from dataclasses import replace
from functools import lru_cache, partial

from tracer.model.cluster import ClusterSpec
from tracer.model.collective import Arrival, is_execution
from tracer.model.graph import Graph
from tracer.model.step import RendezvousKey, RendezvousKeyError, SpanContext
from tracer.record.clock import SystemClock
from tracer.runtime.caches import Tally, tell_lookup, tell_totals
from tracer.runtime.interfaces import (
    ExecutionDone,
    Received,
    RecvDone,
    RunDone,
    RunGraphRequest,
    RunGraphResult,
    StepError,
    WorkerStatus,
)
from tracer.runtime.remote_rendezvous import Leftover, NoRendezvous, RendezvousTable
from tracer.runtime.request_ids import RecentRequestIds
from tracer.runtime.response_cache import ResponseCache
from tracer.runtime.states import IllegalMove
from tracer.runtime.worker_cache import WorkerCache
from tracer.runtime.worker_env import WorkerEnv
from tracer.runtime.worker_session import WorkerSession

_KEYS_KNOWN = 4096  #: keys whose check is remembered; equal keys come every step


class Worker:
    """A near WorkerInterface. Its methods may be called on any thread and never wait."""

    def __init__(self, env: WorkerEnv, cache: WorkerCache, pid: int = 0) -> None:
        self.task = env.task
        self.env = env
        self.cache = cache
        is_real = isinstance(env.clock, SystemClock)
        now = time.perf_counter_ns if is_real else env.clock.now_ns
        env.collectives.join_task(env.task, env.name, env.recorder, env.devices)
        self.rendezvous = RendezvousTable(env.name, now, env.collectives.waits_for)
        self._no_rendezvous = NoRendezvous(env.name)
        self.is_finished = False
        self._pid = pid
        self._lock = threading.Lock()
        self._sessions: dict[str, WorkerSession] = {}
        self._request_ids = RecentRequestIds("RecvTensor")
        self.responses = ResponseCache() if env.caches_responses else None
        self._check_key = lru_cache(_KEYS_KNOWN)(self._checked_key)

    def get_status(self, _: SpanContext | None = None, /) -> WorkerStatus:
        devices = tuple(device.attributes for device in self.env.devices)
        return WorkerStatus(devices, self._pid, self.is_finished)

    def create_worker_session(
        self,
        session: str,
        cluster: ClusterSpec,
        isolated: bool = False,
        context: SpanContext | None = None,
    ) -> None:
        env = replace(self.env, resources=self.env.resources.apart()) if isolated else self.env
        with env.recorder.span("session.worker", context or env.recorder.run) as span:
            span.set("vizdist.session.handle", session)
            span.set("vizdist.session.isolated", isolated)
            made = WorkerSession(session, cluster, env, self.cache, span.context)
            with self._lock:
                if session in self._sessions:
                    raise StepError(
                        "ALREADY_EXISTS",
                        f"session {session} exists in {env.name} already",
                        task=env.name,
                    )
                self._sessions[session] = made

    def delete_worker_session(self, session: str) -> None:
        self._session(session)
        with self._lock:
            gone = self._sessions.pop(session, None)
        if gone is not None:
            gone.close()
            recorder, context = self.env.recorder, gone.context.under(0)
            tell_totals(recorder, context, gone.graphs.tallies, session)
            tell_totals(recorder, context, self._tallies())

    def _tallies(self) -> tuple[Tally, ...]:
        """Of the caches that all sessions of the task share."""
        responses = () if self.responses is None else (self.responses.tally,)
        rendezvous = self.rendezvous
        return self.cache.tally, rendezvous.tally, rendezvous.free_calls.tally, *responses

    def _session(self, session: str) -> WorkerSession:
        found = self._sessions.get(session)
        if found is None:
            raise StepError(
                "ABORTED",
                f"Session handle is not found: {session}. Possibly this worker "
                f'("{self.env.task.prefix}") just restarted.',
                task=self.env.name,
            )
        return found

    def register_graph(
        self, session: str, graph: Graph, context: SpanContext, graph_id: str = ""
    ) -> str:
        return self._session(session).graphs.register(graph, context, graph_id)

    def deregister_graph(self, session: str, graph_handle: str) -> None:
        self._session(session).graphs.deregister(graph_handle)

    def run_graph(self, request: RunGraphRequest, done: RunDone) -> None:
        try:
            session = self._session(request.session)
            if session.graphs.is_alone(request.graph_handle):
                session.graphs.run(request, self._no_rendezvous, done)
                return
            rendezvous = self.rendezvous.find_or_create(request.step_id)
            if rendezvous.partial_run is None:
                rendezvous.context = request.context
                rendezvous.initialize(session.peer)
            session.graphs.run(request, rendezvous, done)
        except StepError as error:
            done(RunGraphResult(error=error))
        except IllegalMove as error:  # run_graph came twice
            done(RunGraphResult(error=StepError("ABORTED", str(error), task=self.env.name)))

    def recv_tensor(
        self, step_id: int, key: str, request_id: int, context: SpanContext, done: RecvDone
    ) -> None:
        if context.sampled:
            done = partial(self._answer_with_wait, done, self.env.recorder.now())
        if self.responses is not None and request_id:
            self._recv_once(self.responses, step_id, key, request_id, context, done)
            return
        try:
            self._recv(step_id, key, request_id, done)
        except StepError as error:
            done(Received(error=error))

    def _recv(self, step_id: int, key: str, request_id: int, done: RecvDone) -> None:
        self._request_ids.check(request_id, f"step {step_id:x}, key {key}")
        self._check_key(key)
        if is_execution(step_id):
            self.env.collectives.exchanges.recv(step_id, key, done)
        else:
            self.rendezvous.find_or_create(step_id).recv_local(key, done)

    def _recv_once(
        self,
        responses: ResponseCache,
        step_id: int,
        key: str,
        request_id: int,
        context: SpanContext,
        done: RecvDone,
    ) -> None:
        """A request that comes again, as its connection broke, gets the answer of its first try."""
        try:
            answer = responses.ask(request_id, step_id, key, done)
        except StepError as error:
            done(Received(error=error))
            return
        if context.sampled:
            is_hit = answer is None
            tell_lookup(self.env.recorder, context, responses.tally.name, key, hit=is_hit)
        if answer is None:
            return
        try:
            self._recv(step_id, key, request_id, answer)
        except StepError as error:
            answer(Received(error=error))
            if self.rendezvous.is_over(step_id):  # no cleanup comes any more
                responses.forget(request_id)

    def mark_recv_finished(self, request_id: int) -> None:
        """The receiver has what it asked for."""
        if self.responses is not None:
            self.responses.forget(request_id)

    def _answer_with_wait(self, done: RecvDone, start: int, received: Received) -> None:
        tensor, is_dead, send_span, error, _, deferred = received
        wait_ns = self.env.recorder.now() - start
        done(Received(tensor, is_dead, send_span, error, wait_ns, deferred))

    def _checked_key(self, key: str) -> None:
        """Raises StepError if the key's source is no device of this life of the task."""
        try:
            parsed = RendezvousKey.parse(key)
        except RendezvousKeyError as error:
            raise StepError("INVALID_ARGUMENT", str(error), task=self.env.name) from None
        lives = {str(device.name): device.incarnation for device in self.env.devices}
        life = lives.get(parsed.src_device)
        if life is None:
            raise StepError(
                "INVALID_ARGUMENT",
                f"RecvTensor of {key}: {self.env.name} has no device {parsed.src_device!r}; "
                f"it has {', '.join(lives)}",
                task=self.env.name,
            )
        if life != parsed.incarnation:
            raise StepError(
                "ABORTED",
                f"RecvTensor expects a different device incarnation: {parsed.incarnation} vs. "
                f'{life}. Your worker job ("{self.env.task.prefix}") was probably restarted. '
                "Check your worker job for the reason why it was restarted.",
                task=self.env.name,
            )

    def complete_instance(self, arrival: Arrival, _: SpanContext, done: ExecutionDone) -> None:
        self.env.collectives.leader.arrive(arrival, done)

    def finish(self) -> None:
        """The client of this task is done, as others hear that ask, or wait for its ranks."""
        self.is_finished = True
        self.env.collectives.leave()

    def peer_was_lost(self, task: str, error: StepError) -> None:
        """Nobody need wait for the ranks there."""
        self.env.collectives.leader.lose(task, error)

    def start_abort(self, step_id: int, error: StepError) -> None:
        if is_execution(step_id):
            self.env.collectives.abort(step_id, error)
        else:
            self.rendezvous.start_abort(step_id, error)

    def cleanup_graph(self, step_id: int) -> None:
        gone = self.rendezvous.cleanup(step_id)
        if gone is not None and gone.emptied is not None and gone.context is not None:
            with self.env.recorder.span("rendezvous.cleanup", gone.context) as span:
                for name, count in gone.emptied._asdict().items():
                    span.set(f"vizdist.rendezvous.{name}", count)
        if self.responses is not None:
            self.responses.forget_step(step_id)

    def cleanup_all(self, containers: tuple[str, ...] = ()) -> None:
        for container in containers or ("",):
            self.env.resources.clear(container)

    @property
    def num_sessions(self) -> int:
        return len(self._sessions)

    def leftovers(self) -> list[Leftover]:
        """Keys that found no partner in steps that ended well, the last thousand."""
        return list(self.rendezvous.leftovers)

    def close(self) -> None:
        """Ends what the task still runs and waits for; its variables go with it."""
        gone = StepError("CANCELLED", f"{self.env.name} is shutting down", task=self.env.name)
        for step_id in self.rendezvous.running():
            self.rendezvous.start_abort(step_id, gone)
            self.cleanup_graph(step_id)
        self.env.collectives.close(gone)
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.close()
        for device in self.env.devices:
            device.close()
