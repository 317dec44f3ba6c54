"""A layout keeps its promises on real partitions and on random ones."""

import itertools
import time
from typing import Any

import pytest

from tests.figures.golden_stages import client_rows, device_rows, golden, random_rows
from tracer.model.graph_table import NodeRow
from vizdist.figures.graph_layout import lay_out
from vizdist.figures.graph_shapes import TILE, Layout, Link, Pair, Tile, pack_intervals
from vizdist.figures.partitioned_graph import graph_payload

GOLDENS = (
    "i_recv_dedup__grpc",
    "ii_control_and_data__grpc",
    "iii_diamond__grpc",
    "viii_mlp_ref_1ps__grpc",
    "viii_mlp_ref_2ps__grpc",
    "viii_mlp_momentum_2ps__grpc",
    "viii_mlp_resource_1ps__grpc",
    "vi_while_three_devices__grpc",
    "x_pruned__grpc",
)
RANDOM = tuple(f"random {seed} {size} {devices}" for seed, size, devices in
               ((1, 60, 3), (2, 120, 5), (3, 40, 1), (4, 200, 8)))  # fmt: skip
ALL = (*GOLDENS, *RANDOM)
Segment = tuple[float, float, float, float]


def rows_of(case: str) -> list[NodeRow]:
    if case.startswith("random"):
        _, seed, size, devices = case.split()
        return random_rows(int(seed), int(size), int(devices))
    return device_rows(case)


@pytest.fixture(scope="module")
def payloads() -> dict[str, dict[str, Any]]:
    return {case: graph_payload({"device": rows_of(case)}, "device") for case in ALL}


def segments(points: list[list[float]]) -> list[Segment]:
    return [(ax, ay, bx, by) for (ax, ay), (bx, by) in itertools.pairwise(points)]


def share_a_stretch(a: Segment, b: Segment) -> bool:
    """Two right-angled pieces lie on each other for more than a point."""
    for one, two in ((0, 1), (1, 0)):  # vertical, then horizontal
        if a[one] == a[one + 2] == b[one] == b[one + 2]:
            lows, highs = zip(
                sorted((a[two], a[two + 2])), sorted((b[two], b[two + 2])), strict=True
            )
            if max(lows) < min(highs):
                return True
    return False


def crosses(segment: Segment, x0: float, y0: float, x1: float, y1: float) -> bool:
    """A piece runs through the inside of a rectangle."""
    ax, bx = sorted((segment[0], segment[2]))
    ay, by = sorted((segment[1], segment[3]))
    return ax < x1 and bx > x0 and ay < y1 and by > y0


@pytest.mark.parametrize("case", ALL)
def test_no_two_tiles_overlap(payloads: dict[str, Any], case: str) -> None:
    places = [(tile["x"], tile["y"]) for tile in payloads[case]["tiles"]]
    near = [
        (a, b)
        for a, b in itertools.combinations(places, 2)
        if abs(a[0] - b[0]) < TILE and abs(a[1] - b[1]) < TILE
    ]
    assert not near


@pytest.mark.parametrize("case", ALL)
def test_tiles_lie_in_their_bands_and_bands_in_their_boxes(
    payloads: dict[str, Any], case: str
) -> None:
    payload = payloads[case]
    bands = {band["id"]: band for band in payload["bands"]}
    boxes = {box["id"]: box for box in payload["boxes"]}
    for tile in payload["tiles"]:
        band = bands[tile["band"]]
        assert band["x"] <= tile["x"] - TILE / 2
        assert tile["x"] + TILE / 2 <= band["x"] + band["w"]
        assert band["y"] <= tile["y"] - TILE / 2
        assert tile["y"] + TILE / 2 <= band["y"] + band["h"]
    for band in bands.values():
        box = boxes[band["box"]]
        assert box["y"] <= band["y"]
        assert band["y"] + band["h"] <= box["y"] + box["h"]
    tops = sorted((box["y"], box["y"] + box["h"]) for box in boxes.values())
    assert all(above[1] <= below[0] for above, below in itertools.pairwise(tops))


@pytest.mark.parametrize("case", ALL)
def test_wires_never_share_a_stretch(payloads: dict[str, Any], case: str) -> None:
    wires = payloads[case]["wires"]
    pieces = [(wire["id"], piece) for wire in wires for piece in segments(wire["points"])]
    shared = [
        (one, two)
        for (one, a), (two, b) in itertools.combinations(pieces, 2)
        if one != two and share_a_stretch(a, b)
    ]
    assert not shared


@pytest.mark.parametrize("case", ALL)
def test_no_wire_crosses_a_band(payloads: dict[str, Any], case: str) -> None:
    payload = payloads[case]
    for wire, band in itertools.product(payload["wires"], payload["bands"]):
        area = band["x"], band["y"], band["x"] + band["w"], band["y"] + band["h"]
        assert not any(crosses(piece, *area) for piece in segments(wire["points"]))


@pytest.mark.parametrize("case", ALL)
def test_edges_run_between_tiles_never_over_them(payloads: dict[str, Any], case: str) -> None:
    payload = payloads[case]
    half = TILE / 2 - 0.2  # an edge may touch the tile it ends at
    for link, tile in itertools.product(payload["links"], payload["tiles"]):
        x, y = tile["x"], tile["y"]
        area = x - half, y - half, x + half, y + half
        assert not any(crosses(piece, *area) for piece in segments(link["points"])), (link, tile)


@pytest.mark.parametrize("case", ALL)
def test_every_piece_is_right_angled(payloads: dict[str, Any], case: str) -> None:
    payload = payloads[case]
    for item in (*payload["wires"], *payload["links"]):
        assert all(ax == bx or ay == by for ax, ay, bx, by in segments(item["points"]))


