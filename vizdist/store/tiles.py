"""Level of detail: the longest span per pixel and row of a window, exactly.

Spans of a row do not overlap and are sorted, so a pixel's spans are one slice (`searchsorted` of
the pixel edges) and their longest is one `maximum.reduceat` over keys that pack duration and
position (the idea of Perfetto's slice mipmap, without the pyramid).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from vizdist.store.problems import TraceError
from vizdist.store.segments import Array, Segment
from vizdist.store.spans import Spans

WIDTHS = range(16, 4097)  #: pixels a tile may be wide
LEFT = -1  #: the "pixel" of a span that began before the window


@dataclass(frozen=True, slots=True)
class TileSet:
    """What is drawn of a window; `share` (0 to 1) is the busy part of the pixel of a span.

    `width` is in pixels, 0 where no span hides another.
    """

    start: int
    end: int
    rows: range
    spans: Spans
    share: Array
    width: int = 0


class _Picks(NamedTuple):
    """Chosen spans: place in the table, pixel of their start, and that pixel's busy share."""

    place: Array
    pixel: Array
    share: Array


@dataclass(frozen=True)
class TileIndex:
    """Spans sorted by row and start; `low` and `high` bound each row's slice.

    `first` is the earliest start of all, `last` the latest end.
    """

    start: Array
    end: Array
    low: Array
    high: Array
    first: int
    last: int

    @cached_property
    def _bits(self) -> int:
        return max(1, len(self.start).bit_length())

    @cached_property
    def _rows(self) -> dict[int, tuple[Array, Array]]:
        return {}

    def _of_row(self, row: int) -> tuple[Array, Array]:
        """Keys and busy time of a row's spans, made when it is first looked at.

        A key has duration above position: the greatest is the longest span, the latest of equals.
        Busy time is ns covered by the first n spans; differences are that of the spans between.
        """
        known = self._rows.get(row)
        if known is None:
            low, high = int(self.low[row]), int(self.high[row])
            length = np.maximum(self.end[low:high] - self.start[low:high], 0)
            busy = np.zeros(high - low + 1, np.int64)
            np.cumsum(length, out=busy[1:])
            keys = np.minimum(length, (1 << (63 - self._bits)) - 1, out=length)
            keys <<= self._bits
            keys |= np.arange(high - low)
            known = self._rows[row] = keys, busy
        return known

    def cuts(self, row: int, edges: Array) -> Array:
        """Where each pixel's spans of a row begin."""
        low, high = int(self.low[row]), int(self.high[row])
        cuts: Array = low + np.searchsorted(self.start[low:high], edges)
        return cuts

    def pick(self, row: int, cuts: Array, left: int) -> tuple[Array, Array]:
        """(spans, pixels): the longest span that starts in a pixel, and what is open at `left`."""
        first, last = int(cuts[0]), int(cuts[-1])
        pixels = np.flatnonzero(cuts[1:] > cuts[:-1])
        chosen = np.empty(0, np.int64)
        if len(pixels):
            low, keys = int(self.low[row]), self._of_row(row)[0]
            best = np.maximum.reduceat(keys[first - low : last - low], cuts[pixels] - first)
            chosen = low + (best & ((1 << self._bits) - 1))
        if first > self.low[row] and self.end[first - 1] > left:
            chosen = np.concatenate(([first - 1], chosen))
            pixels = np.concatenate(([LEFT], pixels))
        return chosen, pixels

    def busy(self, row: int, cuts: Array, edges: Array) -> Array:
        """ns of every pixel that the row's spans cover."""
        low = self.low[row]
        before = np.maximum(cuts - 1, 0)
        overhang = np.where(cuts > low, np.maximum(self.end[before] - edges, 0), 0)
        covered: Array = self._of_row(row)[1][cuts - low] - overhang
        return np.diff(covered)


@dataclass(frozen=True, slots=True)
class Part:
    """Some spans of a trace: its row in the index (-1: none) by the trace's row, their places."""

    index: TileIndex
    row: Array
    place: Callable[[Array], Array]


_INDEXES: WeakKeyDictionary[Segment, TileIndex] = WeakKeyDictionary()


def index_segment(segment: Segment) -> TileIndex:
    """Made once a segment, however often its trace grows."""
    known = _INDEXES.get(segment)
    if known is None:
        columns = segment.columns
        known = TileIndex(
            columns["start"], columns["end"], *segment.bounds, segment.start, segment.end
        )
        _INDEXES[segment] = known
    return known


