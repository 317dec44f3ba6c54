"""One step's rendezvous in one task, and the table of them (TF `base_rendezvous_mgr.cc`).

A value always waits where it was made; a recv of another task's value pulls it with recv_tensor. A
pull that comes before this task's run_graph is deferred until then. An abort fails what waits here
and every pull in flight; its error is passed on unchanged, so that each task names the same root
cause.
"""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tracer.model.cluster import TaskName
from tracer.model.step import SpanContext
from tracer.runtime.caches import Tally
from tracer.runtime.interfaces import Received, RecvDone, StepError, WorkerInterface
from tracer.runtime.recv_call import FreeCalls, RecvCall
from tracer.runtime.rendezvous import LocalRendezvous
from tracer.runtime.request_ids import new_request_id
from tracer.runtime.states import RENDEZVOUS, Machine, Rendezvous

if TYPE_CHECKING:
    from tracer.runtime.graph_run import PartialRun

PeerOf = Callable[[TaskName], WorkerInterface]
Now = Callable[[], int]  #: a reading of a clock in ns
WaitsFor = Callable[[int], list[str]]  #: step id → what it waits for there besides keys, in words

RECENT_STEPS = (
    1024  #: steps that are remembered as over, so that a late pull fails instead of waiting
)
_SHOWN_KEYS = 4

_CLEANED_UP = StepError("CANCELLED", "the step was cleaned up", derived=True)

_log = logging.getLogger(__name__)


class Emptied(NamedTuple):
    """What an abort found in the mailboxes of a step, and what is `left` after their cleanup."""

    values: int  #: that nobody had taken
    waiting: int  #: requests for values that had not come
    left: int = 0


class Leftover(NamedTuple):
    """A key of a step that ended well which found no partner: a fault of the partitions."""

    step_id: int
    key: str
    side: str  #: what is missing: `send` or `recv`


class _Deferred(NamedTuple):
    """A pull that came before this task's run_graph."""

    key: str
    done: RecvDone


