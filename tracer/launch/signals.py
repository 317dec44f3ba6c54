"""Signals that ask a process to end: as an exception, as an event, or not now.

Handlers belong to the main thread; elsewhere these change nothing.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Ctrl-C, a polite kill, a terminal that was closed
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Handler = Callable[[int, Any], Any] | int


@contextmanager
def handled(handler: Handler) -> Iterator[None]:
    """While this is open the handler gets what asks the process to end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in ENDING}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """All of them raise KeyboardInterrupt, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with handled(interrupt):
        yield


@contextmanager
def told_to_go() -> Iterator[threading.Event]:
    """All of them set the event."""
    told = threading.Event()
    with handled(lambda *_: told.set()):
        yield told


@contextmanager
def undisturbed() -> Iterator[None]:
    """None of them is heard: what happens here is short, and half of it is worse than none."""
    with handled(signal.SIG_IGN):
        yield
