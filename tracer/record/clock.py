"""Clocks in ns since the epoch. All processes of a host share one anchor, so their offset is 0.

`time_ns` may jump; `perf_counter_ns` never does and counts alike in every process of a host. The
launcher anchors the second to the first once and hands the offset to its children.
"""

import os
import threading
import time
from typing import Final, Protocol

OFFSET_VARIABLE: Final = "VIZDIST_CLOCK_OFFSET_NS"


class Clock(Protocol):
    def now_ns(self) -> int:
        """ns since the epoch; never goes back."""
        ...

    def sleep(self, seconds: float) -> None: ...


def _anchor() -> int:
    """Epoch minus perf_counter in ns; of several tries the one that was interrupted least."""
    tries = []
    for _ in range(16):
        before = time.perf_counter_ns()
        epoch = time.time_ns()
        after = time.perf_counter_ns()
        tries.append((after - before, epoch - (before + after) // 2))
    return min(tries)[1]


OFFSET_NS: Final = int(os.environ.get(OFFSET_VARIABLE) or _anchor())


def now_ns() -> int:
    return time.perf_counter_ns() + OFFSET_NS


def clock_environment() -> dict[str, str]:
    """What a child process must find in its environment to share this process's clock."""
    return {OFFSET_VARIABLE: str(OFFSET_NS)}


class SystemClock:
    """The real time of this host."""

    now_ns = staticmethod(now_ns)
    sleep = staticmethod(time.sleep)


class FakeClock:
    """A clock that moves only when told."""

    def __init__(self, start_ns: int = 1_700_000_000_000_000_000) -> None:
        self._now_ns = start_ns
        self._lock = threading.Lock()

    def now_ns(self) -> int:
        return self._now_ns

    def advance(self, duration_ns: int) -> None:
        if duration_ns < 0:
            raise ValueError(f"a clock never goes back; asked to advance by {duration_ns} ns")
        with self._lock:
            self._now_ns += duration_ns

    def sleep(self, seconds: float) -> None:
        self.advance(round(seconds * 1e9))