class StepRendezvous:
    """`partial_run` is this task's part of a step that comes in several calls."""

    def __init__(
        self,
        step_id: int,
        task: str,
        free_calls: FreeCalls | None = None,
        now: Now = time.perf_counter_ns,
        others: WaitsFor | None = None,
    ) -> None:
        self.step_id = step_id
        self._others = others
        self.context: SpanContext | None = None  #: of the run_graph that this task got
        self.emptied: Emptied | None = None  #: by an abort
        self.local = LocalRendezvous()
        self.partial_run: PartialRun | None = None
        self._task = task
        self._now = now
        self._lock = threading.Lock()
        self._state = Machine("rendezvous of step", step_id, RENDEZVOUS, Rendezvous.DEFERRING)
        self._deferred: list[_Deferred] = []
        self._watchers: list[Callable[[StepError], None]] = []
        self._free_calls = free_calls or FreeCalls()
        self._calls: dict[int, RecvCall] = {}  # in flight, by request id
        self._unanswered: set[TaskName] = set()
        self._next_id = new_request_id()
        self._peer: PeerOf | None = None
        self._error: StepError | None = None

    def initialize(self, peer: PeerOf) -> None:
        """run_graph is here: `peer` finds other tasks; what was deferred is served."""
        with self._lock:
            self._state.move("run_graph")
            self._peer = peer
            deferred, self._deferred = self._deferred, []
        for key, done in deferred:
            self.local.recv(key, partial(_mark_deferred, done))

    def recv_local(self, key: str, done: RecvDone) -> None:
        """A pull by another task for a value of this one."""
        with self._lock:
            if self._state.state is Rendezvous.DEFERRING:
                self._deferred.append(_Deferred(key, done))
                return
        self.local.recv(key, done)

    def recv_remote(self, source: TaskName, key: str, context: SpanContext, done: RecvDone) -> None:
        """Pulls a value of task `source`."""
        with self._lock:
            error, peer = self._error, self._peer
            if error is None:
                self._next_id += 2
                request_id = self._next_id & 0x7FFF_FFFF_FFFF_FFFF
                call = self._free_calls.take(request_id, source, key, done, self._now())
                self._calls[request_id] = call
        if error is not None:
            done(Received(error=error))
            return
        assert peer is not None, "executors start after initialize"
        arrived = partial(self._arrived, call)
        try:
            peer(source).recv_tensor(self.step_id, key, request_id, context, arrived)
        except StepError as failure:
            arrived(Received(error=failure))

    def _arrived(self, call: RecvCall, received: Received) -> None:
        """A call that an abort took serves no other pull: its answer may still come."""
        if self._calls.pop(call.request_id, None) is None:
            return
        done = call.done
        self._free_calls.give_back(call)
        done(received)

    @property
    def error(self) -> StepError | None:
        """Why the step was aborted here."""
        return self._error

    def peer(self, task: TaskName) -> WorkerInterface:
        """Another task's worker. Raises StepError."""
        assert self._peer is not None, "executors start after initialize"
        return self._peer(task)

    def when_aborted(self, tell: Callable[[StepError], None]) -> None:
        """Calls `tell` once the step is aborted or over: for what does not wait for a key."""
        with self._lock:
            error = self._error
            if error is None:
                self._watchers.append(tell)
        if error is not None:
            tell(error)

    def abort(self, error: StepError) -> None:
        """Ends the step here; the first abort wins."""
        with self._lock:
            if self._error is not None or not self._state.allows("abort"):
                return
            if error.code == "DEADLINE_EXCEEDED":
                error = self._with_waiting_keys(error)
            self._state.move("abort")
            self._error = error
            deferred, self._deferred = self._deferred, []
            watchers, self._watchers = self._watchers, []
        for tell in watchers:
            tell(error)
        unsent, unreceived = self.local.abort(error)
        waiting: list[_Deferred | RecvCall] = [*deferred, *self._take_calls()]
        self.emptied = Emptied(len(unreceived), len(unsent) + len(waiting))
        self._fail_all(waiting, error)

    def _take_calls(self) -> Iterator[RecvCall]:
        """One by one: whoever takes a call out, an answer or an abort, is the one to end it."""
        while self._calls:
            with contextlib.suppress(KeyError):  # an answer was faster
                call = self._calls.popitem()[1]
                self._unanswered.add(call.source)
                yield call

    @staticmethod
    def _fail_all(waiting: Iterable[_Deferred | RecvCall], error: StepError) -> None:
        item = Received(error=error)
        for one in waiting:
            one.done(item)

    def _with_waiting_keys(self, error: StepError) -> StepError:
        """Says which keys this task still waits for: they are what a user must look into.

        What waits here for a value of this device itself, as fetches do, waits for the others.
        """
        now = self._now()
        here = [*self.local.unsent(), *(one.key for one in self._deferred)]
        lines = self._others(self.step_id) if self._others else []
        lines += [
            f"{self._task} waits for {call.key}, for {(now - call.since) / 1e9:.1f} s now"
            for call in list(self._calls.values())
        ]
        lines += [
            f"{self._task} was asked for {key}, which was not sent"
            for key in sorted(here, key=_stays)
        ]
        if not lines:
            return error
        more = [f"and {len(lines) - _SHOWN_KEYS} more"] if len(lines) > _SHOWN_KEYS else []
        text = "\n\t ".join((error.message, *lines[:_SHOWN_KEYS], *more))
        return StepError(error.code, text, task=error.task, node=error.node, derived=error.derived)

    def cleanup(self) -> list[Leftover]:
        """Forgets everything; what of a step that was not aborted found no partner."""
        with self._lock:
            was_aborted = self._error is not None
            self._state.move("cleanup")
            self._error = error = self._error or _CLEANED_UP
            watchers, self._watchers = self._watchers, []
            waiting: list[_Deferred | RecvCall] = [*self._deferred, *self._take_calls()]
        for tell in watchers:
            tell(error)
        unsent, unreceived = self.local.abort(_CLEANED_UP)
        self._fail_all(waiting, _CLEANED_UP)
        self._tell_unanswered(error)
        if self.emptied is not None:
            keys = [*self.local.unsent(), *self.local.unreceived()]
            left = len(keys) + len(self._deferred) + len(self._calls)
            self.emptied = self.emptied._replace(left=left)
        if was_aborted:
            return []
        return [
            *(Leftover(self.step_id, key, "send") for key in unsent),
            *(Leftover(self.step_id, one.key, "send") for one in waiting),
            *(Leftover(self.step_id, key, "recv") for key in unreceived),
        ]

    def _tell_unanswered(self, error: StepError) -> None:
        """A task that was asked for values may be no part of the step: nobody else tells it."""
        for source in self._unanswered:
            if self._peer is not None:
                with contextlib.suppress(StepError):
                    self._peer(source).start_abort(self.step_id, error.as_derived())
                    self._peer(source).cleanup_graph(self.step_id)


