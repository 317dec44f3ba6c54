"""For which value a task stood still: the part of a recv's wait in which nothing else could run.

A recv that is asked for at the start of a step waits while ops run; that costs nothing. What costs
is the time from the last op to the value. When several values are awaited, it belongs to the one
that comes next, so at every instant a task waits for one thing at most.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace


class _Task(NamedTuple):
    """Op intervals by start, with the latest end so far; instants at which awaited values came."""

    starts: Array
    ends: Array
    arrivals: Array


_KNOWN: WeakKeyDictionary[Spans, tuple[_Task, ...]] = WeakKeyDictionary()


def idle_wait(trace: Trace, spans: Spans) -> Array:
    """ns just before the value of each recv in which its task had nothing to run; 0 for others."""
    known = _KNOWN.get(trace.all)
    if known is None:
        known = _KNOWN[trace.all] = _index(trace)
    found = np.zeros(len(spans), np.int64)
    waits = spans.is_kind("rendezvous.recv") & (spans.wait > 0)
    owner = task_numbers(trace)[spans.row]
    for number in np.unique(owner[waits]):
        own = waits & (owner == number)
        found[own] = _idle(known[number], spans.start[own], spans.start[own] + spans.wait[own])
    return found


def task_numbers(trace: Trace) -> Array:
    """The place in `trace.tasks` of every row's task."""
    place = {task: number for number, task in enumerate(trace.tasks)}
    return np.array([place[row.task] for row in trace.rows], np.int64)


def _index(trace: Trace) -> tuple[_Task, ...]:
    spans = trace.all
    owner = task_numbers(trace)[spans.row]
    ops = spans.is_kind("op.run")
    waits = spans.is_kind("rendezvous.recv") & (spans.wait > 0)
    found = []
    for number in range(len(trace.tasks)):
        own = np.flatnonzero(ops & (owner == number))
        own = own[np.argsort(spans.start[own], kind="stable")]
        ends = np.maximum.accumulate(spans.end[own])
        awaited = waits & (owner == number)
        arrivals = np.unique(spans.start[awaited] + spans.wait[awaited])
        found.append(_Task(spans.start[own], ends, arrivals))
    return tuple(found)


def _idle(task: _Task, asked: Array, came: Array) -> Array:
    """From the last op, the value before or the request, whichever is latest, to the value."""
    begin = np.maximum(asked, _last_before(task.arrivals, task.arrivals, came))
    begin = np.maximum(begin, _last_before(task.starts, task.ends, came))
    idle: Array = np.maximum(came - begin, 0)
    return idle


def _last_before(instants: Array, values: Array, limit: Array) -> Array:
    """The value at the last of the sorted instants that lies before each limit; 0 if none does."""
    at = np.searchsorted(instants, limit) - 1
    found: Array = np.where(at >= 0, np.append(values, 0)[at], 0)
    return found
