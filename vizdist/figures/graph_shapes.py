"""What a graph layout is made of: tiles and pairs going in, shapes with coordinates coming out.

All lengths are layout pixels (screen pixels at zoom 1).
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

TILE = 34.0  #: side of a tile
ROW = 70.0  #: from one row of a band to the next: tile, name, time, air
PITCH = 50.0  #: least distance of two columns
NAME_AIR = 12.0  #: between two names beside each other
LABEL_LIMIT = 104.0  #: a longer name is cut on screen
TITLE = 84.0  #: column in a box for its name
INSET = 8.0  #: from a box to its bands
BAND_AIR = 14.0  #: from a band's edge to its first row and below its last
BAND_LEAST = 108.0  #: a single band is as high as its box's title needs
BANDS_APART = 12.0  #: two devices of one task with no wire between
CHANNEL = 76.0  #: two boxes; more if many wires share a stretch
CHANNEL_AIR = 26.0  #: from a box's edge to the first track: a tag and a corner
TRACK = 9.0  #: two parallel wires in a channel
LANE = 8.0  #: two parallel wires in a gutter; two parallel edges on a floor
GUTTER = 24.0  #: margin left and right of all boxes; more if wires run there
PORT_SAME_SIDE = 27.0  #: two tags on one edge
PORT_OTHER_SIDE = 12.0  #: a tag and one on the opposite edge of the channel
GAP_AIR = 16.0  #: clear on both sides of the tags between two columns, together

Point = tuple[float, float]
Pointing = Literal["up", "down"]


@dataclass(frozen=True, slots=True)
class Tile:
    """A node or a folded scope.

    `late`: placed just before its first consumer; `follows`: just after its last source, once that
    has its place.
    """

    id: str
    box: str
    band: str
    label_width: float = 0.0
    late: bool = False
    is_backward: bool = False
    follows: bool = False


class Link(NamedTuple):
    """An edge between two tiles of one band."""

    src: str
    dst: str
    control: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """An edge between two bands, or within one through Send and Recv.

    `src` is the tile whose output goes over ("" if none is known), `dsts` the tiles that take it.
    """

    id: str
    src: str
    dsts: tuple[str, ...]
    src_band: str
    dst_band: str
    num_bytes: int = 0
    control: bool = False
    by_right_gutter: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    x: float
    y: float
    column: int
    row: int


class Box(NamedTuple):
    """A task's box or (with `box` set) a device's band in it."""

    id: str
    box: str
    x: float
    y: float
    width: float
    height: float


class Route(NamedTuple):
    """An edge inside a band; an end is a tile id, or `>pair`, `<pair` for the pair's tags."""

    src: str
    dst: str
    control: bool
    points: tuple[Point, ...]


class Wire(NamedTuple):
    """A pair's way from Send tag to Recv tag; `ways` say where the tensor heads at either tag."""

    pair: str
    points: tuple[Point, ...]
    ways: tuple[Pointing, Pointing]


@dataclass(slots=True)
class Layout:
    """Everything placed. `columns` are the x of the tiles' centres, shared by all boxes."""

    width: float = 0.0
    height: float = 0.0
    columns: list[float] = field(default_factory=list)
    tiles: dict[str, Placed] = field(default_factory=dict)
    boxes: list[Box] = field(default_factory=list)
    bands: list[Box] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)


def pack_intervals(intervals: list[tuple[float, float]], apart: float = 0.0) -> list[int]:
    """A track for each interval so that no two on one track overlap or touch; few tracks.

    Greedy by left end, which needs as many tracks as the most crowded place.
    """
    tracks: list[float] = []
    answer = [0] * len(intervals)
    for index in sorted(range(len(intervals)), key=lambda i: intervals[i]):
        low, high = intervals[index]
        track = next((t for t, end in enumerate(tracks) if end + apart < low), len(tracks))
        if track == len(tracks):
            tracks.append(high)
        tracks[track] = high
        answer[index] = track
    return answer
