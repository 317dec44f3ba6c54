"""Level of detail: the longest span per pixel and row of a window, exactly.

Spans of a row do not overlap and are sorted, so a pixel's spans are one slice (`searchsorted` of the
pixel edges) and their longest is one `maximum.reduceat` over keys that pack duration and position
(the idea of Perfetto's slice mipmap, without the pyramid).
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
    """What is drawn of a window. `share` is the busy part of the pixel a span stands for, 0 to 1."""

    start: int
    end: int
    rows: range
    spans: Spans
    share: Array


class _Picks(NamedTuple):
    """Chosen spans: place in the table, pixel it starts in, and the pixel's busy share."""

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

    def pick(self, row: int, edges: Array) -> _Picks | None:
        """The longest span that starts in each pixel, and what reaches in from the left."""
        low, high = int(self.low[row]), int(self.high[row])
        if low == high:
            return None
        cuts = low + np.searchsorted(self.start[low:high], edges)
        first, last = int(cuts[0]), int(cuts[-1])
        share = self._share(low, cuts, edges)
        pixels = np.flatnonzero(cuts[1:] > cuts[:-1])
        chosen = np.empty(0, np.int64)
        if len(pixels):
            best = np.maximum.reduceat(self._keys[first:last], cuts[pixels] - first)
            chosen = best & ((1 << self._bits) - 1)
        shares = share[pixels]
        if first > low and self.end[first - 1] > edges[0]:
            chosen = np.concatenate(([first - 1], chosen))
            pixels = np.concatenate(([LEFT], pixels))
            shares = np.concatenate((share[:1], shares))
        return _Picks(self.position[chosen], pixels, shares)

    def _share(self, low: int, cuts: Array, edges: Array) -> Array:
        before = np.maximum(cuts - 1, low)
        overhang = np.where(cuts > low, np.maximum(self.end[before] - edges, 0), 0)
        covered = self._busy[cuts] - overhang
        return np.clip(np.diff(covered) / np.maximum(np.diff(edges), 1), 0.0, 1.0)


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
    """width + 1 instants; pixel n holds what starts from edge n up to, not including, edge n + 1."""
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
    merged = _merge(spans, [p for i in indexes if (p := i.pick(row, edges)) is not None])
    forced = flagged.pick(row, edges)
    if forced is None:
        return merged
    new = ~np.isin(forced.place, merged.place)
    return _Picks(
        np.concatenate((merged.place, forced.place[new])),
        np.concatenate((merged.pixel, forced.pixel[new])),
        np.concatenate((merged.share, np.ones(int(new.sum())))),
    )


def _merge(spans: Spans, found: Sequence[_Picks]) -> _Picks:
    """The longest per pixel of what several segments chose."""
    if len(found) == 1:
        return found[0]
    index = np.concatenate([np.empty(0, np.int64), *(picks.place for picks in found)])
    pixel = np.concatenate([np.empty(0, np.int64), *(picks.pixel for picks in found)])
    share = np.concatenate([np.empty(0), *(picks.share for picks in found)])
    order = np.lexsort((spans.end[index] - spans.start[index], pixel))
    index, pixel, share = index[order], pixel[order], share[order]
    last = np.append(pixel[1:] != pixel[:-1], True)[: len(pixel)]
    sums = np.bincount(pixel - LEFT, share)[pixel[last] - LEFT] if len(pixel) else share
    return _Picks(index[last], pixel[last], np.minimum(sums, 1.0))