class NoRendezvous(StepRendezvous):
    """Of all steps in which one task sends nothing: whoever fails there has nobody to tell."""

    def __init__(self, task: str) -> None:
        super().__init__(0, task)

    def when_aborted(self, tell: Callable[[StepError], None]) -> None:
        """Never: what runs on without waiting has a rendezvous of its own."""

    def abort(self, error: StepError) -> None:
        """The executor that fails ends by itself."""


def _stays(key: str) -> bool:
    parts = key.split(";")
    return len(parts) == 5 and parts[0] == parts[2]


def _mark_deferred(done: RecvDone, received: Received) -> None:
    done(received._replace(deferred=True))


class RendezvousTable:
    """Step id → rendezvous (TF `RendezvousMgr`)."""

    def __init__(
        self, task: str, now: Now = time.perf_counter_ns, others: WaitsFor | None = None
    ) -> None:
        self.tally = Tally("rendezvous")
        self.free_calls = FreeCalls()
        self._others = others
        self._now = now
        self._task = task
        self._lock = threading.Lock()
        self._steps: dict[int, StepRendezvous] = {}
        self._over: dict[int, None] = {}  # the last RECENT_STEPS, oldest first
        self.leftovers: deque[Leftover] = deque(maxlen=1000)

    def find_or_create(self, step_id: int) -> StepRendezvous:
        """Raises StepError if the step is over here."""
        found = self._steps.get(step_id)
        if found is not None:
            self.tally.hit()
            return found
        with self._lock:
            if step_id in self._over:
                raise StepError(
                    "ABORTED", f"step {step_id:x} is over in {self._task}", derived=True
                )
            self.tally.miss()
            made = StepRendezvous(step_id, self._task, self.free_calls, self._now, self._others)
            return self._steps.setdefault(step_id, made)

    def is_over(self, step_id: int) -> bool:
        return step_id in self._over

    def start_abort(self, step_id: int, error: StepError) -> None:
        try:
            rendezvous = self.find_or_create(step_id)
        except StepError:
            return
        rendezvous.abort(error)

    def cleanup(self, step_id: int) -> StepRendezvous | None:
        """Forgets a step; gives what it had here, None if nothing."""
        with self._lock:
            rendezvous = self._steps.pop(step_id, None)
            self._over[step_id] = None
            if len(self._over) > RECENT_STEPS:
                del self._over[next(iter(self._over))]
        leftovers = rendezvous.cleanup() if rendezvous else []
        for leftover in leftovers:
            _log.warning("%s: key without %s: %s", self._task, leftover.side, leftover.key)
        self.leftovers.extend(leftovers)
        return rendezvous

    def running(self) -> list[int]:
        """Ids of the steps that are not cleaned up."""
        with self._lock:
            return list(self._steps)