def part_of_segment(segment: Segment, row: Array, first: int) -> Part:
    """`first` is where the segment's spans begin in the trace's table."""
    return Part(index_segment(segment), row, lambda chosen: chosen + first)


def flagged_part(spans: Spans, places: Array) -> Part:
    """The spans at some places, which no other span may hide."""
    chosen = spans.take(places)
    order = np.lexsort((chosen.start, chosen.row))
    row, start, end = chosen.row[order], chosen.start[order], chosen.end[order]
    every = np.arange(len(spans.rows))
    bounds = np.searchsorted(row, every), np.searchsorted(row, every, "right")
    extent = (int(start.min()), int(end.max())) if len(places) else (0, 0)
    in_order = places[order]
    return Part(TileIndex(start, end, *bounds, *extent), every, lambda found: in_order[found])


def cut_tiles(
    spans: Spans,
    parts: Sequence[Part],
    flagged: Part,
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
    views = [view for part in parts if (view := _view(part, edges)) is not None]
    forced = _view(flagged, edges)
    picked = [_pick_row(views, forced, row, edges) for row in rows]
    index = np.concatenate([np.empty(0, np.int64), *(picks.place for picks in picked)])
    share = np.concatenate([np.empty(0), *(picks.share for picks in picked)])
    is_row = selected >= 0 and int(spans.take(np.array([selected])).row[0]) in rows
    if is_row and selected not in index:
        index, share = np.append(index, selected), np.append(share, 1.0)
    return TileSet(start, end, rows, spans.take(index), share.astype(np.float32), width)


class _View(NamedTuple):
    """A part and the pixels that its spans can touch: `edges` begin at that of pixel `first`."""

    part: Part
    first: int
    edges: Array


def _view(part: Part, edges: Array) -> _View | None:
    index = part.index
    if index.first >= edges[-1] or index.last < edges[0]:
        return None
    low = max(0, int(np.searchsorted(edges, index.first, "right")) - 1)
    high = min(len(edges) - 1, int(np.searchsorted(edges, index.last, "right")))
    return _View(part, low, edges[low : max(high, low + 1) + 1])


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


def _pick_row(views: Sequence[_View], forced: _View | None, row: int, edges: Array) -> _Picks:
    found = []
    busy = np.zeros(len(edges) - 1, np.int64)
    for view in views:
        own = int(view.part.row[row])
        if own >= 0:
            cuts = view.part.index.cuts(own, view.edges)
            found.append(_chosen(view, own, cuts))
            of_view = busy[view.first : view.first + len(cuts) - 1]
            of_view += view.part.index.busy(own, cuts, view.edges)
    place, pixel = _longest(found)
    share = np.clip(busy / np.maximum(np.diff(edges), 1), 0.0, 1.0)[np.maximum(pixel, 0)]
    if forced is None:
        return _Picks(place, pixel, share)
    more, more_pixel, _ = _chosen(forced, row, forced.part.index.cuts(row, forced.edges))
    new = ~np.isin(more, place)
    return _Picks(
        np.concatenate((place, more[new])),
        np.concatenate((pixel, more_pixel[new])),
        np.concatenate((share, np.ones(int(new.sum())))),
    )


def _chosen(view: _View, own: int, cuts: Array) -> tuple[Array, Array, Array]:
    """(places, pixels, durations) of what a part shows of a row of its own."""
    index = view.part.index
    chosen, pixels = index.pick(own, cuts, int(view.edges[0]))
    pixels = np.where(pixels == LEFT, LEFT, pixels + view.first)
    return view.part.place(chosen), pixels, index.end[chosen] - index.start[chosen]


def _longest(found: Sequence[tuple[Array, Array, Array]]) -> tuple[Array, Array]:
    """The longest per pixel of what several segments chose."""
    if len(found) == 1:
        return found[0][0], found[0][1]
    empty = np.empty(0, np.int64)
    place, pixel, duration = (
        np.concatenate((empty, *(one[column] for one in found))) for column in range(3)
    )
    order = np.lexsort((duration, pixel))
    place, pixel = place[order], pixel[order]
    last = np.append(pixel[1:] != pixel[:-1], True)[: len(pixel)]
    return place[last], pixel[last]
