"""For which value a task stood still: the part of a recv's wait in which nothing else could run.

A recv that is asked for at the start of a step waits while ops run; that costs nothing. What costs
is the time from the last op to the value. When several values are awaited, it belongs to the one
that comes next, so at every instant a task waits for one thing at most.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from vizdist.analysis.kept import kept
from vizdist.analysis.recv_parts import never_came, value_at
from vizdist.analysis.step_split import is_wait, op_mask
from vizdist.store.segments import Array, Segment
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace


class _Task(NamedTuple):
    """When ops ran, as intervals in order that do not touch; when awaited values came."""

    starts: Array
    ends: Array
    arrivals: Array


_OF_SEGMENT: WeakKeyDictionary[Segment, dict[str, _Task]] = WeakKeyDictionary()


def idle_wait(trace: Trace, spans: Spans, came: Array | None = None) -> Array:
    """ns just before the value of each recv in which its task had nothing to run; 0 for others.

    `came` is when the values came, where that is known (`value_at`).
    """
    found = np.zeros(len(spans), np.int64)
    came = value_at(trace, spans) if came is None else came
    waits = np.flatnonzero(spans.is_kind("rendezvous.recv") & (came > spans.start))
    if not len(waits):
        return found
    known = _tasks(trace)
    owner = task_numbers(trace)[spans.row[waits]]
    for number in np.unique(owner):
        own = waits[owner == number]
        found[own] = _idle(known[trace.tasks[number]], spans.start[own], came[own])
    return found


class Stood(NamedTuple):
    """Of every recv its place, and between which instants its task stood still for it."""

    place: Array
    start: Array
    end: Array


def stood(trace: Trace, spans: Spans) -> Stood:
    """For which values tasks stood still, among `spans`."""
    place = np.flatnonzero(spans.is_kind("rendezvous.recv"))
    recvs = spans.take(place)
    came = np.clip(value_at(trace, recvs), recvs.start, recvs.end)
    return Stood(place, came - idle_wait(trace, recvs, came), came)


def task_numbers(trace: Trace) -> Array:
    """The place in `trace.tasks` of every row's task."""
    place = {task: number for number, task in enumerate(trace.tasks)}
    return np.array([place[row.task] for row in trace.rows], np.int64)


@kept()
def _tasks(trace: Trace) -> dict[str, _Task]:
    return _joined(map(_tasks_of, trace.segments))


def _tasks_of(segment: Segment) -> dict[str, _Task]:
    """Looked up once a segment, however often its trace grows."""
    known = _OF_SEGMENT.get(segment)
    if known is None:
        known = _OF_SEGMENT[segment] = _joined(_rows_of(segment))
    return known


def _rows_of(segment: Segment) -> Iterable[dict[str, _Task]]:
    columns = segment.columns
    ops = segment.is_kind("op.run") & ~op_mask(segment, is_wait)
    recvs = segment.is_kind("rendezvous.recv")
    known = columns["start"] + columns["wait"]
    instants = np.where(never_came(columns), columns["end"], known)
    linked = np.flatnonzero(recvs & (columns["link"] != 0))
    send = segment.places(columns["link"][linked])  # one in another segment is not looked for
    begun = np.where(send >= 0, columns["start"][send], 0)
    instants[linked] = np.maximum(instants[linked], begun)
    for row, low, high in zip(segment.rows, *segment.bounds, strict=True):
        start, end, value = (one[low:high] for one in (columns["start"], columns["end"], instants))
        run, came = ops[low:high], recvs[low:high] & (value > start)
        yield {row.task: _Task(start[run], end[run], value[came])}


def _joined(parts: Iterable[dict[str, _Task]]) -> dict[str, _Task]:
    """What is known of each task in several parts, together."""
    by_task: dict[str, list[_Task]] = defaultdict(list)
    for part in parts:
        for task, known in part.items():
            by_task[task].append(known)
    found = {}
    for task, several in by_task.items():
        starts, ends, arrivals = (np.concatenate(c) for c in zip(*several, strict=True))
        found[task] = _Task(*union(starts, ends), _distinct(arrivals))
    return found


def _distinct(instants: Array) -> Array:
    """In order, each once; `np.unique` takes a hundred times as long for millions of instants."""
    in_order: Array = np.sort(instants, kind="stable")
    return np.asarray(in_order[np.append(True, in_order[1:] != in_order[:-1])[: len(in_order)]])


def union(starts: Array, ends: Array) -> tuple[Array, Array]:
    """Intervals that touch or overlap become one."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    is_first = np.append(True, starts[1:] > ends[:-1])[: len(starts)]
    is_last = np.append(is_first[1:], True)[: len(starts)]
    return starts[is_first], ends[is_last]


def _idle(task: _Task, asked: Array, came: Array) -> Array:
    """From the last op, the value before or the request, whichever is latest, to the value."""
    begin = np.maximum(asked, _last_before(task.arrivals, task.arrivals, came))
    begin = np.maximum(begin, _last_before(task.starts, task.ends, came))
    idle: Array = np.maximum(came - begin, 0)
    return idle


def _last_before(instants: Array, values: Array, limit: Array) -> Array:
    """The value at the last of the sorted instants that lies before each limit; 0 if none does."""
    if not len(instants):
        return np.zeros(len(limit), np.int64)
    at = np.searchsorted(instants, limit) - 1
    found: Array = np.where(at >= 0, values[np.maximum(at, 0)], 0)
    return found
