"""The swim-lane layout: a box per task, a band per device in it, x = dataflow rank in all of them.

Pure: tiles, links and pairs in, coordinates out. The steps are files of their own: graph_ranks (x
order, order of boxes), graph_rows (rows in a band), graph_ports (gaps and columns), graph_edges
(edges in a band), graph_wires (pairs between bands). The number of steps grows with nodes and
edges, and no force is simulated: the same graph always looks the same.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vizdist.figures.graph_edges import BandFrame, EdgePlanner, Level, Plan
from vizdist.figures.graph_ports import Port, column_centres, port_offsets, ports_of
from vizdist.figures.graph_ranks import assign_columns, dataflow_order, order_boxes
from vizdist.figures.graph_rows import assign_rows
from vizdist.figures.graph_shapes import (
    GUTTER,
    INSET,
    LANE,
    TITLE,
    Box,
    Layout,
    Link,
    Pair,
    Placed,
    Tile,
)
from vizdist.figures.graph_uncross import order_columns
from vizdist.figures.graph_wires import Ground, channel_height, plan_wires, settle_wires


class Sketch(NamedTuple):
    """What is to be laid out.

    `tiles` come in dataflow order; `bands` maps every band to its box and holds all bands that
    tiles and pairs name. Ends that name no tile are left out: a pair without its source keeps its
    tags.
    """

    tiles: Sequence[Tile]
    links: Sequence[Link]
    pairs: Sequence[Pair]
    bands: Mapping[str, str]


def lay_out(
    tiles: Sequence[Tile],
    links: Sequence[Link],
    pairs: Sequence[Pair],
    bands: Mapping[str, str],
) -> Layout:
    """Places everything."""
    return lay_out_together([Sketch(tiles, links, pairs, bands)])[0]


def lay_out_together(sketches: Sequence[Sketch]) -> list[Layout]:
    """Places several pictures over one another: a tile that is in more than one has one x."""
    columns = _shared_columns(sketches)
    plans = [_Plan(sketch, columns) for sketch in sketches]
    needs: dict[int, float] = {}
    for plan in plans:
        for gap, need in plan.needs.items():
            needs[gap] = max(need, needs.get(gap, 0.0))
    stood = [(plan.tiles, plan.rows) for plan in plans]
    centres, gaps, right = column_centres(stood, columns, needs, INSET)
    for plan in plans:
        plan.settle_columns(centres, gaps)
    left = max(plan.gutter(is_right=False) for plan in plans)
    return [plan.layout(left, right) for plan in plans]


def _shared_columns(sketches: Sequence[Sketch]) -> dict[str, int]:
    """Column of every tile; the last picture's order of tiles is that of all."""
    tiles: dict[str, Tile] = {}
    flows: list[Link] = []
    for tile_list, links, pairs, _ in reversed(sketches):
        for tile in tile_list:
            tiles.setdefault(tile.id, tile)
        flows += links
        flows += (Link(pair.src, dst) for pair in pairs for dst in pair.dsts)
    order = list(tiles)
    if len(sketches) > 1:
        order = dataflow_order(order, ((flow.src, flow.dst) for flow in flows))
    return assign_columns([tiles[name] for name in order], flows)


