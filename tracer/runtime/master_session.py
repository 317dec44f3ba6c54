"""A client's session at its master (TF `master_session.cc`).

It holds the graph, what was made of it for each kind of request, and the steps that run.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from operator import attrgetter

from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph, GraphError, Node
from tracer.model.step import SpanContext
from tracer.runtime import turn
from tracer.runtime.caches import Cache, tell_totals
from tracer.runtime.client_graph import ClientGraph, GraphMaker, Signature
from tracer.runtime.interfaces import (
    DeviceAttributes,
    RequestNames,
    RunCallableRequest,
    RunStepRequest,
    RunStepResult,
    StepDone,
    StepError,
    WorkerInterface,
)
from tracer.runtime.master_step import MasterStep, Watchdog
from tracer.runtime.partial_run import PartialRun, PartialStep
from tracer.runtime.states import SESSION, Machine, Session

DRAIN_S = 5.0  #: how long closing waits for steps that still run

CLOSED = "Step was cancelled by an explicit call to `Session::Close()`."
IDLE = (
    "Step was cancelled because the session was garbage collected due to inactivity. "
    "Run steps more often, or let the master keep idle sessions for longer."
)


@dataclass(slots=True, eq=False)
class Client:
    """Who has sessions at a master. Its name is empty where it is in the master's process."""

    name: str
    last_call_ns: int


