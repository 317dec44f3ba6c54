"""How long the steps took, whose take far longer than the others', and which one stands out."""

from collections.abc import Sequence
from dataclasses import dataclass

from vizdist.analysis.medians import Median, by_task, differ, median_of, median_step
from vizdist.store.trace import StepInfo, Trace

STANDS_OUT = 1.5  #: times the median from which the slowest step, or worker, is worth a sentence


@dataclass(frozen=True, slots=True)
class Straggler:
    """A client whose steps take far longer than those of the others; medians in ns."""

    task: str
    others: tuple[str, ...]
    took: int
    usual: int  #: of the others

    @property
    def ratio(self) -> float:
        return self.took / max(1, self.usual)


@dataclass(frozen=True, slots=True)
class StepTimes:
    """All steps in order; `typical` is a whole one of median length. Times in ns.

    Of a run with a straggler it is one of the straggler's, on whom a run's users wait.
    """

    steps: tuple[StepInfo, ...]
    typical: StepInfo | None
    slowest: StepInfo | None
    straggler: Straggler | None = None
    middle: Median | None = None  #: of the steps that `typical` was taken from

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
        return median_step(others) if others else None

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
    slow = _straggler(whole)
    meant = [step for step in whole if slow is None or step.task == slow.task]
    slowest = max(whole, key=lambda step: step.duration)
    middle = median_of([step.duration for step in meant])
    return StepTimes(steps, median_step(meant), slowest, slow, middle)


def _straggler(steps: Sequence[StepInfo]) -> Straggler | None:
    medians = by_task(steps)
    task = max(medians, key=lambda task: medians[task].ns)
    others = [step for step in steps if step.task != task]
    if not others:
        return None
    usual = median_of([step.duration for step in others])
    found = Straggler(
        task, tuple(name for name in medians if name != task), medians[task].ns, usual.ns
    )
    return found if found.ratio > STANDS_OUT and differ(medians[task], usual) else None
