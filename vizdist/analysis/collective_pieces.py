"""What a rank of a collective held up: its wait until all had come, and what they passed on then.

The pieces of a way within one rank are many, its hops and calls; here they are those two.
"""

from collections.abc import Iterable

import numpy as np

from vizdist.analysis.collectives import Collective, Rank, has_collectives, of_step
from vizdist.analysis.critical_path import Piece
from vizdist.analysis.keys import HOP, is_rank
from vizdist.store.details import hex_id
from vizdist.store.trace import Trace

_INSIDE = {HOP, "rpc.client", "rpc.server"}  #: what may lie in a rank, each in the one before
_DEEPEST = 4


def joined(trace: Trace, pieces: Iterable[Piece]) -> list[Piece]:
    """`wait` and `transfer` of each rank instead of its pieces; all others as they are."""
    if not has_collectives(trace):
        return list(pieces)
    left: list[Piece] = []
    found: dict[tuple[int, str], Piece] = {}
    for piece in pieces:
        rank = _rank_of(trace, piece.place)
        if rank < 0:
            left.append(piece)
            continue
        met = int(trace.all.start[rank] + trace.all.wait[rank])
        part = "wait" if piece.start + piece.end < 2 * met else "transfer"
        first = found.setdefault((rank, part), Piece(rank, piece.start, piece.start, part))
        found[rank, part] = first._replace(end=first.end + piece.duration)
    return [*left, *found.values()]


def _rank_of(trace: Trace, place: int) -> int:
    """The place of the rank that a span is, or lies in; -1: in none."""
    for _ in range(_DEEPEST):
        if place < 0:
            break
        kind = trace.all.words["kind"][int(trace.all.codes("kind")[place])]
        if is_rank(kind):
            return place
        if kind not in _INSIDE:
            break
        place = int(trace.places(np.array([trace.all.parent[place]], np.uint64))[0])
    return -1


def name_of(trace: Trace, place: int) -> str:
    """The op whose rank it is."""
    outer = int(trace.places(np.array([trace.all.parent[place]], np.uint64))[0])
    named = place if outer < 0 else outer
    return str(trace.all.words["name"][int(trace.all.codes("name")[named])])


def awaited(trace: Trace, place: int) -> str:
    """Whom a rank waited for: the one that came last; if that is itself, word of the others."""
    own = hex_id(int(trace.all.span[place]))
    for one in of_step(trace, int(trace.all.step[place])):
        for rank in one.ranks:
            if rank.span == own:
                return _titles(one, rank)
    return ""


def _titles(one: Collective, own: Rank) -> str:
    meant = [one.last] if one.last != own else [rank for rank in one.ranks if rank != own]
    is_apart = len({rank.task for rank in one.ranks}) == len(one.ranks)
    return ", ".join(rank.task if is_apart else rank.title for rank in meant)
