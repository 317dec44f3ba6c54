"""A lower picture of the same layout: rows keep their distance, what lies between them gives way.

Two stages over one another are to be seen at once, so floors, margins and channels of each take
what their lines need and no more.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

from vizdist.figures.graph_shapes import TILE, Box, Layout, Point

NAME = 20.0  #: below a tile: its name
FLOOR = 0.4  #: what is left of a band's margins and of the tracks on its floor
CHANNEL = 0.95  #: what is left between boxes, where tags and the numbers of wires stand

Span = tuple[float, float]


def squeezed(layout: Layout) -> Layout:
    """The layout with every y moved by one rising function, so nothing passes anything."""
    move = _lowering(
        [_rows(layout, band) for band in layout.bands],
        [(box.y, box.y + box.height) for box in layout.boxes],
        layout.height,
    )
    return Layout(
        width=layout.width,
        height=move(layout.height),
        columns=layout.columns,
        tiles={name: replace(tile, y=move(tile.y)) for name, tile in layout.tiles.items()},
        boxes=[_moved(box, move) for box in layout.boxes],
        bands=[_moved(band, move) for band in layout.bands],
        routes=[route._replace(points=_points(route.points, move)) for route in layout.routes],
        wires=[wire._replace(points=_points(wire.points, move)) for wire in layout.wires],
    )


def _rows(layout: Layout, band: Box) -> Span:
    """From the top of a band's first tile to the end of its last name; tiles stand in one band."""
    low, high = band.y, band.y + band.height
    ys = [tile.y for tile in layout.tiles.values() if low <= tile.y <= high]
    if not ys:
        return low, low
    return max(low, min(ys) - TILE / 2), min(high, max(ys) + TILE / 2 + NAME)


def _lowering(
    rows: Iterable[Span], boxes: Iterable[Span], height: float
) -> Callable[[float], float]:
    rows, boxes = list(rows), list(boxes)
    cuts = sorted({0.0, height, *(y for span in (*rows, *boxes) for y in span)})
    ends = [cuts[0]]
    factors = []
    for low, high in pairwise(cuts):
        factors.append(_factor((low + high) / 2, rows, boxes))
        ends.append(ends[-1] + (high - low) * factors[-1])
    factors.append(CHANNEL)

    def move(y: float) -> float:
        at = max(0, bisect_right(cuts, y) - 1)
        return ends[at] + (y - cuts[at]) * factors[at]

    return move


def _factor(y: float, rows: Iterable[Span], boxes: Iterable[Span]) -> float:
    if any(low <= y <= high for low, high in rows):
        return 1.0
    return FLOOR if any(low <= y <= high for low, high in boxes) else CHANNEL


def _moved(box: Box, move: Callable[[float], float]) -> Box:
    top = move(box.y)
    return box._replace(y=top, height=move(box.y + box.height) - top)


def _points(points: Iterable[Point], move: Callable[[float], float]) -> tuple[Point, ...]:
    return tuple((x, move(y)) for x, y in points)
