"""Stubs of other tasks' workers, one a task and address (TF `worker_cache.h`).

They are made by a factory that knows the transport. A stub and its channel live as long as the
process; who takes one gives it back, and both are counted.
"""

import threading
from collections.abc import Callable

from tracer.model.cluster import TaskName
from tracer.runtime.interfaces import StepError, WorkerInterface

#: (task, address) → a stub; nothing is connected yet
StubFactory = Callable[[TaskName, str], WorkerInterface]


def no_stubs(task: TaskName, address: str) -> WorkerInterface:
    """The factory of a task that has no peers."""
    raise StepError(
        "UNAVAILABLE",
        f"this task stands alone and cannot reach {task} at {address or 'no address'}",
    )


class WorkerCache:
    def __init__(self, make_stub: StubFactory = no_stubs) -> None:
        self._make_stub = make_stub
        self._lock = threading.Lock()
        self._stubs: dict[tuple[TaskName, str], WorkerInterface] = {}
        self.num_acquired = 0
        self.num_released = 0

    def acquire(self, task: TaskName, address: str) -> WorkerInterface:
        """The stub of a task; give it back with `release`."""
        with self._lock:
            stub = self._stubs.get((task, address))
            if stub is None:
                stub = self._stubs[task, address] = self._make_stub(task, address)
            self.num_acquired += 1
            return stub

    def release(self, stub: WorkerInterface) -> None:
        with self._lock:
            if stub not in self._stubs.values():
                raise ValueError(f"{stub!r} is no stub of this cache")
            self.num_released += 1

    @property
    def num_stubs(self) -> int:
        return len(self._stubs)

    @property
    def num_in_use(self) -> int:
        return self.num_acquired - self.num_released