class MasterSession:
    """`check` raises GraphError for a graph that no request can be served from."""

    def __init__(
        self,
        maker: GraphMaker,
        watchdog: Watchdog,
        step_timeout_s: float,
        check: Callable[[Graph], None],
    ) -> None:
        self.handle = maker.session
        self.version = 0  #: of the graph; each extension makes the next one
        self._maker = maker
        self._watchdog = watchdog
        self._step_timeout_s = step_timeout_s
        self._check = check
        self.client = Client("", 0)  #: until the master puts its own here
        self._state = Machine("session", self.handle, SESSION, Session.OPEN)
        self._changed = threading.Condition()
        self._extending = threading.Lock()
        self._made: Cache[Signature, ClientGraph]
        told = attrgetter("graph_id")
        self._made = Cache("client_graph", maker.recorder, told, maker.session)
        self._by_names: dict[RequestNames, ClientGraph] = {}
        self._running: dict[int, MasterStep] = {}
        self._partial_runs: dict[str, PartialRun] = {}
        self._callables: dict[int, tuple[RequestNames, ClientGraph]] = {}
        self._handles = count(1)

    @property
    def devices(self) -> tuple[DeviceAttributes, ...]:
        return tuple(self._maker.devices)

    @property
    def workers(self) -> Mapping[TaskName, WorkerInterface]:
        return self._maker.workers

    @property
    def num_graphs(self) -> int:
        """Client graphs that were made, each registered once."""
        return len(self._made)

    def create_worker_sessions(
        self, cluster: ClusterSpec, *, isolated: bool, context: SpanContext
    ) -> None:
        for worker in self.workers.values():
            worker.create_worker_session(self.handle, cluster, isolated, context)

    def extend(self, nodes: tuple[Node, ...], version: int) -> int:
        """Raises StepError: ABORTED for a version that is not the last, INVALID_ARGUMENT."""
        with self._extending:
            self._check_open()
            if version != self.version:
                raise StepError(
                    "ABORTED",
                    f"Current version is {self.version} but caller expected {version}.",
                )
            graph = self._maker.graph
            if clash := next((node.name for node in nodes if node.name in graph), None):
                raise StepError(
                    "INVALID_ARGUMENT",
                    f"GraphDef argument to Extend includes node '{clash}', which was created by "
                    "a previous call to Create or Extend in this session.",
                    node=clash,
                )
            try:
                extended = Graph([*graph.nodes, *nodes])
                self._check(extended)
            except GraphError as error:
                raise StepError("INVALID_ARGUMENT", str(error)) from error
            self._maker = replace(self._maker, graph=extended)
            self.version += 1
            return self.version

    def made(self, request: RunStepRequest) -> ClientGraph | None:
        """The request's client graph if it was made before."""
        if request.partial_run:
            return self._partial_run(request.partial_run).graph
        return self._by_names.get(_names(request))

    def make(self, request: RunStepRequest) -> ClientGraph:
        """The request's client graph; the first time this waits for all workers to register."""
        names = _names(request)
        made = self._by_names[names] = self._make(names)
        return made

    def _make(self, names: RequestNames, *, is_partial: bool = False) -> ClientGraph:
        self._check_open()
        signature = Signature.of(names, is_partial=is_partial)
        make = partial(self._maker.make, signature)
        return self._made.get(signature, make, self._maker.context)

    def partial_run_setup(self, names: RequestNames) -> str:
        graph = self._make(names, is_partial=True)
        handle = str(next(self._handles))
        self._partial_runs[handle] = PartialRun(graph, self._maker.graph, names)
        return handle

    def _partial_run(self, handle: str) -> PartialRun:
        found = self._partial_runs.get(handle)
        if found is None:
            raise StepError(
                "INVALID_ARGUMENT",
                f"Must run PartialRunSetup before performing partial runs: {handle} is no "
                "partial run of this session that goes on",
            )
        return found

    def make_callable(self, names: RequestNames) -> int:
        handle = next(self._handles)
        self._callables[handle] = names, self._make(names)
        return handle

    def release_callable(self, handle: int) -> None:
        self._callables.pop(handle, None)

    def start_callable(self, request: RunCallableRequest, done: StepDone) -> None:
        found = self._callables.get(request.handle)
        if found is None:
            raise StepError(
                "INVALID_ARGUMENT",
                f"Attempted to run callable after handle was released: {request.handle}",
            )
        names, graph = found
        if len(request.feeds) != len(names.feeds):
            raise StepError(
                "INVALID_ARGUMENT",
                f"Expected {len(names.feeds)} feed tensors, but got {len(request.feeds)}",
            )
        feeds = dict(zip(names.feeds, request.feeds, strict=True))
        step = RunStepRequest(self.handle, feeds, names.fetches, names.targets, request.context)
        self.start(graph, step, done)

    def start(
        self, graph: ClientGraph, request: RunStepRequest, done: StepDone, *, was_made: bool = True
    ) -> None:
        """Issues one step, or one call of a partial run; never waits."""
        if request.partial_run:
            step = self._next_part(request, done)
        else:
            ended = partial(self._ended, done)
            step = MasterStep(graph, request, self._step_timeout_s, ended, was_made=was_made)
        with self._changed:
            self._check_open()
            self._running[step.step_id] = step
        if was_made:
            self._made.tally.hit()
        self._watchdog.watch(step)
        turn.run(step.issue)

    def _next_part(self, request: RunStepRequest, done: StepDone) -> MasterStep:
        run = self._partial_run(request.partial_run)
        is_last = run.take(request)
        return PartialStep(
            run,
            request,
            self._step_timeout_s,
            partial(self._part_ended, done, request.partial_run),
            is_last=is_last,
        )

    def _part_ended(
        self, done: StepDone, handle: str, step: MasterStep, outcome: RunStepResult | StepError
    ) -> None:
        assert isinstance(step, PartialStep)
        if step.is_over:
            self._partial_runs.pop(handle, None)
        self._forget(step)
        step.end_call()
        done(outcome)

    def _ended(self, done: StepDone, step: MasterStep, outcome: RunStepResult | StepError) -> None:
        self._forget(step)
        done(outcome)

    def _forget(self, step: MasterStep) -> None:
        self._watchdog.forget(step)
        with self._changed:
            del self._running[step.step_id]
            if not self._running:
                self._changed.notify_all()

    def _check_open(self) -> None:
        if self._state.state is not Session.OPEN:
            raise StepError("FAILED_PRECONDITION", f"Session {self.handle} has been closed.")

    def close(self, event: str = "close", why: str = CLOSED) -> None:
        """Aborts what runs, waits for it, frees what workers hold; a lost worker is no error."""
        with self._changed:
            self._check_open()
            self._state.move(event)
            running = list(self._running.values())
        cancelled = StepError("CANCELLED", why)
        for step in running:
            step.abort(cancelled)
        with self._changed:
            self._changed.wait_for(lambda: not self._running, DRAIN_S)
            self._state.move("drained")
        for run in list(self._partial_runs.values()):
            run.give_up(cancelled)
        for graph in self._made.values():
            self._maker.deregister(graph)
        for worker in self.workers.values():
            with contextlib.suppress(StepError):
                worker.delete_worker_session(self.handle)
        maker = self._maker
        tell_totals(maker.recorder, maker.context, (self._made.tally,), maker.session)


def _names(request: RunStepRequest) -> RequestNames:
    return RequestNames(tuple(request.feeds), request.fetches, request.targets)
