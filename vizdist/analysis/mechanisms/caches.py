"""What caches answered: whether a step's graph was known, and hits and misses task by task."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.i18n import Lang, t

Key = tuple[str, str]  # task, cache


@dataclass(frozen=True, slots=True)
class Cache:
    """`hits` and `misses` that were recorded one by one, until the step's end.

    What is asked in every step is only counted: `run_hits` and `run_misses` are of the whole run,
    None where nobody told them.
    """

    task: str
    cache: str
    hits: int = 0
    misses: int = 0
    run_hits: int | None = None
    run_misses: int | None = None


@dataclass(frozen=True, slots=True)
class Caches:
    """`graph_hit`: the master had cut and registered the step's graph before; None: not told."""

    graph_hit: bool | None
    caches: Sequence[Cache]


def find(one: OneStep) -> Caches | None:
    """None where no cache told what it answered."""
    roots = one.attributes(one.spans.is_kind("session.run"))
    graph_hit = roots[0].get("vizdist.cache.hit") if roots else None
    found = _asked(one)
    for key, hits, misses in _totals(one):
        known = found.get(key, Cache(*key))
        found[key] = replace(known, run_hits=hits, run_misses=misses)
    if not found and graph_hit is None:
        return None
    return Caches(graph_hit, [found[key] for key in sorted(found)])


def _asked(one: OneStep) -> dict[Key, Cache]:
    spans = one.trace.all
    places = np.flatnonzero(spans.is_kind("cache.get") & (spans.start < one.step.end))
    attributes = one.trace.attributes(places.tolist())
    asked = spans.take(places)
    names = zip(asked.task.tolist(), asked.text("name").tolist(), strict=True)
    found: dict[Key, Cache] = {}
    for place, key in zip(places.tolist(), names, strict=True):
        known = found.get(key, Cache(*key))
        is_hit = bool(attributes.get(place, {}).get("vizdist.cache.hit"))
        found[key] = replace(known, hits=known.hits + is_hit, misses=known.misses + (not is_hit))
    return found


def _totals(one: OneStep) -> Iterator[tuple[Key, int, int]]:
    """By time: the last word of a cache counts, as it is told whenever a session ends."""
    spans = one.trace.all
    places = np.flatnonzero(spans.is_kind("cache.total"))
    attributes = one.trace.attributes(places.tolist())
    told = spans.take(places)
    for at in told.start.argsort(kind="stable").tolist():
        said = attributes.get(int(places[at]), {})
        hits, misses = (int(said.get(f"vizdist.cache.{what}", 0)) for what in ("hits", "misses"))
        yield (str(told.task[at]), str(told.text("name")[at])), hits, misses


def tell(found: Caches, lang: Lang) -> Iterator[str]:
    if found.graph_hit is not None:
        key = "graph_hit" if found.graph_hit else "graph_miss"
        yield f"  {t(f'mechanisms.caches.{key}', lang)}"
    columns = ("cache", "task", "hits", "misses", "run_hits", "run_misses")
    if found.caches:
        yield from table(columns, map(_cells, found.caches), lang)


def _cells(cache: Cache) -> Sequence[object]:
    so_far = (cache.hits, cache.misses) if cache.hits or cache.misses else ("", "")
    whole = ("" if n is None else n for n in (cache.run_hits, cache.run_misses))
    return cache.cache, cache.task, *so_far, *whole
