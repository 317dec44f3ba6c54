"""A client's session at its master (TF `master_session.cc`).

It holds the graph, what was made of it for each kind of request, and the steps that run.
"""

import contextlib
import threading
from collections.abc import Mapping
from functools import partial

from tracer.model.cluster import ClusterSpec, TaskName
from tracer.runtime import turn
from tracer.runtime.client_graph import ClientGraph, GraphMaker, Signature
from tracer.runtime.interfaces import (
    DeviceAttributes,
    RunStepRequest,
    RunStepResult,
    StepDone,
    StepError,
    WorkerInterface,
)
from tracer.runtime.master_step import MasterStep, Watchdog
from tracer.runtime.states import SESSION, Machine, Session

DRAIN_S = 5.0  #: how long closing waits for steps that still run

_Names = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


class MasterSession:
    def __init__(self, maker: GraphMaker, watchdog: Watchdog, step_timeout_s: float) -> None:
        self.handle = maker.session
        self._maker = maker
        self._watchdog = watchdog
        self._step_timeout_s = step_timeout_s
        self._state = Machine("session", self.handle, SESSION, Session.OPEN)
        self._changed = threading.Condition()
        self._making = threading.Lock()
        self._made: dict[Signature, ClientGraph] = {}
        self._by_names: dict[_Names, ClientGraph] = {}
        self._running: dict[int, MasterStep] = {}

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

    def create_worker_sessions(self, cluster: ClusterSpec) -> None:
        for worker in self.workers.values():
            worker.create_worker_session(self.handle, cluster)

    def made(self, request: RunStepRequest) -> ClientGraph | None:
        """The request's client graph if it was made before."""
        return self._by_names.get(_names(request))

    def make(self, request: RunStepRequest) -> ClientGraph:
        """The request's client graph; the first time this waits for all workers to register."""
        self._check_open()
        names = _names(request)
        with self._making:
            signature = Signature(*(tuple(sorted(set(part))) for part in names))
            if signature not in self._made:
                self._made[signature] = self._maker.make(signature)
            self._by_names[names] = self._made[signature]
            return self._made[signature]

    def start(self, graph: ClientGraph, request: RunStepRequest, done: StepDone) -> None:
        """Issues one step; never waits."""
        ended = partial(self._ended, done)
        step = MasterStep(graph, request, self._step_timeout_s, ended)
        with self._changed:
            self._check_open()
            self._running[step.step_id] = step
        self._watchdog.watch(step)
        turn.run(step.issue)

    def _ended(self, done: StepDone, step: MasterStep, outcome: RunStepResult | StepError) -> None:
        self._watchdog.forget(step)
        with self._changed:
            del self._running[step.step_id]
            if not self._running:
                self._changed.notify_all()
        done(outcome)

    def _check_open(self) -> None:
        if self._state.state is not Session.OPEN:
            raise StepError("FAILED_PRECONDITION", f"Session {self.handle} has been closed.")

    def close(self) -> None:
        """Aborts what runs, waits for it, frees what workers hold; a lost worker is no error."""
        with self._changed:
            self._check_open()
            self._state.move("close")
            running = list(self._running.values())
        for step in running:
            step.abort(StepError("CANCELLED", f"Session {self.handle} was closed."))
        with self._changed:
            self._changed.wait_for(lambda: not self._running, DRAIN_S)
            self._state.move("drained")
        for graph in self._made.values():
            self._maker.deregister(graph)
        for worker in self.workers.values():
            with contextlib.suppress(StepError):
                worker.delete_worker_session(self.handle)


def _names(request: RunStepRequest) -> _Names:
    return tuple(request.feeds), request.fetches, request.targets
