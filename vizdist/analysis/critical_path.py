"""The critical path of a step: from its end back over what each instant awaited, across tasks.

Its pieces lie one after another from the step's start to its end. What a piece's part means is told
by `step_split`; a thread that an op stood behind is followed, so `queueing` is only what no other
op explains.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vizdist.analysis.event_parts import parts_of
from vizdist.analysis.precedence import NEVER_LATE
from vizdist.analysis.step_events import END, StepEvents, step_events
from vizdist.store.segments import Array
from vizdist.store.trace import StepInfo, Trace


class Piece(NamedTuple):
    """`place` in the table of the trace, -1 where nothing is known; ns since the epoch.

    `part` is one of `step_split.CLASSES`.
    """

    place: int
    start: int
    end: int
    part: str

    @property
    def duration(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """`slack`, by place: ns that a span may end later before the step does.

    A span is missing there if nothing that the step's end awaits depends on it.
    """

    step: StepInfo
    pieces: tuple[Piece, ...]
    slack: Mapping[int, int]


def critical_path(trace: Trace, step: StepInfo) -> CriticalPath | None:
    """None where the step has no ops."""
    events = step_events(trace, step)
    return None if events is None else path_of(events, step)


def path_of(events: StepEvents, step: StepInfo) -> CriticalPath:
    return CriticalPath(step, tuple(pieces_of(events, step, events.path)), _slack(events))


def pieces_of(events: StepEvents, step: StepInfo, instants: Sequence[int]) -> Iterator[Piece]:
    """What lies before each of some instants, which follow each other."""
    return _merged(_pieces(events, step, np.array(instants, np.int64)))


def _pieces(events: StepEvents, step: StepInfo, path: Array) -> Iterator[Piece]:
    ends = events.times[path] + step.start
    starts = ends - events.order.durations[path]
    place = np.append(events.places, -1)[events.span[path]]
    parts = parts_of(events, path)
    columns = zip(place.tolist(), starts.tolist(), ends.tolist(), parts, strict=True)
    return (Piece(*cells) for cells in columns if cells[1] < cells[2])


def _merged(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Neighbours of one span and part are one piece."""
    last = None
    for piece in pieces:
        if last is not None and (last.place, last.part) == (piece.place, piece.part):
            last = last._replace(end=piece.end)
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last


def _slack(events: StepEvents) -> dict[int, int]:
    slack = events.slack[events.instant[END]]
    known = slack != NEVER_LATE
    return dict(zip(events.places[known].tolist(), slack[known].tolist(), strict=True))
