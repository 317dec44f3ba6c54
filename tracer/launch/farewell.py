"""When a task that a person started may go: everybody's client is done, or it is told to.

A worker that left as soon as its own steps are over would take its server from slower ones, whose
sessions span it. So each says in its status that it is finished, and goes when all others say so
or are gone. A task without a client goes when told.
"""

import threading
from collections.abc import Callable, Mapping

from tracer.model.cluster import TaskName
from tracer.runtime.interfaces import StepError, WorkerStatus

LOOK_S = 0.5  #: between two looks at the others

#: one task asked for its status; raises StepError if it does not answer
Ask = Callable[[], WorkerStatus]


def wait_for_others(others: Mapping[TaskName, Ask], told: threading.Event, *, met: bool) -> None:
    """Returns when all are finished or gone, or when told.

    `met`: all have answered before; else one that does not answer may be still to come.
    """
    waiting = dict(others)
    seen = set(others) if met else set()
    while waiting and not told.is_set():
        for task, ask in list(waiting.items()):
            try:
                is_over = ask().is_finished
                seen.add(task)
            except StepError:
                is_over = task in seen
            if is_over:
                del waiting[task]
        if waiting:
            told.wait(LOOK_S)
