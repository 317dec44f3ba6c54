"""Stubs of other tasks' workers, one a task and address (TF `worker_cache.h`).

They are made by a factory that knows the transport. A stub and its channel live as long as the
process; who takes one gives it back, and both are counted.
"""

import threading
from collections.abc import Callable
from functools import partial

from tracer.model.cluster import TaskName
from tracer.model.step import SpanContext
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.runtime.caches import Cache, Tally
from tracer.runtime.interfaces import StepError, WorkerInterface

#: (task, address) → a stub; nothing is connected yet
StubFactory = Callable[[TaskName, str], WorkerInterface]

_NOWHERE = SpanContext(0, 0, sampled=False)


def no_stubs(task: TaskName, address: str) -> WorkerInterface:
    """The factory of a task that has no peers."""
    raise StepError(
        "UNAVAILABLE",
        f"this task stands alone and cannot reach {task} at {address or 'no address'}",
    )


class WorkerCache:
    def __init__(self, make_stub: StubFactory = no_stubs, recorder: Recorder = NO_RECORDER) -> None:
        self._make_stub = make_stub
        self._stubs: Cache[tuple[TaskName, str], WorkerInterface]
        self._stubs = Cache("worker_stub", recorder, lambda key: " ".join(map(str, key)))
        self._lock = threading.Lock()
        self.num_in_use = 0

    def acquire(
        self, task: TaskName, address: str, context: SpanContext = _NOWHERE
    ) -> WorkerInterface:
        """The stub of a task; give it back with `release`. `context` is whose look-up it is."""
        stub = self._stubs.get((task, address), partial(self._make_stub, task, address), context)
        with self._lock:
            self.num_in_use += 1
        return stub

    def release(self, stub: WorkerInterface) -> None:
        if stub not in self._stubs.values():
            raise ValueError(f"{stub!r} is no stub of this cache")
        with self._lock:
            self.num_in_use -= 1

    @property
    def tally(self) -> Tally:
        return self._stubs.tally

    @property
    def num_stubs(self) -> int:
        return len(self._stubs)
