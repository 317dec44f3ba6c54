"""The collectives of a run: who arrived when, who waited for whom, what every hop carried.

Ranks are joined by the execution that all of them recorded, never by time. A rank's span begins
when it arrives; until all have come it waits, and the rest is transfer, hop after hop.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.kept import kept
from vizdist.analysis.keys import HOP, is_rank
from vizdist.store.details import hex_id
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace

_PREFIX = "collective."
_OWN = "vizdist.collective."


@dataclass(frozen=True, slots=True)
class Hop:
    """One piece that a rank got: it waited for it, then took it over. Times as in the trace."""

    phase: str
    chunk: int
    sender: int
    receiver: int
    start: int
    wait_ns: int
    end: int
    bytes: int
    key: str  #: under which it was asked for
    span: str  #: id


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of one execution; `sent_bytes` were counted by the transport."""

    number: int
    task: str
    device: str  #: as lanes call it: CPU:0
    place: str  #: the whole name of the device
    arrived: int
    wait_ns: int
    end: int
    sent_bytes: int
    is_whole: bool
    is_failed: bool
    span: str

    @property
    def transfer_ns(self) -> int:
        return max(self.end - self.arrived - self.wait_ns, 0)

    @property
    def title(self) -> str:
        return f"{self.task} / {self.device}"


@dataclass(frozen=True)
class Collective:
    """One execution. `of` says what was reduced, `num_ranks` how many had to come."""

    step: int
    kind: str  #: all_reduce, all_gather, broadcast
    group: str
    instance: str
    algorithm: str
    op: str
    of: str
    tensor_bytes: int
    num_ranks: int
    ranks: tuple[Rank, ...]  #: that came, by number

    @cached_property
    def met(self) -> int:
        """When the last of those that came had come."""
        return max(rank.arrived for rank in self.ranks)

    @cached_property
    def end(self) -> int:
        return max(rank.end for rank in self.ranks)

    @property
    def missing(self) -> list[int]:
        came = {rank.number for rank in self.ranks}
        return [number for number in range(self.num_ranks) if number not in came]

    @cached_property
    def last(self) -> Rank:
        """The rank that all others waited for."""
        return max(self.ranks, key=lambda rank: (rank.arrived, rank.number))

    @property
    def lateness(self) -> Mapping[int, int]:
        """Rank → ns after the first one came."""
        first = min(rank.arrived for rank in self.ranks)
        return {rank.number: rank.arrived - first for rank in self.ranks}

    @property
    def lost_ns(self) -> int:
        """What all others would have gained, had the last one come with the next to last."""
        arrivals = sorted(rank.arrived for rank in self.ranks)
        return arrivals[-1] - arrivals[-2] if len(arrivals) > 1 else 0


def has_collectives(trace: Trace) -> bool:
    return any(kind.startswith(_PREFIX) for kind in trace.all.words["kind"])


@kept()
def collectives(trace: Trace) -> tuple[Collective, ...]:
    """All that ran in steps, by step and by time."""
    return _joined(trace, _rank_places(trace))


@kept(4)
def of_step(trace: Trace, number: int) -> tuple[Collective, ...]:
    """The collectives of one step, in the order in which all had arrived."""
    places = _rank_places(trace)
    return _joined(trace, places[trace.all.take(places).step == number])


@kept()
def clients_meet(trace: Trace) -> bool:
    """Whether clients take each step together: ranks of one collective lie in several tasks."""
    steps = trace.all.take(_rank_places(trace)).step
    first = of_step(trace, int(steps[steps > 0][0])) if (steps > 0).any() else ()
    return any(len({rank.task for rank in one.ranks}) > 1 for one in first)


def _rank_places(trace: Trace) -> Array:
    kinds = [*filter(is_rank, trace.all.words["kind"])]
    return np.flatnonzero(trace.all.is_kind(*kinds)) if kinds else np.empty(0, np.int64)


def _joined(trace: Trace, places: Array) -> tuple[Collective, ...]:
    """Ranks that recorded one execution; what they say of it is read from the span files."""
    told = trace.told(places)
    joined: dict[tuple[str, ...], list[tuple[int, Rank]]] = defaultdict(list)
    own = trace.all.take(places)
    kind_of, tasks, lanes = own.text("kind"), own.task, own.lane
    for at, place in enumerate(places.tolist()):
        attributes = told.get(place, {})
        rank = _rank(own, at, str(tasks[at]), str(lanes[at]), attributes)
        key = (str(int(own.step[at])), str(kind_of[at]), *_identity(attributes))
        joined[key].append((place, rank))
    found = [_collective(key, members, told) for key, members in joined.items()]
    return tuple(sorted(found, key=lambda one: (one.step, one.met)))


def _identity(attributes: Mapping[str, Any]) -> tuple[str, str, str]:
    names = ("group", "instance", "execution")
    group, instance, execution = (str(attributes.get(_OWN + name, "")) for name in names)
    return group, instance, execution


