"""How far the reading of a large file has come, told to whoever wants to know.

with told_to(lambda name, share: …):
    open_trace(path)
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from vizdist.i18n.printable import printable

Tell = Callable[[str, float], None]  #: name of the file, share of it that was read

_LISTENER: ContextVar[Tell | None] = ContextVar("listener", default=None)


@contextmanager
def told_to(tell: Tell) -> Iterator[None]:
    """Files that are read inside, also by threads that are started inside, are told of."""
    token = _LISTENER.set(tell)
    try:
        yield
    finally:
        _LISTENER.reset(token)


class Reading:
    """One file; `position` says how many of its bytes were read."""

    def __init__(self, path: Path, position: Callable[[], int]) -> None:
        self._listener = _LISTENER.get()
        self._name = path.name
        self._size = max(1, path.stat().st_size)
        self._position = position

    def tell(self) -> None:
        if self._listener is not None:
            self._listener(self._name, min(1.0, self._position() / self._size))


class ReadingLine:
    """Progress of a long reading: a line that counts up on a terminal, else one per 10 %."""

    def __init__(self) -> None:
        self._told = ("", 0)

    def __call__(self, name: str, share: float) -> None:
        percent = int(share * 100)
        if not sys.stderr.isatty():
            percent -= percent % 10
        if (name, percent) != self._told:
            self._told = name, percent
            end = "\r" if sys.stderr.isatty() else "\n"
            sys.stderr.write(f"reading {printable(name)}: {percent} %{end}")
            sys.stderr.flush()
