"""One collective as assets/collectives.mjs draws it: arrivals to scale, and the chunks hop by hop.

Times count from the first step that holds it, in ns.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vizdist.analysis.collectives import Collective, Hop, Rank, hops_of
from vizdist.figures.call_lines import time_text
from vizdist.figures.lanes import Json, bar, lane, picture, work_bars
from vizdist.i18n import Lang, t
from vizdist.i18n.units import size
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

REDUCING = frozenset({"reduce_scatter", "up"})  #: phases in which a piece is summed, not copied
FEW = 2  #: hops at once that are told one by one


def picture_of(trace: Trace, one: Collective, lang: Lang) -> Json:
    steps = _steps(trace, one)
    begin = min([step.start for step in steps] or [one.met])
    end = max([step.end for step in steps] + [one.end])
    busy = trace.all.take(_places(trace, steps))
    busy = busy.take(busy.is_kind("op.run"))
    hops = hops_of(trace, one.ranks)
    rounds = rounds_of(one, hops)
    return {
        "arrival": picture(
            end - begin,
            [_arrival(rank, busy, (begin, end), lang) for rank in one.ranks],
            marks=[{"at": one.met - begin, "text": t("collectives.met", lang)}],
        ),
        "ranks": [
            {
                "number": rank.number,
                "title": t("collectives.rank", lang, rank=rank.number),
                "sel": f"span:{rank.span}",
            }
            for rank in one.ranks
        ],
        "rounds": [_round(at, rounds, lang) for at in range(len(rounds))],
        "cells": cells_of(one, rounds),
        "hops": [[_hop(hop, one) for hop in hops.get(rank.span, ())] for rank in one.ranks],
        "words": {
            name: t(f"collectives.{key}", lang)
            for name, key in (("no_hops", "no_hops"), ("before", "ring.before"))
        },
    }


def _steps(trace: Trace, one: Collective) -> list[StepInfo]:
    """Those of its number that its ranks' tasks ran, or the only one there is."""
    steps = [step for step in trace.steps if step.number == one.step]
    tasks = {rank.task for rank in one.ranks}
    return [step for step in steps if step.task in tasks] or steps


def _places(trace: Trace, steps: Iterable[StepInfo]) -> Any:
    found = [trace.step_places(step) for step in {step.trace_lo: step for step in steps}.values()]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _arrival(rank: Rank, busy: Spans, window: tuple[int, int], lang: Lang) -> Json:
    """What the device ran, and the wait and the transfer of its rank."""
    begin = window[0]
    met = min(rank.arrived + rank.wait_ns, rank.end)
    values = {"rank": rank.number, "wait": time_text(rank.wait_ns)}
    values |= {"transfer": time_text(rank.transfer_ns), "bytes": size(rank.sent_bytes)}
    button = {"sel": f"span:{rank.span}", "says": t("collectives.says", lang, **values)}
    wait = time_text(rank.wait_ns) if rank.wait_ns else ""
    bars = [
        *work_bars(busy, rank.task, rank.device, window),
        bar(rank.arrived - begin, met - begin, "wait", text=wait, **button),
        bar(
            met - begin, rank.end - begin, "collective", text=time_text(rank.transfer_ns), **button
        ),
    ]
    title = t("collectives.rank", lang, rank=rank.number)
    return lane(title, rank.title, bars, is_torn=not rank.is_whole or rank.is_failed)


def rounds_of(one: Collective, hops: Mapping[str, Sequence[Hop]]) -> list[list[Hop]]:
    """Hops that belong together: the k-th of every rank on a ring, else one after the other."""
    by_rank = [hops.get(rank.span, ()) for rank in one.ranks]
    counts = set(map(len, by_rank))
    if one.algorithm == "ring" and len(counts) == 1:
        return [list(together) for together in zip(*by_rank, strict=True)]
    return [[hop] for hop in _in_turn([hop for own in by_rank for hop in own])]


def _in_turn(hops: Sequence[Hop]) -> list[Hop]:
    """By time; at one instant a rank passes on what it got, after it got it."""
    left = sorted(hops, key=lambda hop: hop.end)
    turn: list[Hop] = []
    while left:
        ready = (hop for hop in left if not any(_feeds(other, hop) for other in left))
        turn.append(next(ready, left[0]))
        left.remove(turn[-1])
    return turn


def _feeds(other: Hop, hop: Hop) -> bool:
    """Whether a piece holds what came with the other: sums on their way up hold sums alone."""
    is_same = other.end == hop.end and other is not hop
    both = other.phase in REDUCING or hop.phase not in REDUCING
    return is_same and other.receiver == hop.sender and other.chunk == hop.chunk and both


def cells_of(one: Collective, rounds: Sequence[Sequence[Hop]]) -> list[list[list[int]]]:
    """Before the first round and after each: rank → chunk → how many ranks' values are in it."""
    chunks = max((hop.chunk for hops in rounds for hop in hops), default=0) + 1
    held: dict[tuple[int, int], frozenset[int]] = {}
    for rank in one.ranks:
        for chunk in range(chunks):
            has = one.kind == "all_reduce" or rank.number == (chunk if chunks > 1 else 0)
            held[rank.number, chunk] = frozenset({rank.number} if has else ())
    told = [_counts(one, held, chunks)]
    for hops in rounds:
        held |= {(hop.receiver, hop.chunk): _after(hop, held) for hop in hops}
        told.append(_counts(one, held, chunks))
    return told


def _after(hop: Hop, held: Mapping[tuple[int, int], frozenset[int]]) -> frozenset[int]:
    got = held.get((hop.sender, hop.chunk), frozenset())
    if hop.phase in REDUCING:
        return got | held.get((hop.receiver, hop.chunk), frozenset())
    return got


def _counts(
    one: Collective, held: Mapping[tuple[int, int], frozenset[int]], chunks: int
) -> list[list[int]]:
    return [[len(held[rank.number, chunk]) for chunk in range(chunks)] for rank in one.ranks]


def _round(at: int, rounds: Sequence[Sequence[Hop]], lang: Lang) -> Json:
    hops = rounds[at]
    first = hops[0]
    return {
        "at": t("collectives.ring.at", lang, at=at + 1, count=len(rounds)),
        "phase": t(f"collectives.phase.{first.phase}", lang),
        "bytes": t("collectives.ring.each", lang, bytes=size(max(hop.bytes for hop in hops))),
        "hops": [[hop.sender, hop.receiver, hop.chunk] for hop in hops],
        "says": _says(hops, lang),
    }


def _says(hops: Sequence[Hop], lang: Lang) -> str:
    if len(hops) > FEW:
        return t("collectives.ring.every", lang)
    return t("collectives.ring.and", lang).join(
        t("collectives.ring.sends", lang, sender=h.sender, chunk=h.chunk, receiver=h.receiver)
        for h in hops
    )


def _hop(hop: Hop, one: Collective) -> Json:
    begin = one.met
    return {
        "start": hop.start - begin,
        "came": min(hop.start + hop.wait_ns, hop.end) - begin,
        "end": hop.end - begin,
        "phase": hop.phase,
        "chunk": hop.chunk,
        "sel": f"span:{hop.span}",
        "key": f"key:{hop.key}",
    }
