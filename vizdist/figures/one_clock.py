"""Steps of several runs on one clock: bars of what a task did, and ticks."""

import math
from typing import NamedTuple

import numpy as np

from vizdist.analysis.step_split import CLASSES, Lane
from vizdist.store.segments import Array

COLUMNS = 900  #: of the clock; a bar is one or more of them
SEEN = 0.25  #: part of a column from which on what happens in it is drawn, if it is not the most


class Bar(NamedTuple):
    """What a task did from `start` to `end`, ns from the start of its step."""

    part: str
    start: int
    end: int


def bars(lane: Lane, clock_ns: int) -> list[Bar]:
    """The lane at the resolution of a clock this long."""
    edges = lane.edges - lane.edges[0]
    took = int(edges[-1])
    count = max(1, math.ceil(COLUMNS * took / max(1, clock_ns)))
    bounds = np.linspace(0, took, count + 1)
    chosen = _chosen(lane.classes, edges, bounds)
    begins = np.flatnonzero(np.append(True, np.diff(chosen) != 0))
    ends = np.append(begins[1:], count)
    found = zip(chosen[begins].tolist(), bounds[begins], bounds[ends], strict=True)
    drawn = [Bar(CLASSES[at], round(a), round(b)) for at, a, b in found]
    return [bar for bar in drawn if bar.start < bar.end]


def _chosen(classes: Array, edges: Array, bounds: Array) -> Array:
    """The class of every column: the one that has most of it; `other` only if little else is."""
    lengths = np.diff(edges)
    shares = np.empty((len(CLASSES), len(bounds) - 1))
    for number in range(len(CLASSES)):
        so_far = np.concatenate([[0], np.cumsum(np.where(classes == number, lengths, 0))])
        shares[number] = np.diff(np.interp(bounds, edges, so_far))
    shares[-1] = np.where(shares[:-1].sum(0) >= SEEN * np.diff(bounds), -1, shares[-1])
    chosen: Array = shares.argmax(0)
    return chosen


class Ticks(NamedTuple):
    """Where a clock has its lines (ns), and what stands over them."""

    at: tuple[int, ...]
    words: tuple[str, ...]


def ticks(clock_ns: int, most: int = 9) -> Ticks:
    """Round times from 0 on; the first one has the unit."""
    rough = max(1.0, clock_ns / most)
    power = 10 ** math.floor(math.log10(rough))
    every = next(f * power for f in (1, 2, 5, 10) if f * power >= rough)
    at = [round(every * number) for number in range(int(clock_ns / every) + 1)]
    unit, ns = next((u, ns) for u, ns in _UNITS if clock_ns >= ns or ns == 1)
    words = [f"{time / ns:g}" for time in at]
    return Ticks(tuple(at), (f"{words[0]} {unit}", *words[1:]))


_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000), ("ns", 1))
