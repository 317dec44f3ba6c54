"""What a pixel that several spans share shows of waiting, queueing and transfer.

Where every span has a bar of its own the canvas draws its parts. Where they are merged the parts
of all of them are told together, exactly: as shares of the pixel.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from vizdist.analysis.kept import kept
from vizdist.analysis.recv_parts import value_at
from vizdist.analysis.waiting import stood
from vizdist.store.segments import Array, Segment
from vizdist.store.spans import Spans
from vizdist.store.tiles import TileSet, pixel_edges
from vizdist.store.trace import Trace


class Intervals:
    """Sorted intervals that do not overlap; ns. Kept for every span: two numbers each, no more."""

    def __init__(self, starts: Array, ends: Array) -> None:
        is_real = ends > starts
        self._starts = starts[is_real]
        self._total = np.zeros(len(self._starts) + 1, np.int64)
        np.cumsum(ends[is_real] - self._starts, out=self._total[1:])

    def before(self, instants: Array) -> Array:
        """ns of the intervals that lie before each instant."""
        if not len(self._starts):
            return np.zeros(len(instants), np.int64)
        count = np.searchsorted(self._starts, instants)
        last = np.maximum(count - 1, 0)
        length = self._total[last + 1] - self._total[last]
        return np.asarray(
            self._total[last]
            + np.where(count, np.minimum(instants - self._starts[last], length), 0)
        )

    def shares(self, edges: Array) -> Array:
        """The part that the intervals cover of what lies between each two edges."""
        covered = np.diff(self.before(edges))
        return np.asarray(covered / np.maximum(np.diff(edges), 1), np.float32)


class Row(NamedTuple):
    """What the spans of a row are made of: work, standing still for a value, being ready."""

    busy: Intervals
    stood: Intervals
    queued: Intervals


def texture_shares(trace: Trace, tiles: TileSet) -> dict[str, Array]:
    """For every span of a tile the shares (0 to 1) of its pixel: busy, standing still, ready.

    Waiting is not busy. Where all spans of a row are in the tile, each is drawn as it is, and the
    shares are those of the tile.
    """
    spans = tiles.spans
    share = tiles.share.astype(np.float32)
    found = {name: np.zeros(len(spans), np.float32) for name in ("stood_share", "queue_share")}
    if not tiles.width:
        return {"share": share, **found}
    edges = pixel_edges(tiles.start, tiles.end, tiles.width)
    pixel = np.clip(np.searchsorted(edges, spans.start, "right") - 1, 0, tiles.width - 1)
    for at in _of_rows(spans.row):
        number = int(spans.row[at[0]])
        if _begun(trace, number, tiles.start, tiles.end) <= len(at):
            continue
        row = _row(trace, number)
        share[at] = row.busy.shares(edges)[pixel[at]]
        found["stood_share"][at] = row.stood.shares(edges)[pixel[at]]
        found["queue_share"][at] = row.queued.shares(edges)[pixel[at]]
    return {"share": share, **found}


def _of_rows(row: Array) -> Iterator[Array]:
    """The places of each row's spans."""
    order = np.argsort(row, kind="stable")
    cuts = np.flatnonzero(np.diff(row[order])) + 1
    return (part for part in np.split(order, cuts) if len(part))


@kept(most=1 << 16)
def _row(trace: Trace, number: int) -> Row:
    """Made when a row is first looked at."""
    return _look_through(trace, trace.all.take(_places(trace, number)))


def _begun(trace: Trace, number: int, start: int, end: int) -> int:
    """How many spans of a row begin within a window."""
    starts = (segment.columns["start"][part] for segment, part, _ in _parts(trace, number))
    return sum(int(np.diff(np.searchsorted(part, (start, end)))[0]) for part in starts)


def _places(trace: Trace, number: int) -> Array:
    """Where a row's spans lie in the table, by start."""
    parts = [np.arange(part.start, part.stop) + first for _, part, first in _parts(trace, number)]
    places = np.concatenate([np.empty(0, np.int64), *parts])
    return places[np.argsort(trace.all.take(places).start, kind="stable")]


def _parts(trace: Trace, number: int) -> Iterator[tuple[Segment, slice, int]]:
    """The segments that have spans of a row, where in them, and where they begin in the table."""
    key = trace.all.rows[number]
    firsts = accumulate(map(len, trace.segments), initial=0)
    for segment, first in zip(trace.segments, firsts, strict=False):
        if key in segment.rows:
            low, high = (int(bound[segment.rows.index(key)]) for bound in segment.bounds)
            yield segment, slice(low, high), first


def _look_through(trace: Trace, spans: Spans) -> Row:
    recvs = spans.is_kind("rendezvous.recv")
    came = np.where(recvs, value_at(trace, spans), spans.start + spans.wait)
    came = np.clip(came, spans.start, spans.end)
    idle = stood(trace, spans)
    free = np.append(0, np.maximum.accumulate(spans.end))[: len(spans)]
    is_ready = spans.ready > 0
    return Row(
        Intervals(came, spans.end),
        Intervals(idle.start, idle.end),
        Intervals(np.maximum(spans.ready, free)[is_ready], spans.start[is_ready]),
    )
