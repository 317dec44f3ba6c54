"""What caches told of themselves: lookups one by one, and how often they were asked in all.

Both are read from the span files, once a trace.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from vizdist.analysis.kept import kept
from vizdist.store.segments import Array
from vizdist.store.trace import Trace

Key = tuple[str, str]  #: cache, task


class Lookups(NamedTuple):
    """Those of one cache: when, and whether it had what was asked for."""

    at: Array
    is_hit: Array


class Counts(NamedTuple):
    hits: int
    misses: int


@kept()
def lookups(trace: Trace) -> Mapping[Key, Lookups]:
    places = np.flatnonzero(trace.all.is_kind("cache.get"))
    attributes = trace.attributes(places.tolist())
    found: dict[Key, list[tuple[int, bool]]] = defaultdict(list)
    spans = trace.all.take(places)
    columns = (places, spans.text("name"), spans.task, spans.start)
    for place, name, task, start in zip(*(c.tolist() for c in columns), strict=True):
        is_hit = bool(attributes.get(place, {}).get("vizdist.cache.hit"))
        found[name, task].append((start, is_hit))
    return {
        key: Lookups(*(np.array(column) for column in zip(*told, strict=True)))
        for key, told in found.items()
    }


@kept()
def totals(trace: Trace) -> Mapping[Key, Counts]:
    """The last word of a cache counts, as it is told whenever a session ends."""
    places = np.flatnonzero(trace.all.is_kind("cache.total"))
    attributes = trace.attributes(places.tolist())
    spans = trace.all.take(places)
    found: dict[Key, Counts] = {}
    for at in spans.start.argsort(kind="stable").tolist():
        said = attributes.get(int(places[at]), {})
        counts = [int(said.get(f"vizdist.cache.{what}", 0)) for what in ("hits", "misses")]
        found[str(spans.text("name")[at]), str(spans.task[at])] = Counts(*counts)
    return found
