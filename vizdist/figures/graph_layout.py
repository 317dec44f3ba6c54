"""The swim-lane layout: a box per task, a band per device in it, x = dataflow rank in all of them.

Pure: tiles, links and pairs in, coordinates out. The steps are files of their own: graph_ranks (x
order, order of boxes), graph_rows (rows in a band), graph_ports (gaps and columns), graph_edges
(edges in a band), graph_wires (pairs between bands). The number of steps grows with nodes and
edges, and no force is simulated: the same graph always looks the same.
"""

from collections.abc import Mapping, Sequence

from vizdist.figures.graph_edges import BandFrame, EdgePlanner, Level, Plan
from vizdist.figures.graph_ports import Port, column_centres, port_offsets, ports_of
from vizdist.figures.graph_ranks import assign_columns, order_boxes
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
from vizdist.figures.graph_wires import Ground, WirePlan, channel_height, plan_wires, settle_wires


def lay_out(
    tiles: Sequence[Tile],
    links: Sequence[Link],
    pairs: Sequence[Pair],
    bands: Mapping[str, str],
) -> Layout:
    """Places everything.

    `tiles` come in dataflow order; `bands` maps every band to its box and holds all bands that
    tiles and pairs name. Ends that name no tile are left out: a pair without its source keeps its
    tags.
    """
    names = {tile.id for tile in tiles}
    links = [link for link in links if link.src in names and link.dst in names]
    flows = [*links, *(Link(pair.src, dst) for pair in pairs for dst in pair.dsts)]
    columns = assign_columns(tiles, flows)
    order = band_order(bands, pairs)
    place = {band: i for i, band in enumerate(order)}
    rows, grids = assign_rows(tiles, columns, links)
    ports = ports_of(pairs, columns, place)
    offsets, needs = port_offsets([port for both in ports for port in both])
    centres, gaps, right = column_centres(tiles, columns, rows, needs, INSET)
    xs = {port: gaps[port.gap] + offset for port, offset in offsets.items()}
    planner = EdgePlanner(centres, columns, rows, {tile.id: tile.band for tile in tiles}, grids)
    plans = [planner.link(link) for link in links] + _tag_plans(planner, pairs, ports, xs)
    wire_plan = plan_wires(pairs, ports, xs)
    frames = {band: planner.frame(band) for band in order}
    layout = Layout(columns=centres)
    ground = _stack(layout, order, bands, frames, wire_plan, right)
    shift = ground.left + TITLE
    for tile in tiles:
        frame, row = frames[tile.band], rows[tile.id]
        column = columns[tile.id]
        y = frame.y(Level("row", row))
        layout.tiles[tile.id] = Placed(centres[column] + shift, y, column, row)
    layout.columns = [x + shift for x in centres]
    layout.routes = [_shifted(plan, shift).settle(frames[plan.band]) for plan in plans]
    shifted = {port: x + shift for port, x in xs.items()}
    layout.wires = settle_wires(wire_plan, pairs, ports, shifted, ground)
    return layout


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


def _stack(
    layout: Layout,
    order: Sequence[str],
    bands: Mapping[str, str],
    frames: Mapping[str, BandFrame],
    plan: WirePlan,
    right: float,
) -> Ground:
    """Stacks boxes, bands and channels from the top and says where the channels are."""
    left = max(GUTTER, LANE * (plan.num_lanes.get(False, 0) + 2))
    width = TITLE + right + INSET
    channels: list[tuple[float, float]] = []
    tops: dict[str, float] = {}
    y = 0.0
    for k, band in enumerate([*order, None]):
        above = order[k - 1] if k else None
        is_outer = above is None or band is None
        is_new = is_outer or bands[above or ""] != bands[band or ""]
        if above is not None and is_new:
            y += INSET
            box = bands[above]
            layout.boxes.append(Box(box, "", left, tops[box], width, y - tops[box]))
            frames[above].edge_bottom = y
        height = channel_height(plan.num_tracks.get(k, 0), is_new, is_outer)
        channels.append((y, height))
        y += height
        if band is not None:
            y = _place_band(layout, frames[band], band, bands, tops, y, is_new, left, right)
    layout.height = y
    layout.width = left + width + max(GUTTER, LANE * (plan.num_lanes.get(True, 0) + 2))
    return Ground(channels, left, left + width)


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
