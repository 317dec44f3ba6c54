"""How much of the time between two steps went into taking inputs: is the input the bottleneck?"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median

from vizdist.analysis.who_saw_what import Data, Taken


@dataclass(frozen=True, slots=True)
class InputTime:
    """Of one task: what its inputs `took` of the time from one to the next, and the middle one.

    Where they are read ahead, `waits` are those that it found no input ready for, but the run's
    first one.
    """

    task: str
    took_ns: int
    of_ns: int
    median_ns: float
    taken: tuple[Taken, ...]
    waits: tuple[Taken, ...]
    is_ahead: bool

    @property
    def share(self) -> float:
        return self.took_ns / self.of_ns


def input_time(data: Data) -> InputTime | None:
    """Of the task that inputs took most of. None where no step follows on another."""
    ordered = sorted(data.taken, key=lambda one: (one.task, one.step))
    found = [
        time
        for task, taken in groupby(ordered, key=lambda one: one.task)
        if (time := _of_task(task, [*taken])) is not None
    ]
    return max(found, key=lambda time: time.share, default=None)


def _of_task(task: str, taken: Sequence[Taken]) -> InputTime | None:
    """Of the inputs of steps whose next one is told too."""
    followed = [(one, then) for one, then in pairwise(taken) if then.step == one.step + 1]
    of_ns = sum(then.start_ns - one.start_ns for one, then in followed)
    if of_ns <= 0:
        return None
    return InputTime(
        task,
        sum(one.took_ns for one, _ in followed),
        of_ns,
        median(one.took_ns for one, _ in followed),
        tuple(taken),
        tuple(one for one in taken if one.ready == 0 and one.step > 1),
        any(one.ready is not None for one in taken),
    )
