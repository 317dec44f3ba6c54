"""What caches told of themselves: lookups one by one, and how often they were asked in all.

Both are read from the span files, once a trace.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from vizdist.analysis.kept import kept
from vizdist.store.segments import Array
from vizdist.store.trace import StepInfo, Trace

Key = tuple[str, str]  #: cache, task

_HANDLE = "vizdist.session.handle"
_DEPTH = 8  #: spans around a lookup that are asked for its session


class Lookups(NamedTuple):
    """Those of one cache: when, whether it had what was asked for, and for whom.

    `session` is the handle of the session that asked, "" where none is known; `trace_lo` is that
    of the step, of the run outside steps.
    """

    at: Array
    is_hit: Array
    session: Array
    trace_lo: Array


class Counts(NamedTuple):
    hits: int
    misses: int


class Total(NamedTuple):
    """What a cache of a task came to; `session` is the handle of its owner, "": all share it."""

    cache: str
    task: str
    session: str
    counts: Counts


@kept()
def lookups(trace: Trace) -> Mapping[Key, Lookups]:
    places = np.flatnonzero(trace.all.is_kind("cache.get"))
    attributes = trace.told(places)
    sessions = _sessions(trace, places, attributes)
    found: dict[Key, list[tuple[int, bool, str, int]]] = defaultdict(list)
    spans = trace.all.take(places)
    columns = (places, spans.text("name"), spans.task, spans.start, spans.trace_lo)
    for place, name, task, start, lo in zip(*(c.tolist() for c in columns), strict=True):
        is_hit = bool(attributes.get(place, {}).get("vizdist.cache.hit"))
        found[name, task].append((start, is_hit, sessions.get(place, ""), lo))
    types = (np.int64, np.bool_, np.str_, np.uint64)
    return {
        key: Lookups(*map(np.array, zip(*told, strict=True), types)) for key, told in found.items()
    }


def _sessions(
    trace: Trace, places: Array, attributes: Mapping[int, Mapping[str, object]]
) -> Mapping[int, str]:
    """The session of each lookup: told by itself, or by what it lies in."""
    found: dict[int, str] = {}
    around = dict(zip(places.tolist(), places.tolist(), strict=True))
    for _ in range(_DEPTH):
        for place, outer in around.items():
            if handle := attributes.get(outer, {}).get(_HANDLE):
                found[place] = str(handle)
        asking = [place for place in around if place not in found]
        parents = trace.places(trace.all.parent[[around[place] for place in asking]]).tolist()
        around = {place: up for place, up in zip(asking, parents, strict=True) if up >= 0}
        if not around:
            break
        attributes = trace.attributes(set(around.values()))
    return found


def sessions_of(trace: Trace, steps: Iterable[StepInfo]) -> set[str]:
    """Handles of the sessions in which steps ran, by their root spans."""
    places = trace.places(np.array([step.span for step in steps], np.uint64))
    told = trace.attributes(places[places >= 0].tolist()).values()
    return {str(said[_HANDLE]) for said in told if _HANDLE in said}


@kept()
def told_totals(trace: Trace) -> list[Total]:
    """Of a session's own caches what it told at its end; of a task's the count over its lives.

    A task tells again whenever a session ends. It counts on from what it told before, unless it
    was started anew: then its count has fallen, and what it told before is added.
    """
    places = np.flatnonzero(trace.all.is_kind("cache.total"))
    attributes = trace.attributes(places.tolist())
    spans = trace.all.take(places)
    names, tasks = spans.text("name"), spans.task
    found: dict[tuple[str, str, str], list[Counts]] = defaultdict(list)
    for at in spans.start.argsort(kind="stable").tolist():
        said = attributes.get(int(places[at]), {})
        counts = Counts(*(int(said.get(f"vizdist.cache.{of}", 0)) for of in ("hits", "misses")))
        found[str(names[at]), str(tasks[at]), str(said.get(_HANDLE, ""))].append(counts)
    return [Total(*key, _over_lives(told)) for key, told in found.items()]


def _over_lives(told: Iterable[Counts]) -> Counts:
    hits = misses = 0
    last = Counts(0, 0)
    for now in told:
        is_anew = now.hits < last.hits or now.misses < last.misses
        before = Counts(0, 0) if is_anew else last
        hits, misses = hits + now.hits - before.hits, misses + now.misses - before.misses
        last = now
    return Counts(hits, misses)


def summed(told: Iterable[Total]) -> Mapping[Key, Counts]:
    """By cache and task, over all sessions."""
    found: dict[Key, Counts] = {}
    for cache, task, _, (hits, misses) in told:
        known = found.get((cache, task), Counts(0, 0))
        found[cache, task] = Counts(known.hits + hits, known.misses + misses)
    return found


def totals(trace: Trace) -> Mapping[Key, Counts]:
    return summed(told_totals(trace))
