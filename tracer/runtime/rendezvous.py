"""Where a sent tensor and its recv meet: one table a step and task (TF `rendezvous.cc`).

Whoever comes first waits: a value in its key's queue, a recv as a callback. A waiting recv is
called on the sender's thread, outside the lock, before `send` returns. One value serves one recv;
equal keys queue first in, first out. After an abort every waiting and every later call gets the
first abort's error, also for a value that had been sent before.
"""

import threading
from collections import deque
from collections.abc import Mapping, Sized
from typing import NamedTuple

import torch

from tracer.runtime.interfaces import Received, RecvDone, StepError


class Unmet(NamedTuple):
    """Keys that a recv waited for, and keys of values that no recv took."""

    unsent: list[str]
    unreceived: list[str]


class LocalRendezvous:
    __slots__ = ("_error", "_lock", "_values", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, deque[Received]] = {}
        self._waiting: dict[str, deque[RecvDone]] = {}
        self._error: StepError | None = None

    def send(
        self, key: str, tensor: torch.Tensor | None, is_dead: bool = False, span: int = 0
    ) -> None:
        """Hands over a value, never waits. `span` is its `rendezvous.send`.

        Raises the abort's StepError if the step was aborted.
        """
        item = Received(tensor, is_dead, span)
        with self._lock:
            if self._error is not None:
                raise self._error
            waiting = self._waiting.get(key)
            if waiting is None:
                queue = self._values.get(key)
                if queue is None:
                    self._values[key] = deque((item,))
                else:
                    queue.append(item)
                return
            done = waiting.popleft()
            if not waiting:
                del self._waiting[key]
        done(item)

    def recv(self, key: str, done: RecvDone) -> None:
        """Calls `done` with the key's next value: now if it is there, else when it is sent."""
        with self._lock:
            if self._error is not None:
                item = Received(error=self._error)
            else:
                values = self._values.get(key)
                if values is None:
                    self._waiting.setdefault(key, deque()).append(done)
                    return
                item = values.popleft()
                if not values:
                    del self._values[key]
        done(item)

    def cancel(self, key: str, done: RecvDone) -> None:
        """Takes back one waiting recv, which gets CANCELLED; the key stays usable."""
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is None or done not in waiting:
                return
            waiting.remove(done)
            if not waiting:
                del self._waiting[key]
        done(Received(error=StepError("CANCELLED", "RecvAsync is cancelled.", derived=True)))

    def abort(self, error: StepError) -> Unmet:
        """Fails whatever waits and drops what nobody asked for; the first abort's error stands."""
        with self._lock:
            if self._error is None:
                self._error = error
            waiting, self._waiting = self._waiting, {}
            values, self._values = self._values, {}
        for queue in waiting.values():
            for done in queue:
                done(Received(error=error))
        return Unmet(_keys(waiting), _keys(values))

    def unsent(self) -> list[str]:
        """Keys that a recv waits for."""
        with self._lock:
            return _keys(self._waiting)

    def unreceived(self) -> list[str]:
        """Keys of values that no recv has taken."""
        with self._lock:
            return _keys(self._values)


def _keys(table: Mapping[str, Sized]) -> list[str]:
    """Each as often as it stands there."""
    return [key for key, queue in table.items() for _ in range(len(queue))] if table else []
