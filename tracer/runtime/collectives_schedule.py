"""Which piece goes where and when: what each rank does in a ring, a tree, a gather or a broadcast.

Pure: a schedule is the list of a rank's sends and receives in order. A send never waits. Pieces are
numbered: chunks of the tensor in a ring, ranks in a gather, 0 where it travels whole.

    ring of 4, chunk c of rank r     reduce_scatter: r sends c = r, r-1, r-2 to r+1, who adds
                                     all_gather:     r sends c = r+1, r, r-1, whole sums
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

Phase = Literal["reduce_scatter", "all_gather", "up", "down", "gather", "broadcast"]


class Send(NamedTuple):
    phase: Phase
    piece: int
    to: int


class Receive(NamedTuple):
    """`merges`: what comes is added to what is there, else it replaces that.

    `is_last`: after it the sum is whole.
    """

    phase: Phase
    piece: int
    source: int
    merges: bool = False
    is_last: bool = False


Schedule = tuple[Send | Receive, ...]


def ring(rank: int, ranks: int) -> Schedule:
    """2(n-1) hops; each rank sends 2(n-1)/n of the bytes (reduce-scatter, then all-gather)."""
    return tuple(_ring(rank, ranks))


def _ring(rank: int, ranks: int) -> Iterator[Send | Receive]:
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    for hop in range(ranks - 1):
        yield Send("reduce_scatter", (rank - hop) % ranks, after)
        yield Receive("reduce_scatter", (before - hop) % ranks, before, True, hop == ranks - 2)
    for hop in range(ranks - 1):
        yield Send("all_gather", (after - hop) % ranks, after)
        yield Receive("all_gather", (rank - hop) % ranks, before)


def tree(rank: int, ranks: int) -> Schedule:
    """Sums go up a binary tree to rank 0, the whole sum comes down."""
    parent, children = _family(rank, ranks)
    last = len(children) - 1
    up: list[Send | Receive] = [
        Receive("up", 0, child, merges=True, is_last=rank == 0 and number == last)
        for number, child in enumerate(children)
    ]
    if rank:
        up += [Send("up", 0, parent), Receive("down", 0, parent)]
    return (*up, *(Send("down", 0, child) for child in children))


def gather(rank: int, ranks: int) -> Schedule:
    """Each rank's rows go once around the ring."""
    return tuple(_gather(rank, ranks))


def _gather(rank: int, ranks: int) -> Iterator[Send | Receive]:
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    for hop in range(ranks - 1):
        yield Send("gather", (rank - hop) % ranks, after)
        yield Receive("gather", (before - hop) % ranks, before)


def broadcast(rank: int, ranks: int, source: int) -> Schedule:
    """Down the binary tree whose root is `source`."""
    parent, children = _family((rank - source) % ranks, ranks)
    come: Schedule = () if rank == source else (Receive("broadcast", 0, (parent + source) % ranks),)
    return (*come, *(Send("broadcast", 0, (child + source) % ranks) for child in children))


def _family(rank: int, ranks: int) -> tuple[int, list[int]]:
    """Parent (of 0: none that counts) and children in a binary tree."""
    children = [child for child in (2 * rank + 1, 2 * rank + 2) if child < ranks]
    return (rank - 1) // 2, children


def chunk_bounds(elements: int, chunks: int) -> list[tuple[int, int]]:
    """Where each chunk begins and ends; the first ones take what does not divide."""
    size, more = divmod(elements, chunks)
    starts = [chunk * size + min(chunk, more) for chunk in range(chunks + 1)]
    return list(pairwise(starts))
