"""What each cache answered, step by step: where it missed, and how often it was asked in all."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vizdist.analysis.cache_lookups import (
    Counts,
    Lookups,
    Total,
    lookups,
    sessions_of,
    summed,
    told_totals,
)
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
    leave no miss that was not recorded elsewhere; "": nothing is known. `hits` and `misses` are of
    the whole run, cells of this client alone.
    """

    cache: str
    cells: Sequence[Cell]
    hits: int
    misses: int


@dataclass(frozen=True, slots=True)
class CacheStrips:
    """`is_apart`: steps between the first one and the next are left out."""

    steps: Sequence[int]
    strips: Sequence[Strip]
    is_apart: bool = False


def cache_strips(trace: Trace, step: StepInfo) -> CacheStrips:
    """The steps of one client around this one, and its first, in which the caches were cold."""
    own = [one for one in trace.steps if one.task == step.task]
    steps = sorted(own, key=lambda one: one.end)
    first = max(0, min(steps.index(step) - MOST // 2, len(steps) - MOST))
    cold = range(min(1, first))
    shown = [*cold, *range(first + len(cold), min(first + MOST, len(steps)))]
    asked, counted = lookups(trace), told_totals(trace)
    client = _Client(trace, step.task, steps, shown)
    strips = []
    names = {name for name, _ in asked} | {total.cache for total in counted}
    for name in sorted(names, key=_rank):
        here = {task: told for (cache, task), told in asked.items() if cache == name}
        strips.append(_strip(name, here, [one for one in counted if one.cache == name], client))
    return CacheStrips([steps[at].number for at in shown], strips, is_apart=bool(cold))


class _Client:
    """Whose steps are shown, and which lookups were made for it."""

    def __init__(
        self, trace: Trace, task: str, steps: Sequence[StepInfo], shown: Sequence[int]
    ) -> None:
        self.steps, self.shown = steps, shown
        self.reused = _reused_graphs(trace, [steps[at] for at in shown])
        self.is_alone = all(step.task == task for step in trace.steps)
        self._task = task
        self._sessions = sessions_of(trace, [steps[at] for at in shown])
        self._traces = np.array([step.trace_lo for step in trace.steps], np.uint64)
        self._own = np.array([step.trace_lo for step in steps], np.uint64)

    def has(self, session: str) -> bool:
        return self.is_alone or not session or session in self._sessions

    def own(self, task: str, told: Lookups) -> Lookups:
        """Those in its steps or for its sessions; where neither is known, those of its task."""
        if self.is_alone:
            return told
        in_steps = np.isin(told.trace_lo, self._traces)
        here = np.full(len(told.at), task == self._task)
        is_own = np.where(told.session == "", here, np.isin(told.session, list(self._sessions)))
        mask = np.where(in_steps, np.isin(told.trace_lo, self._own), is_own)
        return Lookups(*(column[mask] for column in told))


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
    name: str, asked: Mapping[str, Lookups], told: Sequence[Total], client: _Client
) -> Strip:
    """`asked` is by task; one that never told its counts has those recorded."""
    seen = _counts_of(asked)
    hits, misses = map(sum, zip(*{**seen, **_by_task(told)}.values(), strict=True))
    if not asked:
        return Strip(name, (), hits, misses)
    own = {task: client.own(task, lookups) for task, lookups in asked.items()}
    of_client = _by_task(one for one in told if client.has(one.session))
    is_counted = _leaves_only_hits(_counts_of(own), of_client)
    hits_in, misses_in = (sum(part) for part in zip(*_by_steps(own, client.steps), strict=True))
    cells: list[Cell] = []
    for at in client.shown:
        graph = client.reused.get(client.steps[at].span) if name == _GRAPHS else None
        if misses_in[at] or graph is False:
            cells.append("miss")
        elif hits_in[at] or graph:
            cells.append("hit")
        else:
            cells.append("counted" if is_counted else "")
    return Strip(name, cells, hits, misses)


def _counts_of(asked: Mapping[str, Lookups]) -> dict[str, Counts]:
    return {
        task: Counts(int(one.is_hit.sum()), int((~one.is_hit).sum()))
        for task, one in asked.items()
        if len(one.at)
    }


def _by_task(told: Iterable[Total]) -> dict[str, Counts]:
    return {task: counts for (_, task), counts in summed(told).items()}


def _leaves_only_hits(seen: Mapping[str, Counts], told: Mapping[str, Counts]) -> bool:
    """Whether tasks counted more hits than were recorded, and not one miss more."""
    (hits, misses), (seen_hits, seen_misses) = (
        (sum(one.hits for one in counts), sum(one.misses for one in counts))
        for counts in (told.values(), seen.values())
    )
    return told.keys() >= seen.keys() and misses <= seen_misses and hits > seen_hits


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
