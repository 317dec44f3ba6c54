"""Fewer crossings: which track of a channel lies over which, which tile of a column over which.

Both only exchange places that are taken already, so nothing that had room comes to lie on another.
The order of tiles is Sugiyama's (1981) barycentre: each at the mean row of what it is linked to.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from vizdist.figures.graph_shapes import Link, Tile

MOST_WIRES = 64  #: of a channel with more, too many cross for an order of tracks to tell
SWEEPS = 4  #: over all columns, from left to right and back in turn


class Run(NamedTuple):
    """A wire in a channel: its stretch along a track, and the x of its ends above and below."""

    low: float
    high: float
    above: tuple[float, ...]
    below: tuple[float, ...]

    def holds(self, x: float) -> bool:
        return self.low < x < self.high


def order_tracks(runs: Sequence[Run], tracks: Sequence[int], apart: float = 0.0) -> list[int]:
    """The tracks with others exchanged where fewer wires cross by it; 0 is the top one.

    Wires that are more than `apart` from each other do not hear of each other's exchange.
    """
    found = list(tracks)
    for crowd in _crowds(runs, apart):
        if 1 < len(crowd) <= MOST_WIRES:
            held: dict[int, list[Run]] = {}
            for i in crowd:
                held.setdefault(tracks[i], []).append(runs[i])
            place = _exchanged(held)
            for i in crowd:
                found[i] = place[tracks[i]]
    return found


def _crowds(runs: Sequence[Run], apart: float) -> list[list[int]]:
    """Indexes of runs that lie beside each other without a gap."""
    crowds: list[list[int]] = []
    end = float("-inf")
    for i in sorted(range(len(runs)), key=lambda i: runs[i].low):
        if runs[i].low > end + apart:
            crowds.append([])
        crowds[-1].append(i)
        end = max(end, runs[i].high)
    return crowds


def _exchanged(held: Mapping[int, Sequence[Run]]) -> dict[int, int]:
    """Track → the one whose place it takes; neighbours change places while that helps."""
    places = sorted(held)
    order = list(places)
    is_better = True
    while is_better:
        is_better = False
        for i, (upper, lower) in enumerate(pairwise(order)):
            if _crossings(held[lower], held[upper]) < _crossings(held[upper], held[lower]):
                order[i : i + 2] = lower, upper
                is_better = True
                break
    return dict(zip(order, places, strict=True))


def _crossings(upper: Sequence[Run], lower: Sequence[Run]) -> int:
    """Ends of the lower track's wires cross the upper track on their way up, and so downwards."""
    return sum(
        sum(a.holds(x) for x in b.above) + sum(b.holds(x) for x in a.below)
        for a in upper
        for b in lower
    )


def order_columns(
    tiles: Iterable[Tile],
    columns: Mapping[str, int],
    rows: Mapping[str, int],
    links: Iterable[Link],
) -> dict[str, int]:
    """Rows after a few sweeps: in each column of a band the tiles by the mean row of their links.

    A new order stands only where links become shorter by it.
    """
    rows = dict(rows)
    linked: dict[str, list[str]] = {name: [] for name in rows}
    for link in links:
        linked[link.src].append(link.dst)
        linked[link.dst].append(link.src)
    groups: dict[tuple[int, str], list[str]] = {}
    for tile in tiles:
        groups.setdefault((columns[tile.id], tile.band), []).append(tile.id)
    crowded = [groups[key] for key in sorted(groups) if len(groups[key]) > 1]
    for sweep in range(SWEEPS):
        for group in reversed(crowded) if sweep % 2 else crowded:
            _reorder(group, rows, linked)
    return rows


def _reorder(group: Sequence[str], rows: dict[str, int], linked: Mapping[str, list[str]]) -> None:
    def wanted(name: str) -> float:
        near = [rows[other] for other in linked[name]]
        return sum(near) / len(near) if near else rows[name]

    places = sorted(rows[name] for name in group)
    order = sorted(group, key=lambda name: (wanted(name), rows[name]))
    trial = dict(zip(order, places, strict=True))
    if _length(group, rows | trial, linked) < _length(group, rows, linked):
        rows.update(trial)


def _length(group: Sequence[str], rows: Mapping[str, int], linked: Mapping[str, list[str]]) -> int:
    return sum(abs(rows[name] - rows[other]) for name in group for other in linked[name])
