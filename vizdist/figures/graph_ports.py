"""Where pairs leave and enter their bands: which channel, which gap of columns, which place in it.

Bands are numbered from the top. Channel k lies above band k; the last one lies below all. Gap g
lies left of column g; the last one right of all. Every tag of a channel has an x of its own, so
that the vertical parts of two wires never meet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vizdist.figures.graph_shapes import (
    GAP_AIR,
    INSET,
    NAME_AIR,
    PITCH,
    PORT_OTHER_SIDE,
    PORT_SAME_SIDE,
    TILE,
    Pair,
    Tile,
)


@dataclass(frozen=True, slots=True)
class Port:
    """One end of a pair. `is_top`: on the upper edge of its channel, so its band is above."""

    pair: int
    is_recv: bool
    channel: int
    gap: int
    is_top: bool


def ports_of(
    pairs: Sequence[Pair], columns: Mapping[str, int], bands: Mapping[str, int], last: int
) -> list[tuple[Port, Port]]:
    """Send and Recv port of every pair: right after the source, right before the first consumer.

    `last` is the gap right of all columns.
    """
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
    """x of each port from the centre of its gap, and the width each gap needs for its ports."""
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
    stood: Sequence[tuple[Sequence[Tile], Mapping[str, int]]],
    columns: Mapping[str, int],
    needs: Mapping[int, float],
    left: float,
) -> tuple[list[float], list[float], float]:
    """x of the columns, x of the middle of the gaps, and the right end of both.

    `stood` are the tiles of each picture that has these columns, and their rows. Columns are PITCH
    apart, or as far as two names beside each other or the tags between them need.
    """
    count = max(columns.values(), default=-1) + 1
    by_name: dict[int, list[tuple[int, float]]] = {}
    for tiles, rows in stood:
        _name_distances(tiles, columns, rows, by_name)
    widths = [TILE] * count
    for tile in (tile for tiles, _ in stood for tile in tiles):
        widths[columns[tile.id]] = max(widths[columns[tile.id]], tile.label_width)
    centres: list[float] = []
    for column in range(count):
        tags = needs.get(column, 0.0) + GAP_AIR
        if not centres:
            centres.append(left + max(widths[0] / 2, tags + TILE / 2))
            continue
        reach = [centres[before] + away for before, away in by_name.get(column, ())]
        centres.append(max(centres[-1] + max(PITCH, TILE + tags), *reach, 0.0))
    gaps = [(a + b) / 2 for a, b in pairwise(centres)]
    first, last = (needs.get(gap, 0.0) + GAP_AIR for gap in (0, count))
    if not centres:
        return [], [left + first / 2], left + first + INSET
    gaps = [centres[0] - TILE / 2 - first / 2, *gaps, centres[-1] + TILE / 2 + last / 2]
    right = max(TILE / 2 + last, widths[-1] / 2) + INSET
    return centres, gaps, centres[-1] + right


def _name_distances(
    tiles: Sequence[Tile],
    columns: Mapping[str, int],
    rows: Mapping[str, int],
    answer: dict[int, list[tuple[int, float]]],
) -> None:
    """Adds for a column: (an earlier column, how far from it), of neighbours on a row of a band."""
    before: dict[tuple[str, int], Tile] = {}
    for tile in sorted(tiles, key=lambda tile: columns[tile.id]):
        place = tile.band, rows[tile.id]
        if place in before:
            other = before[place]
            away = (other.label_width + tile.label_width) / 2 + NAME_AIR
            answer.setdefault(columns[tile.id], []).append((columns[other.id], away))
        before[place] = tile
