"""Where the pieces of collectives wait for who receives them: a table an execution and task.

Every piece is taken once, so an execution is over here when its ranks have ended and all that they
sent was taken. Ids of executions are longer than those of steps, and RecvTensor finds its table by
that.
"""

import threading
from functools import partial

import torch

from tracer.runtime.interfaces import Received, RecvDone, StepError
from tracer.runtime.rendezvous import LocalRendezvous

RECENT = 1024  #: failed executions that are remembered, so that a late pull fails too


class Exchange:
    """`left` counts ranks of this task that have not ended, and pieces that wait to be taken."""

    __slots__ = ("_exchanges", "is_entered", "left", "local", "number")

    def __init__(self, exchanges: "Exchanges", number: int) -> None:
        self._exchanges = exchanges
        self.number = number
        self.local = LocalRendezvous()
        self.left = 0
        self.is_entered = False

    def send(self, key: str, piece: torch.Tensor, span: int) -> None:
        """Raises the abort's StepError if the execution was aborted."""
        self._exchanges.count(self, 1)
        self.local.send(key, piece, False, span)

    def recv(self, key: str, done: RecvDone) -> None:
        self.local.recv(key, partial(self._taken, done))

    def _taken(self, done: RecvDone, received: Received) -> None:
        if received.error is None:
            self._exchanges.count(self, -1)
        done(received)

    def leave(self) -> None:
        """A rank of this task has ended."""
        self._exchanges.count(self, -1)


class Exchanges:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[int, Exchange] = {}
        self._failed: dict[int, StepError] = {}

    def enter(self, number: int, num_ranks: int) -> Exchange:
        """A rank begins; `num_ranks` of the execution are in this task.

        Raises StepError if the execution has failed.
        """
        with self._lock:
            exchange = self._find(number)
            if not exchange.is_entered:
                exchange.is_entered = True
                exchange.left += num_ranks
            return exchange

    def recv(self, number: int, key: str, done: RecvDone) -> None:
        """A pull by another task, which may come before any rank has begun here."""
        with self._lock:
            exchange = self._find(number)
        exchange.recv(key, done)

    def _find(self, number: int) -> Exchange:
        if number in self._failed:
            raise self._failed[number]
        return self._running.setdefault(number, Exchange(self, number))

    def count(self, exchange: Exchange, change: int) -> None:
        with self._lock:
            exchange.left += change
            if not exchange.left and exchange.is_entered:
                self._running.pop(exchange.number, None)

    def abort(self, number: int, error: StepError) -> None:
        """Fails what waits, and whoever comes later."""
        with self._lock:
            self._failed.setdefault(number, error)
            if len(self._failed) > RECENT:
                del self._failed[next(iter(self._failed))]
            exchange = self._running.pop(number, None)
        if exchange is not None:
            exchange.local.abort(error)

    def running(self) -> list[int]:
        """Executions that are not over."""
        with self._lock:
            return list(self._running)
