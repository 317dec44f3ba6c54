"""Level of detail: the longest span per pixel and row of a window, exactly.

Spans of a row do not overlap and are sorted, so a pixel's spans are one slice (`searchsorted` of
the pixel edges) and their longest is one `maximum.reduceat` over keys that pack duration and
position (the idea of Perfetto's slice mipmap, without the pyramid). All else is done for all rows
at once, as calls for every row of every segment would cost more than what they do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from vizdist.store.problems import TraceError
from vizdist.store.segments import Array, Segment
from vizdist.store.spans import Spans

WIDTHS = range(16, 4097)  #: pixels a tile may be wide


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
    _looking: Lock = field(default_factory=Lock)

    @cached_property
    def _bits(self) -> int:
        return max(1, len(self.start).bit_length())

    @cached_property
    def _keys(self) -> Array:
        return np.empty(len(self.start), np.int64)

    @cached_property
    def _busy(self) -> Array:
        return np.empty(len(self.start) + len(self.low), np.int64)

    @cached_property
    def _known(self) -> set[int]:
        return set()

    def _look(self, rows: Array) -> None:
        """Makes keys and busy time of these rows' spans, if they are looked at for the first time.

        A key has duration above position: the greatest is the longest span, the latest of equals.
        Busy time is ns covered by the first n spans of a row, which has room for one more than it
        has spans; differences are that of the spans between.
        """
        with self._looking:
            for row in rows.tolist():
                if row not in self._known:
                    self._look_at(row)
                    self._known.add(row)

    def _look_at(self, row: int) -> None:
        low, high = int(self.low[row]), int(self.high[row])
        length = np.maximum(self.end[low:high] - self.start[low:high], 0)
        self._busy[low + row] = 0
        np.cumsum(length, out=self._busy[low + row + 1 : high + row + 1])
        keys = np.minimum(length, (1 << (63 - self._bits)) - 1, out=self._keys[low:high])
        keys <<= self._bits
        keys |= np.arange(low, high)

    def cuts(self, rows: Array, edges: Array) -> Array:
        """Where each pixel's spans begin, a line for every row."""
        cuts = np.empty((len(rows), len(edges)), np.int64)
        bounds = zip(self.low[rows].tolist(), self.high[rows].tolist(), strict=True)
        for line, (low, high) in zip(cuts, bounds, strict=True):
            np.add(self.start[low:high].searchsorted(edges), low, out=line)
        return cuts

    def longest(self, rows: Array, cuts: Array) -> tuple[Array, Array, Array]:
        """(line, pixel, span): the longest span that starts in each pixel that has one."""
        self._look(rows)
        line, pixel = np.nonzero(cuts[:, 1:] > cuts[:, :-1])
        begins = cuts[line, pixel]
        best = np.empty(len(begins), np.int64)
        parts = np.searchsorted(line, np.arange(len(rows) + 1)).tolist()
        for number, (low, high) in enumerate(pairwise(parts)):
            if low < high:
                first, last = int(begins[low]), int(cuts[number, -1])
                slices = begins[low:high] - first
                np.maximum.reduceat(self._keys[first:last], slices, out=best[low:high])
        best &= (1 << self._bits) - 1
        return line, pixel, best

    def reaching_in(self, rows: Array, cuts: Array, left: int) -> tuple[Array, Array]:
        """(line, span): what began before `left` and is still open there."""
        first = cuts[:, 0]
        line = np.flatnonzero(first > self.low[rows])
        span = first[line] - 1
        is_open = self.end[span] > left
        return line[is_open], span[is_open]

    def busy(self, rows: Array, cuts: Array, edges: Array) -> Array:
        """ns of every pixel that spans cover, a line for every row."""
        self._look(rows)
        overhang = self.end[np.maximum(cuts - 1, 0)] - edges
        np.maximum(overhang, 0, out=overhang)
        overhang *= cuts > self.low[rows, np.newaxis]
        covered: Array = self._busy[cuts + rows[:, np.newaxis]] - overhang
        return covered[:, 1:] - covered[:, :-1]


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
    picture = _Picture(rows, edges)
    for part in parts:
        picture.add(part)
    places, share = picture.with_flagged(flagged)
    is_row = selected >= 0 and int(spans.take(np.array([selected])).row[0]) in rows
    if is_row and selected not in places:
        places, share = np.append(places, selected), np.append(share, 1.0)
    return TileSet(start, end, rows, spans.take(places), share.astype(np.float32), width)


class _Picture:
    """The longest span of every pixel so far, a line for every row.

    Column 0 holds what began before the window, column n + 1 what starts in pixel n.
    """

    def __init__(self, rows: range, edges: Array) -> None:
        self._rows = np.arange(rows.start, rows.stop)
        self._edges = edges
        self._place = np.full((len(self._rows), len(edges)), -1, np.int64)
        self._duration = np.full(self._place.shape, -1, np.int64)
        self._busy = np.zeros((len(self._rows), len(edges) - 1), np.int64)

    def add(self, part: Part) -> None:
        """The spans of one part; of equals those of the later part are kept."""
        view = _view(part, self._edges)
        if view is None:
            return
        line, rows, cuts = self._cut(view)
        index = part.index
        self._busy[line, view.first : view.first + cuts.shape[1] - 1] += index.busy(
            rows, cuts, view.edges
        )
        for found, column, span in _found(view, rows, cuts):
            at = line[found], column
            duration = index.end[span] - index.start[span]
            is_longer = duration >= self._duration[at]
            self._duration[at] = np.where(is_longer, duration, self._duration[at])
            self._place[at] = np.where(is_longer, part.place(span), self._place[at])

    def _cut(self, view: "_View") -> tuple[Array, Array, Array]:
        """Lines of which a part has spans, their rows there, and where their pixels begin."""
        own = view.part.row[self._rows]
        line = np.flatnonzero(own >= 0)
        return line, own[line], view.part.index.cuts(own[line], view.edges)

    def with_flagged(self, flagged: Part) -> tuple[Array, Array]:
        """Places and shares by row: what was found by pixel, then the flagged that it hides."""
        line, column = np.nonzero(self._place >= 0)
        pixel = np.maximum(column - 1, 0)
        busy = self._busy[line, pixel] / np.maximum(np.diff(self._edges), 1)[pixel]
        place, share = self._place[line, column], np.clip(busy, 0.0, 1.0)
        more_line, more = self._hidden(flagged)
        if not len(more):
            return place, share
        order = np.argsort(np.concatenate((line, more_line)), kind="stable")
        shares = np.concatenate((share, np.ones(len(more))))
        return np.concatenate((place, more))[order], shares[order]

    def _hidden(self, flagged: Part) -> tuple[Array, Array]:
        """(line, place) of the longest flagged span of each pixel that shows another one."""
        lines, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        if (view := _view(flagged, self._edges)) is not None:
            line, rows, cuts = self._cut(view)
            for found, column, span in _found(view, rows, cuts):
                place = flagged.place(span)
                is_new = place != self._place[line[found], column]
                lines.append(line[found][is_new])
                places.append(place[is_new])
        return np.concatenate(lines), np.concatenate(places)


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


def _found(view: _View, rows: Array, cuts: Array) -> Iterator[tuple[Array, Array, Array]]:
    """(line, column, span) of what starts in a pixel, then of what reaches in from the left."""
    index = view.part.index
    line, pixel, span = index.longest(rows, cuts)
    yield line, pixel + view.first + 1, span
    line, span = index.reaching_in(rows, cuts, int(view.edges[0]))
    yield line, np.zeros(len(line), np.int64), span
