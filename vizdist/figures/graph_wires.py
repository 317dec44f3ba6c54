"""Wires: the ways of Send/Recv pairs between bands, right-angled, in channels and gutters only.

A wire between neighbours runs down its Send's x, along a track of the channel, and on at its
Recv's x. One between bands further apart goes along a track to a lane in the left or right gutter,
past the bands, and along a track of the other channel. Tracks and lanes are given so that no two
wires ever share one on a common stretch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vizdist.figures.graph_ports import Port
from vizdist.figures.graph_shapes import (
    BANDS_APART,
    CHANNEL,
    CHANNEL_AIR,
    LANE,
    PORT_OTHER_SIDE,
    TRACK,
    Pair,
    Point,
    Pointing,
    Wire,
    pack_intervals,
)
from vizdist.figures.graph_uncross import Run, order_tracks

FAR = 1e7  #: where a gutter is, before its place is known


@dataclass(slots=True)
class WirePlan:
    """Tracks and lanes of all wires, before the heights are known.

    `tracks` maps (wire, channel) to a track; `lanes` maps a wire to (is right gutter, lane).
    """

    tracks: dict[tuple[int, int], int] = field(default_factory=dict)
    num_tracks: dict[int, int] = field(default_factory=dict)
    lanes: dict[int, tuple[bool, int]] = field(default_factory=dict)
    num_lanes: dict[bool, int] = field(default_factory=dict)


def plan_wires(
    pairs: Sequence[Pair], ports: Sequence[tuple[Port, Port]], xs: Mapping[Port, float]
) -> WirePlan:
    plan = WirePlan()
    stretches: dict[int, list[tuple[int, tuple[float, float]]]] = {}
    spans: dict[bool, list[tuple[int, tuple[float, float]]]] = {}
    for index, (pair, (send, recv)) in enumerate(zip(pairs, ports, strict=True)):
        if send.channel == recv.channel:
            ends = sorted((xs[send], xs[recv]))
            stretches.setdefault(send.channel, []).append((index, (ends[0], ends[1])))
            continue
        side = pair.by_right_gutter
        for port in (send, recv):
            reach = (xs[port], FAR) if side else (-FAR, xs[port])
            stretches.setdefault(port.channel, []).append((index, reach))
        ends = sorted((send.channel, recv.channel))
        spans.setdefault(side, []).append((index, (float(ends[0]), float(ends[1]))))
    for channel, items in stretches.items():
        tracks = pack_intervals([stretch for _, stretch in items], apart=PORT_OTHER_SIDE)
        plan.num_tracks[channel] = max(tracks) + 1
        runs = [_run(stretch, ports[index], xs, channel) for index, stretch in items]
        tracks = order_tracks(runs, tracks, PORT_OTHER_SIDE)
        for (index, _), track in zip(items, tracks, strict=True):
            plan.tracks[index, channel] = track
    for side, items in spans.items():
        lanes = pack_intervals([span for _, span in items])
        plan.num_lanes[side] = max(lanes) + 1
        for (index, _), lane in zip(items, lanes, strict=True):
            plan.lanes[index] = (side, lane)
    return plan


def _run(
    stretch: tuple[float, float], ends: tuple[Port, Port], xs: Mapping[Port, float], channel: int
) -> Run:
    here = [port for port in ends if port.channel == channel]
    above = tuple(xs[port] for port in here if port.is_top)
    return Run(*stretch, above, tuple(xs[port] for port in here if not port.is_top))


def channel_height(num_tracks: int, is_between_boxes: bool, is_outer: bool) -> float:
    """How far apart two bands' edges are; an outer channel without wires is nothing."""
    needed = 2 * CHANNEL_AIR + TRACK * (num_tracks - 1) if num_tracks else 0.0
    if is_outer:
        return needed
    if is_between_boxes:
        return max(CHANNEL, needed) if num_tracks else CHANNEL / 4
    return max(BANDS_APART, needed)


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the channels (top, height) and the inner ends of the gutters are."""

    channels: Sequence[tuple[float, float]]
    left: float
    right: float

    def track_y(self, channel: int, track: int, count: int) -> float:
        top, height = self.channels[channel]
        return top + height / 2 + TRACK * (track - (count - 1) / 2)

    def lane_x(self, is_right: bool, lane: int) -> float:
        return self.right + LANE * (lane + 1.5) if is_right else self.left - LANE * (lane + 1.5)


def settle_wires(
    plan: WirePlan,
    pairs: Sequence[Pair],
    ports: Sequence[tuple[Port, Port]],
    xs: Mapping[Port, float],
    ground: Ground,
) -> list[Wire]:
    wires = []
    for index, (pair, (send, recv)) in enumerate(zip(pairs, ports, strict=True)):
        begin, end = (_on_edge(port, xs[port], ground) for port in (send, recv))
        out_y, in_y = (
            ground.track_y(
                port.channel, plan.tracks[index, port.channel], plan.num_tracks[port.channel]
            )
            for port in (send, recv)
        )
        points: list[Point] = [begin, (begin[0], out_y)]
        if index in plan.lanes:
            x = ground.lane_x(*plan.lanes[index])
            points += [(x, out_y), (x, in_y)]
        points += [(end[0], in_y), end]
        wires.append(Wire(pair.id, tuple(points), (_out(send), _into(recv))))
    return wires


def _on_edge(port: Port, x: float, ground: Ground) -> Point:
    top, height = ground.channels[port.channel]
    return x, top if port.is_top else top + height


def _out(port: Port) -> Pointing:
    return "down" if port.is_top else "up"


def _into(port: Port) -> Pointing:
    return "up" if port.is_top else "down"
