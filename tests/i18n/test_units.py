"""Numbers as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vizdist.i18n.units import duration, micros, percentages, size, tied


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 µs"),
        (850, "0.85 µs"),
        (170_000, "170 µs"),
        (1_580_000, "1.58 ms"),
        (9_240_000, "9.24 ms"),
        (19_600_000, "19.6 ms"),
        (199_000_000, "199 ms"),
        (6_410_000_000, "6.41 s"),
        (-8_100_000, "-8.10 ms"),
    ],
)
def test_a_duration_has_three_figures_and_one_unit(ns: int, text: str) -> None:
    assert str(duration(ns)) == text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0 B"),
        (52, "52 B"),
        (1_064, "1.04 KiB"),
        (802_816, "784 KiB"),
        (32_610_713, "31.1 MiB"),
        (5 * 1024**4, "5,120 GiB"),
    ],
)
def test_a_size_is_binary(num_bytes: int, text: str) -> None:
    assert str(size(num_bytes)) == text


def test_micros_are_grouped() -> None:
    assert micros(4_305_400) == "4,305"


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=8).filter(any))
def test_percentages_add_up_to_a_hundred(parts: list[int]) -> None:
    shares = percentages([float(part) for part in parts])
    assert round(sum(shares), 6) == 100
    assert all(
        abs(share - 100 * part / sum(parts)) < 0.1000001
        for share, part in zip(shares, parts, strict=True)
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("took 9.24 ms on worker:1", "took 9.24\u00a0ms on worker:1"),
        ("8.00 KiB, 38.7 % of it", "8.00\u00a0KiB, 38.7\u00a0% of it"),
        ("3 messages of 2 B", "3 messages of 2\u00a0B"),
        ("在第 401 步", "在第\u00a0401\u00a0步"),
    ],
)
def test_a_number_and_its_unit_stay_on_one_line(text: str, shown: str) -> None:
    assert tied(text) == shown
