"""Tiles are as large as what they stand for, fill their rectangle, and do not overlap."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vizdist.figures.treemap import Tile, tiles

SIZES = st.lists(st.integers(1, 1 << 20), min_size=1, max_size=24).map(
    lambda sizes: sorted(sizes, reverse=True)
)


def overlap(one: Tile, other: Tile) -> float:
    wide = min(one.left + one.width, other.left + other.width) - max(one.left, other.left)
    high = min(one.top + one.height, other.top + other.height) - max(one.top, other.top)
    return max(wide, 0) * max(high, 0)


@given(SIZES, st.integers(20, 900), st.integers(20, 900))
def test_tiles_have_their_areas_and_share_the_rectangle(
    sizes: list[int], width: int, height: int
) -> None:
    found = tiles(sizes, width, height)
    area = width * height
    for size, tile in zip(sizes, found, strict=True):
        assert tile.width * tile.height == pytest.approx(area * size / sum(sizes))
        assert -1e-6 <= tile.left <= tile.left + tile.width <= width + 1e-6
        assert -1e-6 <= tile.top <= tile.top + tile.height <= height + 1e-6
    assert all(overlap(*pair) < 1e-6 * area for pair in combinations(found, 2))


def test_four_equal_tiles_of_a_square_are_squares() -> None:
    assert {(tile.width, tile.height) for tile in tiles([1, 1, 1, 1], 10, 10)} == {(5, 5)}


def test_what_has_no_size_has_no_tile() -> None:
    assert tiles([], 10, 10) == []
    assert tiles([0, 0], 10, 10) == [Tile(0, 0, 0, 0)] * 2
    [whole, none] = tiles([4, 0], 10, 10)
    assert (whole.width * whole.height, none.width * none.height) == (100, 0)
