"""What happened to the run around a step: faults, lost tasks and their restarts, checkpoints."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vizdist.analysis.mechanisms.facts import Told, told, told_table
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.i18n import Lang

CHECKPOINTS = ("checkpoint.save", "checkpoint.restore")
KINDS = (*CHECKPOINTS, "session.recover", "task.restart", "fault.inject")


@dataclass(frozen=True, slots=True)
class History:
    events: Sequence[Told]


def find(one: OneStep) -> History | None:
    """From the start of the step before to the start of the next, and the checkpoint before that.

    None where nothing of the kind happened.
    """
    spans = one.trace.all
    places = np.flatnonzero(spans.is_kind(*KINDS))
    places = places[spans.start[places].argsort(kind="stable")]
    begin, end = _around(one)
    shown = places[(spans.end[places] > begin) & (spans.start[places] < end)]
    earlier = places[spans.is_kind(*CHECKPOINTS)[places] & (spans.end[places] <= begin)]
    every = np.concatenate((earlier[-1:], shown))
    return History(list(told(one.trace, every, one.step.start))) if len(every) else None


def _around(one: OneStep) -> tuple[int, int]:
    """From the start of this client's step before to that of its next.

    By time: after a task was lost, steps run again under their numbers.
    """
    starts = [step.start for step in one.trace.steps if step.task == one.step.task]
    before = [start for start in starts if start < one.step.start]
    after = [start for start in starts if start > one.step.start]
    return max(before, default=one.trace.start - 1), min(after, default=one.trace.end + 1)


def tell(found: History, lang: Lang) -> Iterator[str]:
    yield from told_table(found.events, lang)
