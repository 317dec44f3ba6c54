"""Numbers as people read them: one unit, three figures, a space before it."""

import re
from typing import NamedTuple

#: Spaces that no line may end at: between a number and its unit, or its Chinese counting word.
_TIES = re.compile(
    r"(?<=\d) (?=(?:[µmn]?s|B|[KMG]iB|%)(?![a-z])|[\u4e00-\u9fff×])|(?<=[第×]) (?=\d)"
)

_US = 1_000
_MS = 1_000_000
_S = 1_000_000_000


class Quantity(NamedTuple):
    """A number and its unit, apart, so that a page may set them in different weights."""

    number: str
    unit: str

    def __str__(self) -> str:
        return f"{self.number} {self.unit}"


def figures(value: float) -> str:
    """Three figures, grouped: 1.58, 22.7, 784, 4,305; 0 stays 0."""
    magnitude = abs(value)
    if magnitude >= 99.95 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if magnitude >= 9.995 else f"{value:.2f}"


def duration(ns: float) -> Quantity:
    """ns → µs below 1 ms, else ms, else s; whole hours are never needed for a step."""
    magnitude = abs(ns)
    if magnitude < _MS:
        return Quantity(figures(round(ns / _US, 2)), "µs")
    if magnitude < _S:
        return Quantity(figures(ns / _MS), "ms")
    return Quantity(figures(ns / _S), "s")


def micros(ns: float) -> str:
    """A part of a step in whole µs, grouped, without its unit."""
    return f"{round(ns / _US):,}"


def us(ns: int) -> str:
    """Whole µs; what is there is never shown as nothing."""
    return f"{micros(ns)} µs" if ns >= 1000 or not ns else f"{ns:,} ns"


def size(num_bytes: float) -> Quantity:
    """Bytes in binary units: 52 B, 1.04 KiB, 784 KiB, 31.1 MiB."""
    value, units = float(num_bytes), ["B", "KiB", "MiB", "GiB"]
    unit = units.pop(0)
    while abs(value) >= 999.5 and units:
        value, unit = value / 1024, units.pop(0)
    return Quantity(f"{value:,.0f}" if unit == "B" else figures(value), unit)


def tied(text: str) -> str:
    """With no-break spaces where a number and what it counts stand together."""
    return _TIES.sub("\u00a0", text)


def percentages(parts: list[float], decimals: int = 1) -> list[float]:
    """Shares of the sum in percent that add up to 100 exactly (largest remainder)."""
    total = sum(parts)
    if total <= 0:
        return [0.0] * len(parts)
    scale = 10**decimals
    raw = [part * 100 * scale / total for part in parts]
    floors = [int(value) for value in raw]
    by_remainder = sorted(range(len(raw)), key=lambda i: floors[i] - raw[i])
    for at in by_remainder[: 100 * scale - sum(floors)]:
        floors[at] += 1
    return [value / scale for value in floors]
