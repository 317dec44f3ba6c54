"""What analyses say of a step and of a run, as the timeline draws it; ns from the trace's start."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from vizdist.analysis.critical_path import CriticalPath, Piece, critical_path
from vizdist.analysis.kept import kept
from vizdist.analysis.lit import SPANS
from vizdist.analysis.stalls import NOTHING_LEFT, Stall, stalls
from vizdist.analysis.stalls_told import told
from vizdist.analysis.stands_out import StandOut
from vizdist.figures.timeline import arrow_ends
from vizdist.store.details import hex_id
from vizdist.store.trace import Arrows, StepInfo, Trace

WIDTH = 4096  #: px of the widest canvas; a path of fewer lines is sent whole


class _Line(NamedTuple):
    """`is_lead`: it lies before its span began, and only leads there."""

    row: int
    part: str
    is_lead: bool
    start: int
    end: int


@kept(most=4)
def step_findings(trace: Trace, step: StepInfo) -> dict[str, Any]:
    """The critical path, None where nothing is known of it, and the longest stalls."""
    path = critical_path(trace, step)
    return {
        "path": None if path is None else _path(trace, path),
        "stalls": [_stall(trace, stall) for stall in stalls(trace, step)],
    }


def _path(trace: Trace, path: CriticalPath) -> dict[str, Any]:
    """Pieces whose span is known, and the recorded links between their spans."""
    apart = [*_apart(trace, path)]
    pieces = [piece for piece, _ in apart]
    places = np.array([piece.place for piece in pieces], np.int64)
    source, target, code = trace.relations
    on_path = np.flatnonzero(np.isin(source, places) & np.isin(target, places))
    arrows = Arrows(source[on_path], target[on_path], code[on_path], len(on_path))
    rows = trace.all.take(places).row.tolist()
    lines = [
        _Line(row, piece.part, is_lead, piece.start, piece.end)
        for row, (piece, is_lead) in zip(rows, apart, strict=True)
    ]
    if len(lines) > WIDTH:
        lines = _by_pixel(lines, path.step)
    return {
        "row": [line.row for line in lines],
        "start": [line.start - trace.start for line in lines],
        "end": [line.end - trace.start for line in lines],
        "part": [line.part for line in lines],
        "lead": [line.is_lead for line in lines],
        "arrows": arrow_ends(trace, arrows),
    }


def _apart(trace: Trace, path: CriticalPath) -> Iterator[tuple[Piece, bool]]:
    """Pieces cut where their spans began; True of what lies before."""
    known = [piece for piece in path.pieces if piece.place >= 0]
    spans = trace.all.take(np.array([piece.place for piece in known], np.int64))
    is_asked = (spans.ready > 0) & (spans.ready < spans.start)
    begun = np.where(is_asked, spans.ready, spans.start).tolist()
    for piece, begin in zip(known, begun, strict=True):
        at = min(max(begin, piece.start), piece.end)
        if piece.start < at:
            yield piece._replace(end=at), True
        if at < piece.end:
            yield piece._replace(start=at), False


def _by_pixel(lines: Sequence[_Line], step: StepInfo) -> list[_Line]:
    """Lines that look the same and begin within one pixel of the whole step are one."""
    found: dict[tuple[object, ...], _Line] = {}
    for line in lines:
        pixel = (line.start - step.start) * WIDTH // step.duration
        first = found.setdefault((pixel, *line[:3]), line)
        found[pixel, *line[:3]] = first._replace(end=line.end)
    return list(found.values())


def _stall(trace: Trace, stall: Stall) -> dict[str, Any]:
    """`cause` is where the arrow begins: in its row, when it was over; `ready` when the op was.

    `sel` selects the cause and what ran next.
    """
    key, values = told(trace, stall)
    has_effect = stall.effect != NOTHING_LEFT
    ready = int(trace.all.ready[stall.effect]) if has_effect else 0
    cause = stall.cause
    ends = [*([cause.place] if cause else []), *([stall.effect] if has_effect else [])]
    begins = cause is not None and {
        "row": int(trace.all.row[cause.place]),
        "at": cause.end - trace.start,
        "span": hex_id(int(trace.all.span[cause.place])),
    }
    return {
        "row": stall.row,
        "start": stall.start - trace.start,
        "end": stall.end - trace.start,
        "ready": min(max(ready or stall.end, stall.start), stall.end) - trace.start,
        "key": key,
        "values": values,
        "cause": begins or None,
        "sel": SPANS.join(hex_id(int(trace.all.span[place])) for place in dict.fromkeys(ends)),
    }


def run_findings(trace: Trace, found: Sequence[StandOut]) -> list[dict[str, Any]]:
    """What stands out in the run, in the order of its list."""
    return [_stand_out(trace, one) for one in found]


def _stand_out(trace: Trace, one: StandOut) -> dict[str, Any]:
    return {
        "id": one.id,
        "key": one.key,
        "values": one.values,
        "step": one.step.number,
        "task": one.step.task,
        "row": one.row,
        "start": one.start - trace.start,
        "end": one.end - trace.start,
    }
