"""Cut a partition into segments: the nodes that need the same set of `_Recv`s.

A segment starts when the last `_Recv` and the last other segment it reads from are there, so a
parameter server's partition reads and sends at once and applies when gradients come. Sets of needs
are bit masks, one bit a `_Recv`. A node's needs contain those of its inputs, so segments never wait
in a circle.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracer.runtime.prepared import Kind, PreparedNode


@dataclass(frozen=True, slots=True)
class Segment:
    """`nodes` are positions in the partition, in running order.

    `num_needs` counts the `_Recv`s and segments it waits for; `successors` wait for it. `loads` are
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
    """`waiting` says, for each `_Recv` by position, which segments wait for it.

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
        made = {value for at in positions for value in nodes[at].outputs}
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
    recvs = [at for at, node in enumerate(nodes) if node.kind is Kind.RECV]
    waiting = {at: tuple(successors[_RECV, at]) for at in recvs}
    return Cut(
        tuple(segments), waiting, {value: slot for slot, value in enumerate(sorted(crossing))}
    )


_RECV, _SEGMENT = 0, 1
_Sources = set[tuple[int, int]]  # what a segment waits for: (_RECV, position) or (_SEGMENT, number)


def _homes(nodes: Sequence[PreparedNode]) -> dict[int, int]:
    """Position → segment number, of all but `_Recv`s; segments in order of their first node."""
    needs: list[int] = []
    numbers: dict[int, int] = {}
    home: dict[int, int] = {}
    num_recvs = 0
    for position, node in enumerate(nodes):
        mask = 0
        for before in node.after:
            mask |= needs[before]
        if node.kind is Kind.RECV:
            mask |= 1 << num_recvs
            num_recvs += 1
        else:
            home[position] = numbers.setdefault(mask, len(numbers))
        needs.append(mask)
    return home


def _sources(
    nodes: Sequence[PreparedNode], positions: Sequence[int], home: dict[int, int], segment: int
) -> _Sources:
    before = {at for position in positions for at in nodes[position].after}
    return {
        (_SEGMENT, home[at]) if at in home else (_RECV, at)
        for at in before
        if home.get(at) != segment
    }


def _segments(sources: _Sources) -> Iterator[int]:
    return (number for kind, number in sources if kind == _SEGMENT)


def _successors(sources: dict[int, _Sources]) -> defaultdict[tuple[int, int], list[int]]:
    """`_Recv` or segment → the segments that wait for it."""
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
    """Values that a segment other than their own reads; what a `_Recv` gets is in none."""
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
