"""The largest artifacts of a run: steps that took far longer than usual, and the longest stalls.

Overview first, with only what is largest (the idea of EEG, TensorFlow white paper section 9.2).
A stall that comes back in every step is told once, where it was longest; one in a step that stands
out itself is told with that step.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from vizdist.analysis.kept import kept
from vizdist.analysis.slow_step import why_slow
from vizdist.analysis.stalls import NOTHING_LEFT, Gaps, Stall, causes, gaps
from vizdist.analysis.stalls_told import told
from vizdist.analysis.step_times import STANDS_OUT, step_times
from vizdist.i18n.units import duration
from vizdist.store.details import hex_id
from vizdist.store.trace import StepInfo, Trace

MOST = 5
MOST_STEPS = 2  #: of these, how many may be whole steps
WORTH_SAYING = 0.05  #: part of a usual step below which a stall is noise


@dataclass(frozen=True, slots=True)
class StandOut:
    """`key` is `slow_` and one of slow_step.MEASURES, or a key of stalls_told; `cost` in ns.

    `span` is where to look: the op that stood still, or what made the step slow. `row` is the
    device's, -1 for a whole step; `num_steps` in how many steps it stood so.
    """

    key: str
    values: Mapping[str, str]
    step: StepInfo
    start: int
    end: int
    cost: int
    row: int = -1
    span: int = 0
    stall: Stall | None = None
    num_steps: int = 1

    @property
    def id(self) -> str:
        """Stays what it is while a run grows: places in the list and rows are numbered anew."""
        return f"{self.key} {hex_id(self.span)} {self.step.number} {self.step.task}"


@kept()
def stands_out(trace: Trace) -> list[StandOut]:
    """The largest first."""
    slow = list(_slow_steps(trace))
    rest = _stalls(trace, {one.step.trace_lo for one in slow}, MOST - len(slow))
    return sorted([*slow, *rest], key=lambda one: -one.cost)


def _slow_steps(trace: Trace) -> Iterator[StandOut]:
    times = step_times(trace)
    late = [
        (step.duration - times.median, step)
        for step in times.steps
        if step.is_whole and step.duration > STANDS_OUT * times.median
    ]
    for _, step in sorted(late, key=lambda one: -one[0])[:MOST_STEPS]:
        usual = times.usual_for(step)
        if usual is None:
            continue
        values = {
            "step": f"{step.number:,}",
            "took": str(duration(step.duration)),
            "usual": str(duration(usual.duration)),
        }
        cause = why_slow(trace, step, usual)
        if cause is not None:
            late_by = str(duration(cause.late))
            values |= {"task": cause.task, "name": cause.name, "late": late_by}
        yield StandOut(
            f"slow_{cause.measure if cause else 'unknown'}",
            values,
            step,
            step.start,
            step.end,
            step.duration - usual.duration,
            span=cause.span if cause else step.span,
        )


def _stalls(trace: Trace, told_of: set[int], most: int) -> list[StandOut]:
    """The longest stall of each kind: a device that stands still until it runs an op."""
    steps = trace.steps
    found = _worth_saying(trace, told_of)
    names = trace.all.take(found.effect).codes("name").astype(np.int64)
    kinds = found.row * (int(names.max(initial=0)) + 1) + names
    _, first, kind = np.unique(kinds, return_index=True, return_inverse=True)
    number = np.array([step.number for step in steps], np.int64)[found.request]
    counts = np.bincount(np.unique(np.stack((kind, number)), axis=1)[0], minlength=len(first))
    longest = np.argsort(first)[:most]
    by_step = sorted(longest.tolist(), key=lambda at: int(found.request[first[at]]))
    made = []
    for request, group in groupby(by_step, key=lambda at: int(found.request[first[at]])):
        own = list(group)
        told_of_step = causes(trace, steps[request], found.take(first[own]))
        made += [
            _stand_out(trace, steps[request], stall, int(count))
            for stall, count in zip(told_of_step, counts[own], strict=True)
        ]
    return made


def _worth_saying(trace: Trace, told_of: set[int]) -> Gaps:
    """The longest gaps first."""
    steps = trace.steps
    if not steps:
        return Gaps(*(np.empty(0, np.int64) for _ in Gaps._fields))
    found = gaps(trace, steps)
    duration_of = np.array([step.duration for step in steps], np.int64)[found.request]
    is_told = np.array([step.trace_lo in told_of for step in steps], np.bool_)[found.request]
    is_long = found.length > WORTH_SAYING * duration_of
    found = found.take(np.flatnonzero((found.effect != NOTHING_LEFT) & is_long & ~is_told))
    return found.take(np.argsort(-found.length, kind="stable"))


def _stand_out(trace: Trace, step: StepInfo, stall: Stall, num_steps: int) -> StandOut:
    key, values = told(trace, stall)
    span = int(trace.all.span[stall.effect])
    return StandOut(
        key, values, step, stall.start, stall.end, stall.duration, stall.row, span, stall, num_steps
    )
