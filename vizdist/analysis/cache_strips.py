"""What each cache answered, step by step: where it missed, and how often it was asked in all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vizdist.analysis.cache_lookups import Counts, Lookups, lookups, totals
from vizdist.store.segments import Array
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


def cache_strips(trace: Trace, step: StepInfo) -> CacheStrips:
    """The steps of one client around this one."""
    own = [one for one in trace.steps if one.task == step.task]
    steps = sorted(own, key=lambda one: one.end)
    first = max(0, min(steps.index(step) - MOST // 2, len(steps) - MOST))
    shown = range(first, min(first + MOST, len(steps)))
    asked, counted = lookups(trace), totals(trace)
    reused = _reused_graphs(trace, [steps[at] for at in shown])
    strips = []
    for name in sorted({name for name, _ in asked.keys() | counted.keys()}, key=_rank):
        here = {task: told for (cache, task), told in asked.items() if cache == name}
        told = {task: counts for (cache, task), counts in counted.items() if cache == name}
        strips.append(_strip(name, here, told, steps, shown, reused))
    return CacheStrips([steps[at].number for at in shown], strips)


def _rank(name: str) -> tuple[int, str]:
    return (ORDER.index(name) if name in ORDER else len(ORDER)), name


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
    name: str, asked: Mapping[str, Lookups], told: Mapping[str, Counts],
    steps: Sequence[StepInfo], shown: range, reused: Mapping[int, bool],
) -> Strip:  # fmt: skip
    """`asked` and `told` are by task; one that never told its counts has those recorded."""
    seen = {
        task: Counts(int(one.is_hit.sum()), int((~one.is_hit).sum())) for task, one in asked.items()
    }
    counts = {**seen, **told}.values()
    hits, misses = sum(one.hits for one in counts), sum(one.misses for one in counts)
    if not asked:
        return Strip(name, (), hits, misses)
    is_all_told = told.keys() >= seen.keys() and misses <= sum(one.misses for one in seen.values())
    is_counted = is_all_told and hits > sum(one.hits for one in seen.values())
    hits_in, misses_in = (sum(part) for part in zip(*_by_steps(asked, steps), strict=True))
    cells: list[Cell] = []
    for at in shown:
        graph = reused.get(steps[at].span) if name == _GRAPHS else None
        if misses_in[at] or graph is False:
            cells.append("miss")
        elif hits_in[at] or graph:
            cells.append("hit")
        else:
            cells.append("counted" if is_counted else "")
    return Strip(name, cells, hits, misses)


def _by_steps(
    asked: Mapping[str, Lookups], steps: Sequence[StepInfo]
) -> Iterator[tuple[Array, Array]]:
    """Hits and misses by step, of each task; what came between two made the second one ready."""
    ends = np.array([step.end for step in steps])
    for one in asked.values():
        at = np.searchsorted(ends, one.at, "right")
        hits, misses = (
            np.bincount(at[mask], minlength=len(steps) + 1) for mask in (one.is_hit, ~one.is_hit)
        )
        yield hits, misses
