"""Level of detail: the longest span per pixel and row of a window, exactly.

Spans of a row do not overlap and are sorted, so a pixel's spans are one slice (`searchsorted` of
the pixel edges) and their longest is one `maximum.reduceat` over keys that pack duration and
position (the idea of Perfetto's slice mipmap, without the pyramid).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.store.problems import TraceError
from vizdist.store.segments import Array
from vizdist.store.spans import Spans

WIDTHS = range(16, 4097)  #: pixels a tile may be wide
LEFT = -1  #: the "pixel" of a span that began before the window
NEVER_MERGED = Flag.ERROR | Flag.UNFINISHED


@dataclass(frozen=True, slots=True)
class TileSet:
    """What is drawn of a window; `share` (0 to 1) is the busy part of the pixel of a span."""

    start: int
    end: int
    rows: range
    spans: Spans
    share: Array


class _Picks(NamedTuple):
    """Chosen spans: place in the table, pixel of their start, and that pixel's busy share."""

    place: Array
    pixel: Array
    share: Array


@dataclass(frozen=True)
class TileIndex:
    """The sorted spans of one segment, or some of them.

    `position` is each span's place in the trace's table; `low` and `high` bound each row's slice.
    """

    start: Array
    end: Array
    position: Array
    low: Array
    high: Array

    @cached_property
    def _bits(self) -> int:
        return max(1, len(self.start).bit_length())

    @cached_property
    def _keys(self) -> Array:
        """Duration above position: the greatest key is the longest span, the latest of equals."""
        longest = (1 << (63 - self._bits)) - 1
        duration = np.clip(self.end - self.start, 0, longest)
        keys: Array = (duration << self._bits) | np.arange(len(self.start))
        return keys

    @cached_property
    def _busy(self) -> Array:
        """ns covered by the first n spans; differences within a row are its busy time."""
        total = np.zeros(len(self.start) + 1, np.int64)
        np.cumsum(np.maximum(self.end - self.start, 0), out=total[1:])
        return total

    def cuts(self, row: int, edges: Array) -> Array:
        """Where each pixel's spans of a row begin."""
        low, high = int(self.low[row]), int(self.high[row])
        cuts: Array = low + np.searchsorted(self.start[low:high], edges)
        return cuts

    def pick(self, row: int, cuts: Array, left: int) -> tuple[Array, Array]:
        """(places, pixels): the longest span that starts in a pixel, and what is open at `left`."""
        first, last = int(cuts[0]), int(cuts[-1])
        pixels = np.flatnonzero(cuts[1:] > cuts[:-1])
        chosen = np.empty(0, np.int64)
        if len(pixels):
            best = np.maximum.reduceat(self._keys[first:last], cuts[pixels] - first)
            chosen = best & ((1 << self._bits) - 1)
        if first > self.low[row] and self.end[first - 1] > left:
            chosen = np.concatenate(([first - 1], chosen))
            pixels = np.concatenate(([LEFT], pixels))
        return self.position[chosen], pixels

    def busy(self, row: int, cuts: Array, edges: Array) -> Array:
        """ns of every pixel that the row's spans cover."""
        low = self.low[row]
        before = np.maximum(cuts - 1, 0)
        overhang = np.where(cuts > low, np.maximum(self.end[before] - edges, 0), 0)
        covered: Array = self._busy[cuts] - overhang
        return np.diff(covered)


def index_spans(spans: Spans, parts: Sequence[range]) -> list[TileIndex]:
    """An index for each part of the table that is sorted by start within each of its rows."""
    return [_index(spans, np.arange(part.start, part.stop)) for part in parts]


def index_flagged(spans: Spans) -> TileIndex:
    """An index of the spans that no other span may hide."""
    flagged = np.flatnonzero(spans.flags & NEVER_MERGED)
    return _index(spans, flagged[np.lexsort((spans.start[flagged], spans.row[flagged]))])


def _index(spans: Spans, position: Array) -> TileIndex:
    row = spans.row[position]
    low = np.zeros(len(spans.rows), np.int64)
    high = np.zeros(len(spans.rows), np.int64)
    if len(row):
        begins = np.concatenate(([0], np.flatnonzero(row[1:] != row[:-1]) + 1))
        low[row[begins]] = begins
        high[row[begins]] = np.append(begins[1:], len(row))
    return TileIndex(spans.start[position], spans.end[position], position, low, high)


def cut_tiles(
    spans: Spans,
    indexes: Sequence[TileIndex],
    flagged: TileIndex,
    window: tuple[int, int],
    width: int,
    rows: range,
    selected: int = -1,
) -> TileSet:
    """The tiles of a window (ns since the epoch); `selected` is a place in the table or -1."""
    start, end = window
    _check(start, end, width)
    rows = range(max(0, rows.start), min(len(spans.rows), rows.stop))
    edges = pixel_edges(start, end, width)
    picked = [_pick_row(spans, indexes, flagged, row, edges) for row in rows]
    index = np.concatenate([np.empty(0, np.int64), *(picks.place for picks in picked)])
    share = np.concatenate([np.empty(0), *(picks.share for picks in picked)])
    if selected >= 0 and spans.row[selected] in rows and selected not in index:
        index, share = np.append(index, selected), np.append(share, 1.0)
    return TileSet(start, end, rows, spans.take(index), share.astype(np.float32))


def pixel_edges(start: int, end: int, width: int) -> Array:
    """width + 1 instants; pixel n holds what starts from edge n to before edge n + 1."""
    edges = start + (np.arange(width + 1) * ((end - start) / width)).astype(np.int64)
    edges[-1] = end
    return edges


def _check(start: int, end: int, width: int) -> None:
    if end <= start:
        raise TraceError(f"a window must end after it starts; {start} to {end} does not")
    if width not in WIDTHS:
        raise TraceError(f"a tile is {WIDTHS.start} to {WIDTHS.stop - 1} pixels wide, not {width}")


def _pick_row(
    spans: Spans, indexes: Sequence[TileIndex], flagged: TileIndex, row: int, edges: Array
) -> _Picks:
    found = []
    busy = np.zeros(len(edges) - 1, np.int64)
    for index in indexes:
        if index.low[row] < index.high[row]:
            cuts = index.cuts(row, edges)
            found.append(index.pick(row, cuts, int(edges[0])))
            busy += index.busy(row, cuts, edges)
    place, pixel = found[0] if len(found) == 1 else _longest(spans, found)
    share = np.clip(busy / np.maximum(np.diff(edges), 1), 0.0, 1.0)[np.maximum(pixel, 0)]
    forced, forced_pixel = flagged.pick(row, flagged.cuts(row, edges), int(edges[0]))
    new = ~np.isin(forced, place)
    return _Picks(
        np.concatenate((place, forced[new])),
        np.concatenate((pixel, forced_pixel[new])),
        np.concatenate((share, np.ones(int(new.sum())))),
    )


def _longest(spans: Spans, found: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The longest per pixel of what several segments chose."""
    place = np.concatenate([np.empty(0, np.int64), *(places for places, _ in found)])
    pixel = np.concatenate([np.empty(0, np.int64), *(pixels for _, pixels in found)])
    order = np.lexsort((spans.end[place] - spans.start[place], pixel))
    place, pixel = place[order], pixel[order]
    last = np.append(pixel[1:] != pixel[:-1], True)[: len(pixel)]
    return place[last], pixel[last]
