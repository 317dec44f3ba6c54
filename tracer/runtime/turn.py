"""What one thread does before it lets go: pieces of work, then the messages they left.

While a piece runs (one received message is dispatched, one segment of a partition computes), work
that became ready on this thread queues behind it instead of nesting inside it, and messages for
other tasks gather. When the piece ends, gathered messages leave as one a peer, then the next piece
runs. So a value handed over wakes its consumer without a thread, a future or recursion (TF's inline
ready queue), and several RecvTensor answers share a frame.
"""

import threading
from collections import deque
from collections.abc import Callable

Work = Callable[[], None]


class _Turn(threading.local):
    def __init__(self) -> None:
        self.running = False
        self.work: deque[Work] = deque()
        self.flushes: dict[Work, None] = {}  # a set that keeps its order


_turn = _Turn()


def run(work: Work) -> None:
    """Runs `work` now, and after it all that became ready meanwhile; within a turn, later in it.

    An error of a piece propagates from the outermost call once the turn is empty.
    """
    turn = _turn
    turn.work.append(work)
    if not turn.running:
        _drain(turn)


def at_end(flush: Work) -> None:
    """Calls `flush` once when the current piece ends; at once if this thread is in no turn.

    Pass the same bound method each time (kept in an attribute), so that it is known as the same.
    """
    if _turn.running:
        _turn.flushes[flush] = None
    else:
        flush()


def _drain(turn: _Turn) -> None:
    """One failing piece does not take the others with it; the last failure is raised at the end."""
    turn.running = True
    failure: BaseException | None = None
    work = turn.work
    try:
        while work:
            try:
                work.popleft()()
            except BaseException as error:  # noqa: BLE001
                failure = error
            if turn.flushes:
                failure = _flush(turn) or failure
    finally:
        turn.running = False
    if failure is not None:
        raise failure


def _flush(turn: _Turn) -> BaseException | None:
    failure: BaseException | None = None
    while turn.flushes:
        flushes, turn.flushes = turn.flushes, {}
        for flush in flushes:
            try:
                flush()
            except BaseException as error:  # noqa: BLE001
                failure = error
    return failure
