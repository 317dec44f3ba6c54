"""A step of median length: its critical path, what stood idle in it, what a change would save."""

from dataclasses import dataclass

import numpy as np

from vizdist.analysis.bytes_moved import title_of
from vizdist.analysis.critical_path import CriticalPath, path_of
from vizdist.analysis.kept import kept
from vizdist.analysis.stalls import stalls
from vizdist.analysis.step_events import step_events
from vizdist.analysis.step_split import TaskSplit, split_of_client
from vizdist.analysis.step_times import step_times
from vizdist.analysis.what_if import Change, WhatIf, what_if_in
from vizdist.store.trace import StepInfo, Trace


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one thing takes of a critical path, in several pieces; the longest piece comes first.

    `name` is of an op, a tensor or a call; the runtime between ops has none. `kind` is of its
    spans.
    """

    part: str
    kind: str
    task: str
    name: str
    total: int
    spans: tuple[int, ...]


class TypicalStep:
    """`split` is that of the task that leads it; without recorded ops nothing else is known.

    `stretches` are the critical path by what it went to, the longest first.
    """

    def __init__(self, trace: Trace, step: StepInfo) -> None:
        self.step = step
        self.split: TaskSplit = split_of_client(trace, step)
        self._events = step_events(trace, step)
        self.path = path_of(self._events, step) if self._events else None
        self.stretches = _stretches(trace, self.path) if self.path else []
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


def _stretches(trace: Trace, path: CriticalPath) -> list[Stretch]:
    known = [piece for piece in path.pieces if piece.place >= 0]
    spans = trace.all.take(np.array([piece.place for piece in known], np.int64))
    texts = (spans.text(column).tolist() for column in ("kind", "name", "key"))
    rows = zip(known, spans.task.tolist(), *texts, spans.span.tolist(), strict=True)
    found: dict[tuple[str, str, str, str], list[tuple[int, int]]] = {}
    for piece, task, kind, name, key, span in rows:
        what = (kind, task, title_of(name, key))
        group = (piece.part, *(("", task, "") if piece.part == "other" else what))
        found.setdefault(group, []).append((piece.duration, span))
    made = [
        Stretch(*which, sum(ns for ns, _ in pieces), _longest_first(pieces))
        for which, pieces in found.items()
    ]
    return sorted(made, key=lambda stretch: -stretch.total)


def _longest_first(pieces: list[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(span for _, span in sorted(pieces, reverse=True)))
