"""The client requests of a trace: its steps, and the spans of each."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from vizdist.store.segments import NEVER_HIDDEN, Array, Segment, roots_of
from vizdist.store.spans import Spans


class StepInfo(NamedTuple):
    """One client request. Where every worker runs its own loop, a number occurs once a worker.

    `start` and `end` are ns since the epoch; `span` is the root span, 0 if none was written. A step
    that was cut off or failed is not whole.
    """

    number: int
    trace_hi: int
    trace_lo: int
    start: int
    end: int
    task: str
    span: int
    is_whole: bool

    @property
    def duration(self) -> int:
        return self.end - self.start


class Requests(NamedTuple):
    """What is known of every client request of a segment, a place in each array."""

    trace_lo: Array
    step: Array
    start: Array
    end: Array
    first: Array  #: where its earliest span lies


def requests_of(segment: Segment) -> Requests:
    """Spans of one request mostly lie in runs, so that few of them are looked at one by one."""
    begins, _ = segment.runs
    if not len(begins):
        return Requests(*(np.empty(0, np.int64) for _ in Requests._fields))
    columns = segment.again()
    step = np.maximum.reduceat(columns["step"], begins)
    end = np.maximum.reduceat(columns["end"], begins)
    return _merged(columns["trace_lo"][begins], step, columns["start"][begins], end, begins)


def _merged(trace_lo: Array, step: Array, start: Array, end: Array, first: Array) -> Requests:
    """One place for each trace id."""
    order = np.lexsort((start, trace_lo))
    trace_lo = trace_lo[order]
    begins = np.flatnonzero(np.append(True, trace_lo[1:] != trace_lo[:-1])[: len(trace_lo)])
    return Requests(
        trace_lo[begins],
        np.maximum.reduceat(step[order], begins),
        start[order][begins],
        np.maximum.reduceat(end[order], begins),
        first[order][begins],
    )


def find_steps(spans: Spans, segments: Sequence[Segment]) -> list[StepInfo]:
    """Steps with a root by their roots, and those whose root never came to be written."""
    firsts = np.cumsum([0, *map(len, segments)])
    roots = [
        first + roots_of(one.again(), one.texts["kind"])
        for first, one in zip(firsts, segments, strict=False)
    ]
    places = np.concatenate([np.empty(0, np.int64), *roots])
    found = list(_with_root(spans, places))
    return found + list(_without_root(spans, segments, {step.trace_lo for step in found}))


def _with_root(spans: Spans, places: Array) -> Iterator[StepInfo]:
    root = spans.take(places)
    for at in range(len(places)):
        yield StepInfo(
            int(root.step[at]),
            int(root.trace_hi[at]),
            int(root.trace_lo[at]),
            int(root.start[at]),
            int(root.end[at]),
            spans.rows[int(root.row[at])].task,
            int(root.span[at]),
            not root.flags[at] & NEVER_HIDDEN,
        )


def _without_root(
    spans: Spans, segments: Sequence[Segment], rooted: set[int]
) -> Iterator[StepInfo]:
    """Steps whose root never came to be written: their client was killed."""
    firsts = np.cumsum([0, *map(len, segments)])
    parts = [
        one._replace(first=one.first + first)
        for one, first in zip(map(requests_of, segments), firsts.tolist(), strict=False)
    ]
    if not parts:
        return
    every = Requests(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    every = _merged(*every)
    known = np.fromiter(rooted, np.uint64, len(rooted))
    for at in np.flatnonzero((every.step > 0) & ~np.isin(every.trace_lo, known)).tolist():
        first = spans.take(every.first[at : at + 1])
        yield StepInfo(
            int(every.step[at]),
            int(first.trace_hi[0]),
            int(every.trace_lo[at]),
            int(every.start[at]),
            int(every.end[at]),
            spans.rows[int(first.row[0])].task,
            span=0,
            is_whole=False,
        )


def places_of_request(segments: Sequence[Segment], trace_lo: int) -> Array:
    """Where the spans of one client request lie in the table."""
    found = [np.empty(0, np.int64)]
    offset = 0
    for segment in segments:
        begins, ends = segment.runs
        ids = segment.columns["trace_lo"][begins]
        own = np.flatnonzero(ids == np.uint64(trace_lo)).tolist()
        found += [np.arange(begins[run], ends[run]) + offset for run in own]
        offset += len(segment)
    return np.concatenate(found)
