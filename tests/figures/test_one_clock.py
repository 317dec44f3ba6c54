"""Bars of a step on a clock that several steps share."""

import numpy as np
import pytest

from vizdist.analysis.step_split import CLASSES, Lane
from vizdist.figures.one_clock import COLUMNS, Bar, bars, ticks


def lane(*stretches: tuple[str, int]) -> Lane:
    """Stretches of (class, ns), one behind another."""
    edges = 1_000 + np.cumsum([0, *(ns for _, ns in stretches)])
    return Lane("worker:0", edges, np.array([CLASSES.index(part) for part, _ in stretches]))


def test_a_bar_lies_where_its_time_does() -> None:
    found = bars(lane(("compute", 300), ("other", 100), ("transfer", 500)), COLUMNS)
    assert found == [Bar("compute", 0, 300), Bar("other", 300, 400), Bar("transfer", 400, 900)]


def test_a_short_step_keeps_its_length_on_a_long_clock() -> None:
    [bar] = bars(lane(("compute", 9_000)), 90_000)
    assert (bar.start, bar.end) == (0, 9_000)


def test_many_short_stretches_become_the_class_that_has_most_of_a_column() -> None:
    stretches = [("compute", 7), ("rpc", 2), ("other", 1)] * 9_000
    found = bars(lane(*stretches), 90_000)
    assert {bar.part for bar in found} == {"compute"}
    assert sum(bar.end - bar.start for bar in found) == 90_000


def test_a_short_thing_between_much_idleness_is_seen() -> None:
    found = bars(lane(("other", 100_000), ("update", 60), ("other", 79_940)), 180_000)
    assert [bar.part for bar in found] == ["other", "update", "other"]
    assert abs(found[1].start - 100_000) < 180_000 / COLUMNS


def test_a_step_of_no_length_has_no_bar() -> None:
    assert bars(Lane("ps:0", np.array([5]), np.array([], np.int64)), 1) == []


@pytest.mark.parametrize(
    ("clock_ns", "words"),
    [
        (5_820_000, ("0 ms", "1", "2", "3", "4", "5")),
        (604_000, ("0 µs", "100", "200", "300", "400", "500", "600")),
        (2_500_000_000, ("0 s", "0.5", "1", "1.5", "2", "2.5")),
        (1, ("0 ns", "1")),
    ],
)
def test_ticks_are_round(clock_ns: int, words: tuple[str, ...]) -> None:
    found = ticks(clock_ns)
    assert found.words == words
    assert found.at[0] == 0
    assert found.at[-1] <= clock_ns
