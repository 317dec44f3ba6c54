"""Request ids: new for each request, so that one which comes twice is noticed."""

import random
import threading
from collections import deque

from tracer.runtime.interfaces import StepError

_ids = random.Random()  #: unique, not secret


def new_request_id() -> int:
    """Never 0, which says that nobody tracks it."""
    return _ids.getrandbits(62) << 1 | 1


class RecentRequestIds:
    """Refuses a request id that came before (TF `recent_request_ids.cc`).

    A pull takes its value away, so a repeated one must never take the next value of the key; a
    repeated step would be run twice.
    """

    def __init__(self, method: str, num_tracked: int = 100_000) -> None:
        self._method = method
        self._lock = threading.Lock()
        self._seen: set[int] = set()
        self._order: deque[int] = deque()
        self._num_tracked = num_tracked

    def check(self, request_id: int, what: str) -> None:
        """Raises StepError if the id is not new; 0 is not tracked."""
        if not request_id:
            return
        with self._lock:
            if request_id not in self._seen:
                self._seen.add(request_id)
                self._order.append(request_id)
                if len(self._order) > self._num_tracked:
                    self._seen.discard(self._order.popleft())
                return
        raise StepError("ABORTED", f"The same {self._method} request was received twice. {what}")
