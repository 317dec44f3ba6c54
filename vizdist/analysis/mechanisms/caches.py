"""What caches answered: whether a step's graph was known, and hits and misses task by task."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vizdist.analysis.cache_lookups import lookups, totals
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
    for (cache, task), counts in totals(one.trace).items():
        known = found.get((task, cache), Cache(task, cache))
        run_hits, run_misses = counts
        found[task, cache] = replace(known, run_hits=run_hits, run_misses=run_misses)
    if not found and graph_hit is None:
        return None
    return Caches(graph_hit, [found[key] for key in sorted(found)])


def _asked(one: OneStep) -> dict[Key, Cache]:
    found = {}
    for (cache, task), own in lookups(one.trace).items():
        is_hit = own.is_hit[own.at < one.step.end]
        if len(is_hit):
            hits = int(is_hit.sum())
            found[task, cache] = Cache(task, cache, hits, len(is_hit) - hits)
    return found


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
