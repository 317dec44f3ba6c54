"""What happened to the run around a step: faults, lost tasks and their restarts, checkpoints."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vizdist.analysis.mechanisms.facts import facts_of, facts_text
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.i18n import Lang
from vizdist.i18n.units import duration
from vizdist.store.details import hex_id
from vizdist.store.segments import Array

CHECKPOINTS = ("checkpoint.save", "checkpoint.restore")
KINDS = (*CHECKPOINTS, "session.recover", "task.restart", "fault.inject")


@dataclass(frozen=True, slots=True)
class Event:
    """`after_ns` counts from the step's start, negative before it; `facts` are its attributes."""

    after_ns: int
    task: str
    kind: str
    took_ns: int
    facts: Mapping[str, Any]
    span: str


@dataclass(frozen=True, slots=True)
class History:
    events: Sequence[Event]


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
    return History(list(_events(one, every))) if len(every) else None


def _around(one: OneStep) -> tuple[int, int]:
    """From the start of this client's step before to that of its next.

    By time: after a task was lost, steps run again under their numbers.
    """
    starts = [step.start for step in one.trace.steps if step.task == one.step.task]
    before = [start for start in starts if start < one.step.start]
    after = [start for start in starts if start > one.step.start]
    return max(before, default=one.trace.start - 1), min(after, default=one.trace.end + 1)


def _events(one: OneStep, places: Array) -> Iterator[Event]:
    attributes = one.trace.attributes(places.tolist())
    spans = one.trace.all.take(places)
    kinds, tasks = spans.text("kind").tolist(), spans.task.tolist()
    for at, place in enumerate(places.tolist()):
        facts = facts_of(kinds[at], attributes.get(place, {}))
        after = int(spans.start[at]) - one.step.start
        took, span = int(spans.duration[at]), hex_id(int(spans.span[at]))
        yield Event(after, tasks[at], kinds[at], took, facts, span)


def tell(found: History, lang: Lang) -> Iterator[str]:
    columns = ("after", "task", "kind", "took", "facts")
    yield from table(columns, map(_cells, found.events), lang)


def _cells(event: Event) -> Sequence[object]:
    times = duration(event.after_ns), duration(event.took_ns)
    return times[0], event.task, event.kind, times[1], facts_text(event.facts)
