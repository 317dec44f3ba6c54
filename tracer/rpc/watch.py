"""A limit for waits that have none of their own, such as reading a message of a gRPC stream."""

import threading
import time
from collections.abc import Callable
from types import TracebackType

_LOOK_S = 0.25


class Watch:
    """Calls `on_late` from a thread of its own when a `with watch.limit(…)` block takes too long.

    Entering and leaving the block costs two assignments, so that it may surround every step.
    """

    def __init__(self, on_late: Callable[[], object]) -> None:
        self._on_late = on_late
        self._deadline: float | None = None
        self._stopped = threading.Event()
        self.fired = False
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
        self._thread.start()

    def limit(self, seconds: float) -> "Watch":
        self._deadline = time.monotonic() + seconds
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._deadline = None

    def _look(self) -> None:
        while not self._stopped.wait(_LOOK_S):
            deadline = self._deadline
            if deadline is not None and time.monotonic() > deadline:
                self.fired = True
                self._on_late()
                return

    def stop(self) -> None:
        self._stopped.set()
