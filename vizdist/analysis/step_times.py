"""How long the steps took, and which one stands out."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low

from vizdist.store.trace import StepInfo, Trace

STANDS_OUT = 1.5  #: times the median from which the slowest step is worth a sentence


@dataclass(frozen=True, slots=True)
class StepTimes:
    """All steps in order; `typical` is a whole one of median length. Times in ns."""

    steps: tuple[StepInfo, ...]
    typical: StepInfo | None
    slowest: StepInfo | None

    @property
    def median(self) -> int:
        return self.typical.duration if self.typical else 0

    @property
    def total(self) -> int:
        """From the start of the first step to the end of the last."""
        if not self.steps:
            return 0
        return max(step.end for step in self.steps) - min(step.start for step in self.steps)

    @property
    def _whole(self) -> list[StepInfo]:
        return [step for step in self.steps if step.is_whole]

    def usual_for(self, step: StepInfo) -> StepInfo | None:
        """The step of median length among the other steps of the same task."""
        others = [one for one in self._whole if one.task == step.task and one != step]
        return _median(others) if others else None

    @property
    def outlier(self) -> StepInfo | None:
        """The slowest step, if it stands out."""
        if self.slowest and self.slowest.duration > STANDS_OUT * self.median:
            return self.slowest
        return None


def step_times(trace: Trace) -> StepTimes:
    steps = trace.steps
    whole = [step for step in steps if step.is_whole]
    if not whole:
        return StepTimes(steps, None, None)
    return StepTimes(steps, _median(whole), max(whole, key=lambda step: step.duration))


def _median(steps: Sequence[StepInfo]) -> StepInfo:
    middle = median_low(step.duration for step in steps)
    return next(step for step in steps if step.duration == middle)
