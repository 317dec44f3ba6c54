"""Medians of step times, and whether two of them are farther apart than steps are by themselves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import sqrt
from statistics import median_low

import numpy as np

from vizdist.store.trace import StepInfo

LEAST = 5  #: steps; the median of fewer is that of chance
_NOTCH = 1.57  # of box plots: where notches do not overlap, medians differ (McGill et al., 1978)


@dataclass(frozen=True, slots=True)
class Median:
    """`ns` is the time of a step that was taken; `low` and `high` hold the middle half between."""

    count: int
    ns: int
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        return self.count >= LEAST

    @property
    def margin(self) -> float:
        return _NOTCH * (self.high - self.low) / sqrt(self.count)


def median_of(durations: Sequence[int]) -> Median:
    """Of one step at least."""
    low, high = np.percentile(durations, (25, 75)).tolist()
    return Median(len(durations), median_low(durations), low, high)


def median_step(steps: Sequence[StepInfo]) -> StepInfo:
    """One that took the median; of one step at least."""
    middle = median_low(step.duration for step in steps)
    return next(step for step in steps if step.duration == middle)


def differ(one: Median, other: Median) -> bool:
    """By more than noise; of too few steps nobody knows."""
    are_known = one.is_known and other.is_known
    return are_known and abs(one.ns - other.ns) > one.margin + other.margin


def by_task(steps: Iterable[StepInfo]) -> dict[str, Median]:
    """Of the whole steps of each client, by name."""
    whole = sorted((step for step in steps if step.is_whole), key=_task)
    return {
        task: median_of([step.duration for step in own]) for task, own in groupby(whole, key=_task)
    }


def _task(step: StepInfo) -> str:
    return step.task
