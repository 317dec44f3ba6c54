"""Where pairs leave and enter their bands: which channel, which gap of columns, which place in it.

Bands are numbered from the top. Channel k lies above band k; the last one lies below all. Gap g lies
left of column g; the last one right of all. Every tag of a channel has an x of its own, so that the
vertical parts of two wires never meet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vizdist.figures.graph_shapes import (
    GAP_AIR,
    INSET,
    PITCH,
    PITCH_BACKWARD,
    PORT_OTHER_SIDE,
    PORT_SAME_SIDE,
    TILE,
    Pair,
    Tile,
)


@dataclass(frozen=True, slots=True)
class Port:
    """One end of a pair. `is_top`: it sits on the upper edge of its channel, so its band is above."""

    pair: int
    is_recv: bool
    channel: int
    gap: int
    is_top: bool


def ports_of(
    pairs: Sequence[Pair], columns: Mapping[str, int], bands: Mapping[str, int]
) -> list[tuple[Port, Port]]:
    """Send and Recv port of every pair: right after the source, right before the first consumer."""
    last = max(columns.values(), default=-1) + 1
    answer = []
    for index, pair in enumerate(pairs):
        send, recv = bands[pair.src_band], bands[pair.dst_band]
        send_gap = columns[pair.src] + 1 if pair.src in columns else 0
        recv_gap = min((columns[d] for d in pair.dsts if d in columns), default=last)
        send_channel, recv_channel = send + (recv >= send), recv + (recv <= send)
        answer.append(
            (
                Port(index, False, send_channel, send_gap, recv >= send),
                Port(index, True, recv_channel, recv_gap, recv <= send),
            )
        )
    return answer


def port_offsets(ports: Sequence[Port]) -> tuple[dict[Port, float], dict[int, float]]:
    """x of each port relative to the centre of its gap, and the width each gap needs for its ports."""
    groups: dict[tuple[int, int], list[Port]] = {}
    for port in ports:
        groups.setdefault((port.channel, port.gap), []).append(port)
    offsets: dict[Port, float] = {}
    needs: dict[int, float] = {}
    for (_, gap), group in groups.items():
        group.sort(key=lambda port: (port.is_recv, port.pair))
        at, last_here = [0.0], {group[0].is_top: 0.0}
        for port in group[1:]:
            x = at[-1] + PORT_OTHER_SIDE
            if port.is_top in last_here:
                x = max(x, last_here[port.is_top] + PORT_SAME_SIDE)
            at.append(x)
            last_here[port.is_top] = x
        width = at[-1]
        offsets |= {port: x - width / 2 for port, x in zip(group, at, strict=True)}
        needs[gap] = max(needs.get(gap, 0.0), width)
    return offsets, needs


def column_centres(
    tiles: Sequence[Tile], columns: Mapping[str, int], needs: Mapping[int, float], left: float
) -> tuple[list[float], list[float], float]:
    """x of the columns, x of the middle of the gaps, and the right end of both.

    A column is as wide as its widest name, and stands clear of the tags beside it.
    """
    count = max(columns.values(), default=-1) + 1
    widths = [PITCH] * count
    for tile in tiles:
        least = PITCH_BACKWARD if tile.is_backward else PITCH
        column = columns[tile.id]
        widths[column] = max(widths[column], least, tile.label_width + 4)
    first = left + needs.get(0, 0.0) + GAP_AIR
    centres: list[float] = []
    for column, width in enumerate(widths):
        if not column:
            centres.append(max(left + width / 2, first + TILE / 2))
            continue
        by_name = (widths[column - 1] + width) / 2
        by_tags = TILE + needs.get(column, 0.0) + GAP_AIR
        centres.append(centres[-1] + max(by_name, by_tags))
    edges = [left - TILE / 2, *centres]
    gaps = [(a + b) / 2 for a, b in pairwise(edges)]
    tail = edges[-1] + TILE / 2
    last = needs.get(count, 0.0) + GAP_AIR
    gaps.append(tail + last / 2)
    if centres:
        gaps[0] = centres[0] - TILE / 2 - first_gap(needs) / 2
    right = max(tail + last, (centres[-1] + widths[-1] / 2) if centres else tail)
    return centres, gaps, right + INSET


def first_gap(needs: Mapping[int, float]) -> float:
    return needs.get(0, 0.0) + GAP_AIR
