"""What each cache answered, step by step: where it missed, and how often it was asked in all."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

MOST = 20  #: steps side by side
#: From the wire to the kernel, as a step meets them; caches of other names come behind.
ORDER = (
    "channel", "worker_stub", "device_status", "client_graph", "graph_handle", "kernel",
    "rendezvous", "recv_call", "recv_response",
)  # fmt: skip
_GRAPHS = "client_graph"  #: what it answered is told by every step as well

Cell = Literal["miss", "hit", "counted", ""]


@dataclass(frozen=True, slots=True)
class Strip:
    """One cache of all tasks. A cell a step; none where its lookups are only counted.

    `miss`: at least one was recorded for the step, in it or in what came before it since the last
    one; `hit`: it was asked and had everything; `counted`: it may have been asked, and its counts
    leave no miss that was not recorded elsewhere; "": nothing is known.
    """

    cache: str
    cells: Sequence[Cell]
    hits: int
    misses: int


@dataclass(frozen=True, slots=True)
class CacheStrips:
    steps: Sequence[int]
    strips: Sequence[Strip]


class _Asked(NamedTuple):
    """Lookups that were recorded one by one: when, and whether the cache had it."""

    at: Array
    is_hit: Array


_ASKED: WeakKeyDictionary[Spans, dict[str, _Asked]] = WeakKeyDictionary()


def cache_strips(trace: Trace, step: StepInfo) -> CacheStrips:
    """The steps of one client around this one."""
    own = [one for one in trace.steps if one.task == step.task]
    steps = sorted(own, key=lambda one: one.end)
    first = max(0, min(steps.index(step) - MOST // 2, len(steps) - MOST))
    shown = steps[first : first + MOST]
    asked, totals = _asked(trace), _totals(trace)
    reused = _reused_graphs(trace, shown)
    names = sorted(asked.keys() | totals.keys(), key=_rank)
    strips = [
        _strip(name, asked.get(name), totals.get(name), steps, shown, reused) for name in names
    ]
    return CacheStrips([one.number for one in shown], strips)


def _rank(name: str) -> tuple[int, str]:
    return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def _asked(trace: Trace) -> Mapping[str, _Asked]:
    """Looked up once a trace, as attributes are read from the span files."""
    known = _ASKED.get(trace.all)
    if known is None:
        places = np.flatnonzero(trace.all.is_kind("cache.get"))
        attributes = trace.attributes(places.tolist())
        found: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        spans = trace.all.take(places)
        rows = zip(places.tolist(), spans.text("name").tolist(), spans.start.tolist(), strict=True)
        for place, name, start in rows:
            is_hit = bool(attributes.get(place, {}).get("vizdist.cache.hit"))
            found[name].append((start, is_hit))
        known = {
            name: _Asked(*(np.array(column) for column in zip(*told, strict=True)))
            for name, told in found.items()
        }
        _ASKED[trace.all] = known
    return known


def _totals(trace: Trace) -> Mapping[str, tuple[int, int]]:
    """Hits and misses of a cache over all tasks; of each the last word, told as sessions end."""
    places = np.flatnonzero(trace.all.is_kind("cache.total"))
    attributes = trace.attributes(places.tolist())
    spans = trace.all.take(places)
    last: dict[tuple[str, str], tuple[int, int]] = {}
    for at in spans.start.argsort(kind="stable").tolist():
        said = attributes.get(int(places[at]), {})
        counts = [int(said.get(f"vizdist.cache.{what}", 0)) for what in ("hits", "misses")]
        last[str(spans.text("name")[at]), str(spans.task[at])] = counts[0], counts[1]
    found: dict[str, tuple[int, int]] = {}
    for (name, _), (hits, misses) in last.items():
        before = found.get(name, (0, 0))
        found[name] = before[0] + hits, before[1] + misses
    return found


def _reused_graphs(trace: Trace, steps: Sequence[StepInfo]) -> Mapping[int, bool]:
    """Whether a step's graph was cut and registered before, by the step's root span."""
    places = trace.places(np.array([step.span for step in steps], np.uint64)).tolist()
    said = trace.attributes(place for place in places if place >= 0)
    return {
        step.span: bool(said[place]["vizdist.cache.hit"])
        for step, place in zip(steps, places, strict=True)
        if "vizdist.cache.hit" in said.get(place, {})
    }


def _strip(
    name: str, asked: _Asked | None, total: tuple[int, int] | None, steps: Sequence[StepInfo],
    shown: Sequence[StepInfo], reused: Mapping[int, bool],
) -> Strip:  # fmt: skip
    if asked is None:
        return Strip(name, (), *(total or (0, 0)))
    hits, misses = int(asked.is_hit.sum()), int((~asked.is_hit).sum())
    hits_in, misses_in = _by_step(asked, steps)
    is_all_told = total is not None and total[1] <= misses and total[0] > hits
    first = steps.index(shown[0])
    cells: list[Cell] = []
    for at, step in enumerate(shown, first):
        told = reused.get(step.span) if name == _GRAPHS else None
        if misses_in[at] or told is False:
            cells.append("miss")
        elif hits_in[at] or told:
            cells.append("hit")
        else:
            cells.append("counted" if is_all_told else "")
    return Strip(name, cells, *(total or (hits, misses)))


def _by_step(asked: _Asked, steps: Sequence[StepInfo]) -> tuple[Array, Array]:
    """Hits and misses by step; what came between two steps made the second one ready."""
    at = np.searchsorted(np.array([step.end for step in steps]), asked.at)
    counts = [
        np.bincount(at[mask], minlength=len(steps) + 1) for mask in (asked.is_hit, ~asked.is_hit)
    ]
    return counts[0], counts[1]
