"""What crosses in a graph crosses because it must: tracks of channels, tiles of columns."""

import random

from vizdist.figures.graph_rows import assign_rows
from vizdist.figures.graph_shapes import Link, Tile
from vizdist.figures.graph_uncross import Run, order_columns, order_tracks


def down(start: float, end: float) -> Run:
    return Run(min(start, end), max(start, end), (start,), (end,))


def crossings(runs: list[Run], tracks: list[int]) -> int:
    """Counted at the crossing itself: a vertical part at an x within a horizontal one."""
    found = 0
    for a, on in zip(runs, tracks, strict=True):
        for b, over in zip(runs, tracks, strict=True):
            found += sum(a.holds(x) for x in b.above if over > on)
            found += sum(a.holds(x) for x in b.below if over < on)
    return found


def test_of_two_wires_that_go_the_same_way_the_one_ahead_takes_the_upper_track() -> None:
    assert order_tracks([down(0, 30), down(20, 50)], [0, 1]) == [1, 0]
    assert order_tracks([down(30, 0), down(50, 20)], [0, 1]) == [0, 1]


def test_wires_far_apart_are_ordered_apart() -> None:
    to_the_right, to_the_left = [down(0, 30), down(20, 50)], [down(130, 100), down(150, 120)]
    assert order_tracks([*to_the_right, *to_the_left], [0, 1, 0, 1]) == [1, 0, 0, 1]


def test_an_order_of_tracks_never_has_more_crossings_than_it_was_given() -> None:
    chance = random.Random(7)
    for _ in range(50):
        runs = [down(chance.uniform(0, 100), chance.uniform(0, 100)) for _ in range(6)]
        tracks = list(range(6))
        found = order_tracks(runs, tracks)
        assert sorted(found) == tracks
        assert crossings(runs, found) <= crossings(runs, tracks)


def test_tiles_of_a_column_stand_in_the_order_of_what_they_are_linked_to() -> None:
    tiles = [Tile(name, "w", "w") for name in ("a", "b", "c", "d")]
    columns = {"a": 0, "b": 0, "c": 1, "d": 1}
    links = [Link("a", "d"), Link("b", "c")]
    rows = {"a": 0, "b": 1, "c": 0, "d": 1}
    found = order_columns(tiles, columns, rows, links)
    assert found["a"] == found["d"] != found["b"] == found["c"]


def test_an_order_of_columns_keeps_every_cell_and_makes_no_link_longer_in_sum() -> None:
    chance = random.Random(3)
    tiles = [Tile(f"n{i}", "w", "w") for i in range(40)]
    columns = {tile.id: i // 5 for i, tile in enumerate(tiles)}
    links = [
        Link(f"n{chance.randrange(i // 5 * 5)}", f"n{i}") for i in range(5, 40) for _ in range(2)
    ]
    rows, _ = assign_rows(tiles, columns, links)
    found = order_columns(tiles, columns, rows, links)

    def length(of: dict[str, int]) -> int:
        return sum(abs(of[link.src] - of[link.dst]) for link in links)

    assert {(columns[n], found[n]) for n in found} == {(columns[n], rows[n]) for n in rows}
    assert length(found) < length(rows)
