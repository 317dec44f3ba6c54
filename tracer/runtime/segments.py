"""Cut a partition into segments: the nodes that need the same set of waits.

A wait is a `_Recv`, or an asynchronous kernel, which a segment begins and nobody in it awaits. A
segment starts when the last wait and the last other segment it reads from are there, so a parameter
server's partition reads and sends at once and applies when gradients come. Sets of needs are bit
masks, one bit a wait. A node's needs contain those of its inputs, so segments never wait in a
circle.

Where a segment has begun asynchronous kernels it ends, and what else needs the same is another one:
what a kernel tells other tasks leaves between two segments, and so before more is computed.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from tracer.runtime.prepared import Kind, PreparedNode


@dataclass(frozen=True, slots=True)
class Segment:
    """`nodes` are positions in the partition, in running order.

    `num_needs` counts the waits and segments that it needs; `successors` need it. `loads` are
    values it takes from the step's frame, `stores` those it leaves there, `frees` the loads that
    nobody reads after it.
    """

    nodes: tuple[int, ...]
    num_needs: int
    successors: tuple[int, ...]
    loads: tuple[int, ...]
    stores: tuple[int, ...]
    frees: frozenset[int]


@dataclass(frozen=True, slots=True)
class Cut:
    """`waiting` says, for each wait by position, which segments need it.

    `slots` numbers the values that cross segments: their places in a step's frame.
    """

    segments: tuple[Segment, ...]
    waiting: dict[int, tuple[int, ...]]
    slots: dict[int, int]


def cut_into_segments(nodes: Sequence[PreparedNode]) -> Cut:
    home = _homes(nodes)
    members: dict[int, list[int]] = {}
    for position, segment in home.items():
        members.setdefault(segment, []).append(position)
    sources = {segment: _sources(nodes, members[segment], home, segment) for segment in members}
    readers = _readers(nodes, members)
    crossing = _crossing(nodes, home, readers)
    ancestors = _ancestors(sources)
    successors = _successors(sources)
    segments = []
    for segment, positions in members.items():
        made = {v for at in positions if nodes[at].kind not in WAITS for v in nodes[at].outputs}
        loads = sorted(v for v in crossing if v not in made and segment in readers[v])
        segments.append(
            Segment(
                tuple(positions),
                len(sources[segment]),
                tuple(successors[_SEGMENT, segment]),
                tuple(loads),
                tuple(sorted(made & crossing)),
                frozenset(v for v in loads if _reads_last(readers[v], segment, ancestors)),
            )
        )
    waits = [at for at, node in enumerate(nodes) if node.kind in WAITS]
    waiting = {at: tuple(successors[_WAIT, at]) for at in waits}
    return Cut(
        tuple(segments), waiting, {value: slot for slot, value in enumerate(sorted(crossing))}
    )


WAITS = (Kind.RECV, Kind.ASYNC)

_WAIT, _SEGMENT = 0, 1
_Sources = set[tuple[int, int]]  # what a segment needs: (_WAIT, position) or (_SEGMENT, number)


def _homes(nodes: Sequence[PreparedNode]) -> dict[int, int]:
    """Position → segment number, of all but `_Recv`s; segments in order of their first node."""
    needs: list[int] = []
    numbers = count()
    growing: dict[int, int] = {}  # needs → the segment that takes the next node
    begins: set[int] = set()  # the needs of those that have begun kernels
    home: dict[int, int] = {}
    num_waits = 0
    for position, node in enumerate(nodes):
        mask = 0
        for before in node.after:
            mask |= needs[before]
        if node.kind is not Kind.RECV:
            is_async = node.kind is Kind.ASYNC
            if mask not in growing or (mask in begins and not is_async):
                growing[mask] = next(numbers)
                begins.discard(mask)
            if is_async:
                begins.add(mask)
            home[position] = growing[mask]
        if node.kind in WAITS:
            mask |= 1 << num_waits
            num_waits += 1
        needs.append(mask)
    return home


def _sources(
    nodes: Sequence[PreparedNode], positions: Sequence[int], home: dict[int, int], segment: int
) -> _Sources:
    before = {at for position in positions for at in nodes[position].after}
    return {
        (_WAIT, at) if nodes[at].kind in WAITS else (_SEGMENT, home[at])
        for at in before
        if nodes[at].kind in WAITS or home[at] != segment
    }


def _segments(sources: _Sources) -> Iterator[int]:
    return (number for kind, number in sources if kind == _SEGMENT)


def _successors(sources: dict[int, _Sources]) -> defaultdict[tuple[int, int], list[int]]:
    """Wait or segment → the segments that need it."""
    found: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for segment, waits_for in sources.items():
        for source in waits_for:
            found[source].append(segment)
    return found


def _readers(nodes: Sequence[PreparedNode], members: dict[int, list[int]]) -> dict[int, set[int]]:
    """Value → the segments that take it as an input."""
    readers: dict[int, set[int]] = {}
    for segment, positions in members.items():
        for position in positions:
            for value in nodes[position].inputs:
                readers.setdefault(value, set()).add(segment)
    return readers


def _crossing(
    nodes: Sequence[PreparedNode], home: dict[int, int], readers: dict[int, set[int]]
) -> set[int]:
    """Values that another segment reads than the one that makes them."""
    return {
        value
        for position, node in enumerate(nodes)
        for value in node.outputs
        if readers.get(value, set()) - {home.get(position)}
    }


def _ancestors(sources: dict[int, _Sources]) -> dict[int, set[int]]:
    """Segment → all segments that have surely ended when it starts (numbers grow along edges)."""
    found: dict[int, set[int]] = {}

    def of(segment: int) -> set[int]:
        if segment not in found:
            direct = list(_segments(sources[segment]))
            found[segment] = set(direct).union(*(of(number) for number in direct))
        return found[segment]

    for segment in sources:
        of(segment)
    return found


def _reads_last(readers: set[int], segment: int, ancestors: dict[int, set[int]]) -> bool:
    return readers - {segment} <= ancestors[segment]
