"""Edges inside a band: straight along a row, a step between rows, or along the floor.

They run in the gaps between columns and on rows that are clear, never over a tile. An edge whose
rows are not clear takes a track along the floor of its band (along the ceiling if it comes from a
tag up there); all such edges of one source share its track, as they carry one tensor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from vizdist.figures.graph_rows import Grid
from vizdist.figures.graph_shapes import (
    BAND_AIR,
    BAND_LEAST,
    LANE,
    ROW,
    TILE,
    Link,
    Pair,
    Point,
    Route,
    pack_intervals,
)

HALF = TILE / 2


class Level(NamedTuple):
    """A height in a band that is not yet a number."""

    kind: Literal["row", "floor", "ceiling", "top", "bottom"]
    number: int = 0


@dataclass(slots=True)
class Tracks:
    """The floor or ceiling of one band: the stretch each source needs, then its track."""

    stretches: dict[str, tuple[float, float]] = field(default_factory=dict)
    track: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def want(self, source: str, *xs: float) -> None:
        low, high = self.stretches.get(source, (xs[0], xs[0]))
        self.stretches[source] = (min(low, *xs), max(high, *xs))

    def assign(self) -> None:
        answer = pack_intervals(list(self.stretches.values()), apart=LANE)
        self.track = dict(zip(self.stretches, answer, strict=True))
        self.count = max(answer, default=-1) + 1


@dataclass(slots=True)
class BandFrame:
    """The heights of one band, once its tracks are counted and its place is known."""

    floor: Tracks
    ceiling: Tracks
    num_rows: int
    top: float = 0.0
    edge_top: float = 0.0
    edge_bottom: float = 0.0

    @property
    def needed(self) -> float:
        return 2 * BAND_AIR + LANE * (self.floor.count + self.ceiling.count) + ROW * self.num_rows

    @property
    def height(self) -> float:
        return max(self.needed, BAND_LEAST)

    def y(self, level: Level, source: str = "") -> float:
        if level.kind == "top":
            return self.edge_top
        if level.kind == "bottom":
            return self.edge_bottom
        if level.kind == "floor":
            return self.top + self.height - BAND_AIR / 2 - LANE * self.floor.track[source]
        if level.kind == "ceiling":
            return self.top + BAND_AIR / 2 + LANE * self.ceiling.track[source]
        spare = (self.height - self.needed) / 2
        first = self.top + BAND_AIR + LANE * self.ceiling.count + spare
        return first + HALF + ROW * level.number


class Plan(NamedTuple):
    """A route whose heights are still levels. `source` names the track it may take."""

    src: str
    dst: str
    control: bool
    band: str
    points: tuple[tuple[float, Level], ...]

    def settle(self, frame: BandFrame) -> Route:
        points: tuple[Point, ...] = tuple((x, frame.y(at, self.src)) for x, at in self.points)
        return Route(self.src, self.dst, self.control, points)


@dataclass(slots=True)
class EdgePlanner:
    """Knows where the tiles are and plans edges around them."""

    xs: Sequence[float]
    columns: Mapping[str, int]
    rows: Mapping[str, int]
    band_of: Mapping[str, str]
    grids: Mapping[str, Grid]
    floors: dict[str, Tracks] = field(default_factory=dict)
    ceilings: dict[str, Tracks] = field(default_factory=dict)

    def link(self, link: Link) -> Plan:
        """An edge between two tiles."""
        band, row = self.band_of[link.src], Level("row", self.rows[link.src])
        end_row = Level("row", self.rows[link.dst])
        begin = (self.xs[self.columns[link.src]] + HALF, row)
        end = (self.xs[self.columns[link.dst]] - HALF, end_row)
        points = self._between(link, begin, end)
        return Plan(link.src, link.dst, link.control, band, points)

    def _between(
        self, link: Link, begin: tuple[float, Level], end: tuple[float, Level]
    ) -> tuple[tuple[float, Level], ...]:
        src, dst = self.columns[link.src], self.columns[link.dst]
        grid = self.grids[self.band_of[link.src]]
        leave, enter = self._leave(link.src), self._enter(link.dst)
        if dst > src:
            ends_clear = grid.is_clear(end[1].number, src, dst)
            if begin[1] == end[1] and ends_clear:
                return (begin, end)
            if dst == src + 1:
                leave = (begin[0] + end[0]) / 2
            if ends_clear:
                return (begin, (leave, begin[1]), (leave, end[1]), end)
            if grid.is_clear(begin[1].number, src, dst):
                return (begin, (enter, begin[1]), (enter, end[1]), end)
        floor = Level("floor")
        band = self.band_of[link.src]
        self.floors.setdefault(band, Tracks()).want(link.src, leave, enter)
        return (begin, (leave, begin[1]), (leave, floor), (enter, floor), (enter, end[1]), end)

    def to_tag(self, pair: Pair, x: float, is_top: bool) -> Plan:
        """From the source of a pair to its Send tag, in the gap right of it."""
        row = Level("row", self.rows[pair.src])
        edge = Level("bottom" if is_top else "top")
        begin = (self.xs[self.columns[pair.src]] + HALF, row)
        return Plan(
            pair.src, f">{pair.id}", pair.control, pair.src_band, (begin, (x, row), (x, edge))
        )

    def from_tag(self, pair: Pair, dst: str, x: float, gap: int, is_top: bool) -> Plan:
        """From the Recv tag of a pair to one of its consumers."""
        source, band = f"<{pair.id}", pair.dst_band
        edge = Level("bottom" if is_top else "top")
        row = Level("row", self.rows[dst])
        column = self.columns[dst]
        end = (self.xs[column] - HALF, row)
        if column >= gap and self.grids[band].is_clear(row.number, gap - 1, column):
            points: tuple[tuple[float, Level], ...] = ((x, edge), (x, row), end)
        else:
            level = Level("floor" if is_top else "ceiling")
            tracks = self.floors if is_top else self.ceilings
            enter = self._enter(dst)
            tracks.setdefault(band, Tracks()).want(source, x, enter)
            points = ((x, edge), (x, level), (enter, level), (enter, row), end)
        return Plan(source, dst, pair.control, band, points)

    def frame(self, band: str) -> BandFrame:
        """Called once all edges of the band are planned."""
        floor, ceiling = self.floors.get(band, Tracks()), self.ceilings.get(band, Tracks())
        floor.assign()
        ceiling.assign()
        grid = self.grids.get(band)
        return BandFrame(floor, ceiling, grid.num_rows if grid else 1)

    def _leave(self, name: str) -> float:
        """x of the vertical part right of a tile; rows differ, so that neighbours stay apart."""
        return self.xs[self.columns[name]] + HALF + 5 + 2 * (self.rows[name] % 3)

    def _enter(self, name: str) -> float:
        return self.xs[self.columns[name]] - HALF - 5 - 2 * (self.rows[name] % 3)