@pytest.mark.parametrize("case", GOLDENS)
def test_every_pair_of_the_golden_cut_is_in_one_wire(payloads: dict[str, Any], case: str) -> None:
    transfers = golden(case)["summary"]["transfers"]
    wires = payloads[case]["wires"]
    ends = sorted((row["send_node"], row["recv_nodes"][0]) for row in transfers)
    assert sorted((part["send"], part["recv"]) for wire in wires for part in wire["parts"]) == ends
    control = sum(row["kind"] == "control" for row in transfers)
    assert sum(len(wire["parts"]) for wire in wires if wire["control"]) == control


@pytest.mark.parametrize("case", GOLDENS)
def test_a_wire_ends_where_its_consumers_are(payloads: dict[str, Any], case: str) -> None:
    parts = {part["recv"]: part for wire in payloads[case]["wires"] for part in wire["parts"]}
    for row in golden(case)["summary"]["transfers"]:
        part = parts[row["recv_nodes"][0]]
        wanted = row.get("control_consumers") or [c["node"] for c in row["consumers"]]
        assert sorted(part["dsts"]) == sorted(set(wanted))
        assert part["src"] == row["source"].removeprefix("^").partition(":")[0]


def test_equal_ranks_stand_at_one_x_in_every_box() -> None:
    tiles, links = [], []
    for box in "abc":
        names = [f"{box}{i}" for i in range(5)]
        tiles += [Tile(name, box, box, label_width=30 + 20 * i) for i, name in enumerate(names)]
        links += [Link(*ends) for ends in itertools.pairwise(names)]
    layout = lay_out(tiles, links, [], {box: box for box in "abc"})
    for i in range(5):
        assert len({layout.tiles[f"{box}{i}"].x for box in "abc"}) == 1


def test_a_variable_stands_right_before_its_reader() -> None:
    chain = [Tile(f"n{i}", "w", "w") for i in range(6)]
    links = [Link(f"n{i}", f"n{i + 1}") for i in range(5)]
    late = Tile("v", "w", "w", late=True)
    layout = lay_out([late, *chain], [*links, Link("v", "n4")], [], {"w": "w"})
    assert layout.tiles["v"].column == layout.tiles["n3"].column


def chain_over(bands: dict[str, str], pairs: list[tuple[str, str]]) -> Layout:
    tiles = [Tile(band, box, band) for band, box in bands.items()]
    made = [Pair(f"{a}{b}", a, (b,), a, b, num_bytes=1) for a, b in pairs]
    return lay_out(tiles, [], made, bands)


def test_boxes_that_exchange_most_are_neighbours() -> None:
    bands = {name: name for name in ("ps:0", "ps:1", "worker:0")}
    layout = chain_over(bands, [("ps:0", "worker:0"), ("ps:1", "worker:0")])
    assert [box.id for box in layout.boxes] == ["ps:0", "worker:0", "ps:1"]


def test_a_pair_of_distant_boxes_goes_round_in_a_gutter() -> None:
    names = ("a", "b", "c")
    pairs = [*itertools.permutations(names, 2)]
    layout = chain_over({name: name for name in names}, pairs)
    left = min(box.x for box in layout.boxes)
    around = [wire for wire in layout.wires if len(wire.points) == 6]
    assert len(around) == 2
    assert all(min(x for x, _ in wire.points) < left for wire in around)


def test_two_devices_of_a_task_are_bands_of_one_box() -> None:
    layout = chain_over({"cpu": "w", "gpu": "w"}, [("cpu", "gpu"), ("gpu", "cpu")])
    assert [box.id for box in layout.boxes] == ["w"]
    assert [band.id for band in layout.bands] == ["cpu", "gpu"]
    top, bottom = layout.bands
    ys = {y for wire in layout.wires for _, y in wire.points}
    assert min(ys) == top.y + top.height
    assert max(ys) == bottom.y


def test_tracks_hold_no_two_intervals_that_touch() -> None:
    intervals = [(0.0, 5.0), (5.0, 9.0), (1.0, 2.0), (6.0, 7.0), (10.0, 12.0)]
    tracks = pack_intervals(intervals)
    assert tracks[0] != tracks[1]
    assert max(tracks) == 1


def test_a_graph_without_variables_has_no_phase_that_reads_them(payloads: dict[str, Any]) -> None:
    looped = payloads["vi_while_three_devices__grpc"]
    assert "read" not in {one["phase"] for one in looped["phases"]}
    trained = payloads["viii_mlp_ref_1ps__grpc"]
    assert trained["phases"][0]["phase"] == "read"


def test_an_empty_graph_has_an_empty_layout() -> None:
    layout = lay_out([], [], [], {})
    assert (layout.tiles, layout.wires, layout.boxes) == ({}, [], [])


def test_the_client_graph_is_one_box_without_wires() -> None:
    payload = graph_payload({"full": client_rows("viii_mlp_ref_2ps__grpc")}, "full")
    assert [box["id"] for box in payload["boxes"]] == [""]
    assert payload["wires"] == []
    assert not payload["isCut"]


def test_two_thousand_nodes_are_laid_out_while_one_blinks() -> None:
    """A loose bound: what took 60 s in force layouts must not come back."""
    rows = random_rows(5, 2000, 6, fan_in=1)
    graph_payload({"device": rows}, "device")
    begun = time.process_time()
    payload = graph_payload({"device": rows}, "device")
    assert time.process_time() - begun < 1.0
    assert len(payload["nodes"]) == 2000
