"""A step of median length: its critical path, what stood idle in it, what a change would save."""

from vizdist.analysis.critical_path import path_of
from vizdist.analysis.kept import kept
from vizdist.analysis.path_stretches import stretches
from vizdist.analysis.stalls import stalls
from vizdist.analysis.step_events import step_events
from vizdist.analysis.step_split import TaskSplit, split_of_client
from vizdist.analysis.step_times import step_times
from vizdist.analysis.what_if import Change, WhatIf, what_if_in
from vizdist.store.trace import StepInfo, Trace


class TypicalStep:
    """`split` is that of the task that leads it; without recorded ops nothing else is known.

    `stretches` are the critical path by what it went to, the longest first, as far as spans tell.
    """

    def __init__(self, trace: Trace, step: StepInfo) -> None:
        self.step = step
        self.split: TaskSplit = split_of_client(trace, step)
        self._events = step_events(trace, step)
        self.path = path_of(self._events, step) if self._events else None
        told = stretches(trace, self.path) if self.path else []
        self.stretches = [stretch for stretch in told if stretch.task]
        self.stalls = stalls(trace, step)
        self._tried: dict[Change, WhatIf | None] = {}

    def what_if(self, change: Change) -> WhatIf | None:
        """Tried once, as a page asks again whenever its run has grown."""
        if change not in self._tried:
            self._tried[change] = what_if_in(self._events, change) if self._events else None
        return self._tried[change]


@kept()
def typical_step(trace: Trace) -> TypicalStep | None:
    """None where no step came to its end."""
    step = step_times(trace).typical
    return TypicalStep(trace, step) if step else None