class _Plan:
    """One picture on its way: rows and ports first, places once the columns have theirs."""

    def __init__(self, sketch: Sketch, columns: Mapping[str, int]) -> None:
        self.tiles, links, self.pairs, self.bands = sketch
        names = {tile.id for tile in self.tiles}
        self.links = [link for link in links if link.src in names and link.dst in names]
        self.columns = {name: column for name, column in columns.items() if name in names}
        self.order = band_order(self.bands, self.pairs)
        place = {band: i for i, band in enumerate(self.order)}
        rows, self.grids = assign_rows(self.tiles, self.columns, self.links)
        self.rows = order_columns(self.tiles, self.columns, rows, self.links)
        last = max(columns.values(), default=-1) + 1
        self.ports = ports_of(self.pairs, self.columns, place, last)
        both = [port for ends in self.ports for port in ends]
        self.offsets, self.needs = port_offsets(both)

    def settle_columns(self, centres: Sequence[float], gaps: Sequence[float]) -> None:
        self.centres = centres
        self.xs = {port: gaps[port.gap] + offset for port, offset in self.offsets.items()}
        self.wires = plan_wires(self.pairs, self.ports, self.xs)

    def gutter(self, *, is_right: bool) -> float:
        return max(GUTTER, LANE * (self.wires.num_lanes.get(is_right, 0) + 2))

    def layout(self, left: float, right: float) -> Layout:
        band_of = {tile.id: tile.band for tile in self.tiles}
        planner = EdgePlanner(self.centres, self.columns, self.rows, band_of, self.grids)
        plans = [planner.link(link) for link in self.links]
        plans += _tag_plans(planner, self.pairs, self.ports, self.xs)
        frames = {band: planner.frame(band) for band in self.order}
        layout = Layout()
        ground = self._stack(layout, frames, left, right)
        shift = left + TITLE
        for tile in self.tiles:
            column, row = self.columns[tile.id], self.rows[tile.id]
            y = frames[tile.band].y(Level("row", row))
            layout.tiles[tile.id] = Placed(self.centres[column] + shift, y, column, row)
        layout.columns = [x + shift for x in self.centres]
        layout.routes = [_shifted(plan, shift).settle(frames[plan.band]) for plan in plans]
        shifted = {port: x + shift for port, x in self.xs.items()}
        layout.wires = settle_wires(self.wires, self.pairs, self.ports, shifted, ground)
        return layout

    def _stack(
        self, layout: Layout, frames: Mapping[str, BandFrame], left: float, right: float
    ) -> Ground:
        """Stacks boxes, bands and channels from the top and says where the channels are."""
        width = TITLE + right + INSET
        channels: list[tuple[float, float]] = []
        tops: dict[str, float] = {}
        y = 0.0
        for k, band in enumerate([*self.order, None]):
            above = self.order[k - 1] if k else None
            is_outer = above is None or band is None
            is_new = is_outer or self.bands[above or ""] != self.bands[band or ""]
            if above is not None and is_new:
                y += INSET
                box = self.bands[above]
                layout.boxes.append(Box(box, "", left, tops[box], width, y - tops[box]))
                frames[above].edge_bottom = y
            height = channel_height(self.wires.num_tracks.get(k, 0), is_new, is_outer)
            channels.append((y, height))
            y += height
            if band is not None:
                y = _place_band(
                    layout, frames[band], band, self.bands, tops, y, is_new, left, right
                )
        layout.height = y
        layout.width = left + width + self.gutter(is_right=True)
        return Ground(channels, left, left + width)


def band_order(bands: Mapping[str, str], pairs: Sequence[Pair]) -> list[str]:
    """Bands top to bottom: boxes by what crosses between them, a box's bands in the given order."""
    weights: dict[tuple[str, str], float] = {}
    for pair in pairs:
        ends = (bands[pair.src_band], bands[pair.dst_band])
        if ends[0] != ends[1]:
            weights[ends] = weights.get(ends, 0.0) + 1 + pair.num_bytes
    boxes = order_boxes(list(dict.fromkeys(bands.values())), weights)
    return sorted(bands, key=lambda band: boxes.index(bands[band]))


def _tag_plans(
    planner: EdgePlanner,
    pairs: Sequence[Pair],
    ports: Sequence[tuple[Port, Port]],
    xs: Mapping[Port, float],
) -> list[Plan]:
    """The edges from sources to Send tags and from Recv tags to consumers."""
    plans = []
    for pair, (send, recv) in zip(pairs, ports, strict=True):
        if pair.src in planner.columns:
            plans.append(planner.to_tag(pair, xs[send], send.is_top))
        plans.extend(
            planner.from_tag(pair, dst, xs[recv], recv.gap, recv.is_top)
            for dst in pair.dsts
            if dst in planner.columns
        )
    return plans


def _shifted(plan: Plan, shift: float) -> Plan:
    return plan._replace(points=tuple((x + shift, level) for x, level in plan.points))


def _place_band(
    layout: Layout,
    frame: BandFrame,
    band: str,
    bands: Mapping[str, str],
    tops: dict[str, float],
    y: float,
    is_new: bool,
    left: float,
    right: float,
) -> float:
    """Puts one band at y (its channel's end) and returns where it ends."""
    frame.edge_top = y
    if is_new:
        tops[bands[band]] = y
        y += INSET
    frame.top = y
    frame.edge_bottom = y + frame.height
    layout.bands.append(Box(band, bands[band], left + TITLE, y, right, frame.height))
    return y + frame.height
