"""What the caches of a run had answered by the end of a step: hits and misses, task by task."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.i18n import Lang
from vizdist.i18n.units import figures


@dataclass(frozen=True, slots=True)
class Cache:
    """`in_step` counts what was asked within the step, of `hits` and `misses` up to its end.

    What is asked in every step is counted for the whole run, and told when it ends: `is_total`.
    """

    task: str
    cache: str
    hits: int = 0
    misses: int = 0
    in_step: int = 0
    is_total: bool = False


@dataclass(frozen=True, slots=True)
class Caches:
    caches: Sequence[Cache]


def find(one: OneStep) -> Caches | None:
    """None where no cache told what it answered."""
    found = {**_asked(one), **_totals(one)}
    return Caches([found[key] for key in sorted(found)]) if found else None


def _asked(one: OneStep) -> dict[tuple[str, str], Cache]:
    spans = one.trace.all
    places = np.flatnonzero(spans.is_kind("cache.get") & (spans.start < one.step.end))
    attributes = one.trace.attributes(places.tolist())
    asked = spans.take(places)
    columns = zip(
        places.tolist(), asked.task.tolist(), asked.text("name").tolist(),
        (asked.trace_lo == one.step.trace_lo).tolist(), strict=True,
    )  # fmt: skip
    found: dict[tuple[str, str], Cache] = {}
    for place, task, name, is_inside in columns:
        known = found.get((task, name), Cache(task, name))
        is_hit = bool(attributes.get(place, {}).get("vizdist.cache.hit"))
        found[task, name] = replace(
            known,
            hits=known.hits + is_hit,
            misses=known.misses + (not is_hit),
            in_step=known.in_step + is_inside,
        )
    return found


def _totals(one: OneStep) -> dict[tuple[str, str], Cache]:
    """The last word of each; a task tells them as often as a session ends."""
    spans = one.trace.all
    places = np.flatnonzero(spans.is_kind("cache.total"))
    attributes = one.trace.attributes(places.tolist())
    told = spans.take(places)
    found: dict[tuple[str, str], Cache] = {}
    for at in told.start.argsort(kind="stable").tolist():
        task, name = str(told.task[at]), str(told.text("name")[at])
        said = attributes.get(int(places[at]), {})
        hits, misses = (int(said.get(f"vizdist.cache.{what}", 0)) for what in ("hits", "misses"))
        found[task, name] = Cache(task, name, hits, misses, is_total=True)
    return found


def tell(found: Caches, lang: Lang) -> Iterator[str]:
    columns = ("cache", "task", "hits", "misses", "rate")
    yield from table(columns, map(_cells, found.caches), lang)


def _cells(cache: Cache) -> Sequence[object]:
    asked = cache.hits + cache.misses
    rate = f"{figures(100 * cache.hits / asked)} %" if asked else ""
    return cache.cache, cache.task, cache.hits, cache.misses, rate
