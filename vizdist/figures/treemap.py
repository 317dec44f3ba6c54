"""A rectangle cut into tiles whose areas are as given, each as near to a square as may be.

Squarified (Bruls, Huizing, van Wijk 2000): tiles are laid along the shorter side, row by row; a
row takes one more as long as its worst tile gets no longer by that.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Tile(NamedTuple):
    left: float
    top: float
    width: float
    height: float


def tiles(sizes: Sequence[float], width: float, height: float) -> list[Tile]:
    """One for each size, in that order; `sizes` fall, and none is negative."""
    total = sum(sizes)
    if not total:
        return [Tile(0, 0, 0, 0)] * len(sizes)
    areas = [size / total * width * height for size in sizes]
    free = Tile(0, 0, width, height)
    found: list[Tile] = []
    while len(found) < len(areas):
        rest = areas[len(found) :]
        row = rest[: _best_count(rest, min(free.width, free.height))]
        laid, free = _lay(row, free)
        found += laid
    return found


def _best_count(areas: Sequence[float], side: float) -> int:
    count = 1
    while count < len(areas) and _worst(areas[: count + 1], side) <= _worst(areas[:count], side):
        count += 1
    return count


def _worst(row: Sequence[float], side: float) -> float:
    """How many times as long as wide the worst tile of a row is."""
    total = sum(row)
    if not (min(row) and side):
        return float("inf")
    return max(side**2 * max(row) / total**2, total**2 / (side**2 * min(row)))


def _lay(row: Sequence[float], free: Tile) -> tuple[list[Tile], Tile]:
    """The tiles of a row along the shorter side, and what is left beside them."""
    left, top, width, height = free
    is_upright = height <= width
    side = height if is_upright else width
    depth = sum(row) / side if side else 0.0
    found, at = [], 0.0
    for area in row:
        length = area / depth if depth else 0.0
        tile = (left, top + at, depth, length) if is_upright else (left + at, top, length, depth)
        found.append(Tile(*tile))
        at += length
    if is_upright:
        return found, Tile(left + depth, top, max(width - depth, 0.0), height)
    return found, Tile(left, top + depth, width, max(height - depth, 0.0))
