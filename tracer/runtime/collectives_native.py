"""Collectives by torch.distributed: gloo among the tasks' processes, over loopback.

A rank has a process group of its own and a thread on which it waits; several ranks may live in one
process. Gloo pairs what ranks issue by their order, so each takes its turns as the leader counted
them.
"""

import heapq
import itertools
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed

from tracer.model.collective import Collective, Execution
from tracer.runtime.collectives_pieces import Brought, finish, is_alone
from tracer.runtime.interfaces import StepError

dist: Any = torch.distributed  #: most of what is used here has no types

HOST = "127.0.0.1"
CONNECT_S = 30.0  #: for all ranks to join
OPS = {
    "Add": dist.ReduceOp.SUM,
    "Mul": dist.ReduceOp.PRODUCT,
    "Max": dist.ReduceOp.MAX,
    "Min": dist.ReduceOp.MIN,
}

Ended = Callable[[torch.Tensor | None, Exception | None], None]


class Store:
    """Where the ranks of a group find each other; the system chooses the port."""

    def __init__(self) -> None:
        listening = socket.create_server((HOST, 0))
        self.port: int = listening.getsockname()[1]
        self._store = dist.TCPStore(
            HOST,
            self.port,
            None,
            is_master=True,
            timeout=timedelta(seconds=CONNECT_S),
            wait_for_workers=False,
            master_listen_fd=listening.detach(),
        )


class NativeRank:
    """One rank of a group. Its thread ends with `close`, or when a turn fails or is not taken.

    Then the ranks no longer agree on whose turn it is, and meet anew at another store.
    """

    def __init__(self, collective: Collective, group_key: int, port: int) -> None:
        self._rank, self._ranks = collective.rank, len(collective.devices)
        self._group_key, self.port = group_key, port
        self._timeout_s = collective.timeout_s
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Callable[[Any], torch.Tensor], Ended]] = []
        self._numbers = itertools.count()
        self._turn = 0
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="collective native", daemon=True)
        self._thread.start()

    def run(
        self, execution: Execution, collective: Collective, brought: Brought, ended: Ended
    ) -> None:
        """Calls `ended` on this rank's thread, or here if that has ended."""

        def work(group: Any) -> torch.Tensor:
            if not brought:
                text = f"rank {self._rank} of group {self._group_key} gave up its turn"
                raise StepError("ABORTED", text, derived=True)
            return run(group, collective, execution, brought)

        with self._changed:
            heapq.heappush(self._waiting, (execution.turn, next(self._numbers), work, ended))
            self._changed.notify()
            is_over = self._error is not None
        if is_over:
            self._fail_all()

    def close(self, error: Exception) -> None:
        """Fails what waits and whatever comes; an operation under way ends by its time limit."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify()

    def _run(self) -> None:
        group, failure = None, None
        try:
            group = self._joined()
        except Exception as error:  # noqa: BLE001 (whoever waits is told)
            failure = error
        while True:
            with self._changed:
                self._error = self._error or failure
                self._changed.wait_for(self._is_ready)
                if self._error is not None:
                    break
                _, _, work, ended = heapq.heappop(self._waiting)
                self._turn += 1
            try:
                result, failure = work(group), None
            except Exception as error:  # noqa: BLE001
                result, failure = None, error
            ended(result, self._told(failure) if failure else None)
            del result, work, ended  # while this thread waits, the sum is somebody else's alone
        self._fail_all()

    def _joined(self) -> Any:
        timeout = timedelta(seconds=CONNECT_S)
        store = dist.TCPStore(HOST, self.port, None, is_master=False, timeout=timeout)
        options = dist.ProcessGroupGloo._Options()
        options._timeout = timedelta(seconds=self._timeout_s)
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=HOST)]
        named = dist.PrefixStore(str(self._group_key), store)
        return dist.ProcessGroupGloo(named, self._rank, self._ranks, options)

    def _is_ready(self) -> bool:
        return self._error is not None or bool(self._waiting and self._waiting[0][0] == self._turn)

    def _fail_all(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    return
                ended = heapq.heappop(self._waiting)[3]
            ended(None, self._told(self._error))

    def _told(self, error: Exception | None) -> StepError:
        if isinstance(error, StepError):
            return error
        text = f"gloo, rank {self._rank} of group {self._group_key}: {error}"
        return StepError("UNAVAILABLE", text)


def run(group: Any, collective: Collective, execution: Execution, brought: Brought) -> torch.Tensor:
    """One operation of a process group, until it is over."""
    match collective.kind:
        case "all_gather":
            return torch.cat(_gathered(group, collective, execution, brought.pop()))
        case "broadcast":
            return _broadcast(group, brought.pop().detach().clone(), collective.source)
        case _:
            return _all_reduced(group, collective, brought)


def _all_reduced(group: Any, collective: Collective, brought: Brought) -> torch.Tensor:
    """In place, as gloo has it, where nobody else sees what was brought."""
    x = brought.pop()
    total = x if is_alone(x) else x.detach().clone(memory_format=torch.contiguous_format)
    if total.numel():
        options = dist.AllreduceOptions()
        options.reduceOp = OPS[collective.merge_op]
        group.allreduce([total], options).wait()
        finish(total, collective.final_op, len(collective.devices))
    return total


def _gathered(
    group: Any, collective: Collective, execution: Execution, x: torch.Tensor
) -> list[torch.Tensor]:
    """By a broadcast a rank, since gloo gathers equal shapes only."""
    own = x.detach().contiguous()
    pieces = [
        own if rank == collective.rank else own.new_empty((rows, *own.shape[1:]))
        for rank, rows in enumerate(execution.rows)
    ]
    return [_broadcast(group, piece, rank) for rank, piece in enumerate(pieces)]


def _broadcast(group: Any, piece: torch.Tensor, source: int) -> torch.Tensor:
    if piece.numel():
        options = dist.BroadcastOptions()
        options.rootRank = source
        group.broadcast([piece], options).wait()
    return piece