def _rank(own: Spans, at: int, task: str, lane: str, attributes: Mapping[str, Any]) -> Rank:
    flags = int(own.flags[at])
    return Rank(
        number=int(attributes.get(_OWN + "rank", 0)),
        task=task,
        device=lane.rpartition(" ")[2],
        place=str(attributes.get("vizdist.device", "")),
        arrived=int(own.start[at]),
        wait_ns=int(own.wait[at]),
        end=int(own.end[at]),
        sent_bytes=int(own.bytes[at]),
        is_whole=not flags & Flag.UNFINISHED,
        is_failed=bool(flags & Flag.ERROR),
        span=hex_id(int(own.span[at])),
    )


def _collective(
    key: tuple[str, ...],
    members: Iterable[tuple[int, Rank]],
    told: Mapping[int, Mapping[str, Any]],
) -> Collective:
    step, kind, group, instance, _ = key
    places, ranks = zip(*members, strict=True)
    first: Mapping[str, Any] = told.get(places[0], {})
    return Collective(
        step=int(step),
        kind=kind.removeprefix(_PREFIX),
        group=group,
        instance=instance,
        algorithm=str(first.get(_OWN + "algorithm", "")),
        op=str(first.get(_OWN + "op", "")),
        of=str(first.get(_OWN + "of", "")),
        tensor_bytes=max(int(told.get(p, {}).get("vizdist.tensor.bytes", 0)) for p in places),
        num_ranks=int(first.get(_OWN + "num_ranks", len(ranks))),
        ranks=tuple(sorted(ranks, key=lambda rank: rank.number)),
    )


def hops_of(trace: Trace, ranks: Iterable[Rank]) -> Mapping[str, Sequence[Hop]]:
    """Span of a rank → its hops, by time. Their attributes are read from the span files."""
    meant = np.array([int(rank.span, 16) for rank in ranks], np.uint64)
    is_meant = trace.all.is_kind(HOP) & np.isin(trace.all.parent, meant)
    places = np.flatnonzero(is_meant)
    told = trace.attributes(places.tolist())
    own = trace.all.take(places)
    keys = own.text("key")
    found: dict[str, list[Hop]] = defaultdict(list)
    for at, place in sorted(enumerate(places.tolist()), key=lambda one: int(own.start[one[0]])):
        attributes = told.get(place, {})
        numbers = {n: int(attributes.get(_OWN + n, 0)) for n in ("chunk", "sender", "receiver")}
        hop = Hop(
            phase=str(attributes.get(_OWN + "phase", "")),
            start=int(own.start[at]),
            wait_ns=int(own.wait[at]),
            end=int(own.end[at]),
            bytes=int(own.bytes[at]),
            key=str(keys[at]),
            span=hex_id(int(own.span[at])),
            **numbers,
        )
        found[hex_id(int(own.parent[at]))].append(hop)
    return found


@dataclass(frozen=True, slots=True)
class Late:
    """How late each rank came to a step's collectives, and who was last most.

    `after_ns`: rank → ns after the first one, in that collective of the step whose last rank came
    furthest behind the one before it; `lost_ns`: what that rank cost over the step's collectives.
    """

    step: int
    after_ns: Mapping[int, int]
    last: int
    lost_ns: int


@kept()
def lateness(trace: Trace) -> tuple[Late, ...]:
    """A row for every step with a collective of two or more ranks, by number."""
    by_step: dict[int, list[Collective]] = defaultdict(list)
    for one in collectives(trace):
        if len(one.ranks) > 1:
            by_step[one.step].append(one)
    return tuple(_late(step, found) for step, found in sorted(by_step.items()))


def _late(step: int, found: Sequence[Collective]) -> Late:
    apart = max(found, key=lambda one: one.lost_ns)
    lost = sum(one.lost_ns for one in found if one.last.number == apart.last.number)
    return Late(step, apart.lateness, apart.last.number, lost)


@dataclass(frozen=True, slots=True)
class Latest:
    """The rank that came last in most steps."""

    rank: int
    steps: int  #: in which it was the last
    of: int  #: steps
    lost_ns: int  #: in those, together
    ranks: int  #: that took part

    @property
    def stands_out(self) -> bool:
        """Whether chance would name some rank so often in less than one run of twenty."""
        by_chance = sum(
            comb(self.of, n) * (self.ranks - 1) ** (self.of - n)
            for n in range(self.steps, self.of + 1)
        )
        return bool(20 * self.ranks * by_chance < self.ranks**self.of)


def latest(rows: Sequence[Late]) -> Latest | None:
    """None without rows. Of two that were last as often it is the one that cost more."""
    if not rows:
        return None
    often = Counter(row.last for row in rows)
    lost = {rank: sum(row.lost_ns for row in rows if row.last == rank) for rank in often}
    rank = max(often, key=lambda one: (often[one], lost[one]))
    ranks = len({one for row in rows for one in row.after_ns})
    return Latest(rank, often[rank], len(rows), lost[rank], ranks)


def formula_bytes(one: Collective) -> float | None:
    """What the closed form says that each rank sends: 2(n-1)/n of the tensor on a ring."""
    n = one.num_ranks
    if one.kind == "all_reduce" and one.algorithm == "ring" and n:
        return 2 * (n - 1) / n * one.tensor_bytes
    return None
