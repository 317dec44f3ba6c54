"""Whether there is room to record: the collector decides, a file tells every recorder.

The trace grows to its limit and no further, the disk may be full before; either way recording stops
at the next step boundary and the run goes on. What stands in the rings by then is still written;
where the limit is small, little may stand there.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

STOP_FILE: Final = "stopped"
FULL_FILE: Final = "full"
NO_LIMIT: Final = 0
FULL_FILES: Final = 64  #: ring files of a thread (1 MiB each) at which a step boundary waits


class Room:
    """The collector's side."""

    def __init__(self, trace: Path, scratch: Path, limit_bytes: int = NO_LIMIT) -> None:
        self._trace = trace
        self._stop = scratch / STOP_FILE
        self._limit = limit_bytes
        self.stopped = ""  #: why recording stopped, if it ever did
        self._is_full = False

    def look(self, error: str) -> None:
        """Once a turn; `error` is why spans could not be written in it, empty if they were."""
        if self._is_full:
            return
        if self._limit and folder_bytes(self._trace) >= self._limit:
            self._is_full = True
            self._close(f"the trace reached its limit of {self._limit} bytes (--max-trace-size)")
        elif error:
            self._close(f"spans could not be written: {error}")
        else:
            self._stop.unlink(missing_ok=True)

    def _close(self, reason: str) -> None:
        self.stopped = reason
        with suppress(OSError):  # no room for this either: full rings will stop the recording
            self._stop.touch()


def bound_rings(scratch: Path, limit_bytes: int) -> None:
    """Before the first recorder: lets no more wait in a ring than the trace may hold, or two files.

    What waits is written even where the trace is full; a collector that finds no core lets it grow.
    """
    if limit_bytes:
        full = max(2, min(FULL_FILES, limit_bytes >> 20))
        (scratch / FULL_FILE).write_text(str(full))


def full_files(scratch: Path) -> int:
    """At how many files of a ring a step boundary waits for the collector."""
    told = scratch / FULL_FILE
    return int(told.read_text()) if told.exists() else FULL_FILES


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in it; one that is replaced meanwhile counts nothing."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total
