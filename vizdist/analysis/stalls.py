"""When a device stood idle within a step, and what its next op was waiting for.

A stall is a stretch in which no op runs, of this step or another, on a device that runs some of the
step. Its effect is the op of the step that ran next, and its cause is what took longest of what
this op awaited meanwhile, by the order that the critical path goes by. The device of the task that
leads the step also stands idle until the step ends; for the others there is nothing left to do.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from vizdist.analysis.collective_pieces import joined
from vizdist.analysis.critical_path import Piece, pieces_of
from vizdist.analysis.slow_step import REGISTRATION
from vizdist.analysis.step_events import MID, StepEvents, step_events
from vizdist.analysis.step_split import is_wait, leader_of, op_mask, paint
from vizdist.analysis.waiting import union
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import RowInfo, StepInfo, Trace

NOTHING_LEFT = -1  #: the effect of the time after the last op


class Gaps(NamedTuple):
    """Stretches in which devices ran nothing, a place in each array; ns since the epoch.

    `row` is the first of the device's lane; `effect` the place of the op that ran next, the root of
    the step for the device of its leader, else NOTHING_LEFT; `request` counts in the steps.
    """

    row: Array
    start: Array
    end: Array
    effect: Array
    request: Array

    @property
    def length(self) -> Array:
        lengths: Array = self.end - self.start
        return lengths

    def take(self, which: Array) -> "Gaps":
        return Gaps(*(column[which] for column in self))


class Stall(NamedTuple):
    """`row`, `start`, `end` and `effect` are those of a gap; `cause` is what took longest.

    None: nothing was left to run, or no record says what was awaited.
    """

    row: int
    start: int
    end: int
    effect: int
    cause: Piece | None

    @property
    def duration(self) -> int:
        return self.end - self.start


def stalls(trace: Trace, step: StepInfo, most: int = 64) -> list[Stall]:
    """The longest of a step, longest first."""
    found = gaps(trace, [step])
    order = np.argsort(-found.length, kind="stable")[:most]
    return causes(trace, step, found.take(order))


def causes(trace: Trace, step: StepInfo, found: Gaps) -> list[Stall]:
    """The gaps of one step with what caused them, in the same order."""
    events = step_events(trace, step)
    registering = _registering(trace, step)
    columns = (column.tolist() for column in (found.row, found.start, found.end, found.effect))
    return [
        Stall(row, start, end, effect, registering(_longest(trace, way)))
        for row, start, end, effect in zip(*columns, strict=True)
        for way in [_way(events, step, start, end, effect)]
    ]


def _longest(trace: Trace, way: Sequence[Piece]) -> Piece | None:
    return max(joined(trace, way), key=lambda piece: piece.duration, default=None)


def _way(
    events: StepEvents | None, step: StepInfo, start: int, end: int, effect: int
) -> list[Piece]:
    """The pieces of what led to the effect, within the gap."""
    if events is None or effect == NOTHING_LEFT:
        return []
    at = np.flatnonzero(events.places == effect)
    if not len(at):
        return []
    is_root = int(events.spans.span[at[0]]) == step.span
    last = events.last if is_root else int(events.instant[MID, at[0]])
    begun = start - step.start
    way = [*takewhile(lambda one: events.times[one] > begun, events.order.back(last))][::-1]
    return [
        piece._replace(start=max(piece.start, start), end=min(piece.end, end))
        for piece in pieces_of(events, step, way)
        if piece.start < end
    ]


def _registering(trace: Trace, step: StepInfo) -> Callable[[Piece | None], Piece | None]:
    """Names what no span of the step tells by the graphs that were registered meanwhile.

    That is a request of its own. The longest span is named, where they fill most of the time.
    """
    places = np.flatnonzero(trace.mask(window=(step.start, step.end), kinds=REGISTRATION))
    spans = trace.all.take(places)

    def named(cause: Piece | None) -> Piece | None:
        if cause is None or cause.part != "other" or not len(places):
            return cause
        start = np.clip(spans.start, cause.start, cause.end)
        end = np.clip(spans.end, cause.start, cause.end)
        if 2 * paint([(start, end)], cause.start, cause.end)[0] < cause.duration:
            return cause
        most = int(np.argmax(end - start))
        return Piece(int(places[most]), int(start[most]), int(end[most]), cause.part)

    return named


def gaps(trace: Trace, steps: Sequence[StepInfo]) -> Gaps:
    """All of some steps; no two steps are of one request."""
    places, request = _ops(trace, steps)
    ops = trace.all.take(places)
    row = _first_rows(trace)[ops.row]
    begin, finish = (np.array([getattr(s, name) for s in steps], np.int64) for name in _EDGES)
    lane = request * len(trace.rows) + row
    start = np.clip(ops.start, begin[request], finish[request])
    end = np.clip(ops.end, begin[request], finish[request])
    order = np.lexsort((start, lane))
    lane, request, row, places = (one[order] for one in (lane, request, row, places))
    start, end = start[order], end[order]
    is_first = np.append(True, lane[1:] != lane[:-1])[: len(lane)]
    is_last = np.append(is_first[1:], True)[: len(lane)]
    free = _latest_end(end - begin[request], is_first) + begin[request]
    before = np.where(is_first, begin[request], np.append(0, free[:-1])[: len(free)])
    after = np.flatnonzero(is_last)
    found = Gaps(
        np.concatenate((row, row[after])),
        np.concatenate((before, free[after])),
        np.concatenate((start, finish[request[after]])),
        np.concatenate((places, _after_all(trace, steps, row[after], request[after]))),
        np.concatenate((request, request[after])),
    )
    return _without(found.take(np.flatnonzero(found.length > 0)), *_others(trace, steps))


def _others(trace: Trace, steps: Sequence[StepInfo]) -> tuple[Array, Spans]:
    """What ran while these steps did, of any step or none, and the first rows of its devices."""
    window = min(step.start for step in steps), max(step.end for step in steps)
    ops = trace.spans(window=window, kinds=["op.run"])
    ops = ops.take(~op_mask(ops, is_wait) & (ops.duration > 0))
    return _first_rows(trace)[ops.row], ops


def _without(found: Gaps, row: Array, ops: Spans) -> Gaps:
    """What is left of gaps where these ops are taken out; one that is cut is several."""
    left = []
    for device in np.unique(found.row).tolist():
        own = found.take(np.flatnonzero(found.row == device))
        ran = ops.take(np.flatnonzero(row == device))
        busy, free = union(ran.start, ran.end)
        first = np.searchsorted(free, own.start, "right")
        pieces = np.searchsorted(busy, own.end, "left") - first + 1
        own, at = own.take(np.repeat(np.arange(len(pieces)), pieces)), _counted(first, pieces)
        start = np.maximum(own.start, np.append(own.start.min(), free)[at])
        end = np.minimum(own.end, np.append(busy, own.end.max())[at])
        cut = own._replace(start=start, end=end)
        left.append(cut.take(np.flatnonzero(cut.length > 0)))
    return Gaps(*map(np.concatenate, zip(*left, strict=True))) if left else found


def _counted(first: Array, lengths: Array) -> Array:
    """From each number as many as its length, one after another."""
    begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
    counted: Array = np.arange(len(begins)) - begins + np.repeat(first, lengths)
    return counted


_EDGES = ("start", "end")


def _ops(trace: Trace, steps: Sequence[StepInfo]) -> tuple[Array, Array]:
    """Places of the ops that these steps ran, and which step each is of."""
    ids = np.array([step.trace_lo for step in steps], np.uint64)
    order = np.argsort(ids, kind="stable")
    if len(steps) == 1:
        places = trace.step_places(steps[0])
    else:
        places = np.flatnonzero(trace.all.is_kind("op.run"))
    spans = trace.all.take(places)
    at = np.minimum(np.searchsorted(ids[order], spans.trace_lo), len(ids) - 1)
    runs = spans.is_kind("op.run") & ~op_mask(spans, is_wait)
    is_meant = runs & (ids[order][at] == spans.trace_lo)
    return places[is_meant], order[at][is_meant]


def _first_rows(trace: Trace) -> Array:
    """Of every row the first one of its device: ops that overlap, or are of loops, need several."""
    first: dict[tuple[str, str], int] = {}
    runs = np.unique(trace.all.row[trace.all.is_kind("op.run")]).tolist()
    found = np.arange(len(trace.rows))
    for row in runs:
        found[row] = first.setdefault((trace.rows[row].task, device_of(trace.rows[row])), row)
    return found


def device_of(row: RowInfo) -> str:
    """`GPU:1` of the lane `stream GPU:1`; the lane where it names no device."""
    words = [word for word in row.lane.split(" ")[1:] if ":" in word]
    return words[0] if words else row.lane


def _latest_end(ends: Array, is_first: Array) -> Array:
    """The latest end so far, anew in every group; ends are from 0."""
    group = np.cumsum(is_first) - 1
    room = int(ends.max(initial=0)) + 1
    latest: Array = np.maximum.accumulate(ends + group * room) - group * room
    return latest


def _after_all(trace: Trace, steps: Sequence[StepInfo], rows: Array, requests: Array) -> Array:
    """The step itself where its leader's device has run its last op; a client's is always one."""
    roots = trace.places(np.array([step.span for step in steps], np.uint64))
    first = {step.task: step for step in reversed(steps)}
    leader = {task: leader_of(trace, step) for task, step in first.items()}
    pairs = zip(rows.tolist(), requests.tolist(), strict=True)
    leads = [trace.rows[row].task == leader[steps[at].task] for row, at in pairs]
    return np.where(np.array(leads, np.bool_), roots[requests], NOTHING_LEFT)
