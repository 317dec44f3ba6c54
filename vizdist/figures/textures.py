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
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.tiles import TileSet, pixel_edges
from vizdist.store.trace import Trace


class Intervals:
    """Sorted intervals that do not overlap; ns."""

    def __init__(self, starts: Array, ends: Array) -> None:
        is_real = ends > starts
        self.starts, self.ends = starts[is_real], ends[is_real]
        self._total = np.append(0, np.cumsum(self.ends - self.starts))

    def before(self, instants: Array) -> Array:
        """ns of the intervals that lie before each instant."""
        count = np.searchsorted(self.starts, instants)
        if not len(self.ends):
            return np.zeros(len(instants), np.int64)
        last = self.ends[np.maximum(count - 1, 0)]
        return np.asarray(self._total[count] - np.where(count, np.maximum(last - instants, 0), 0))

    def shares(self, edges: Array) -> Array:
        """The part that the intervals cover of what lies between each two edges."""
        covered = np.diff(self.before(edges))
        return np.asarray(covered / np.maximum(np.diff(edges), 1), np.float32)


class Row(NamedTuple):
    """What the spans of a row are made of: work, standing still for a value, being ready."""

    busy: Intervals
    stood: Intervals
    queued: Intervals
    starts: Array


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
        row = _row(trace, int(spans.row[at[0]]))
        begun = np.searchsorted(row.starts, (tiles.start, tiles.end))
        if begun[1] - begun[0] <= len(at):
            continue
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


def _places(trace: Trace, number: int) -> Array:
    """Where a row's spans lie in the table, by start."""
    key = trace.all.rows[number]
    parts = [np.empty(0, np.int64)]
    firsts = accumulate(map(len, trace.segments), initial=0)
    for segment, first in zip(trace.segments, firsts, strict=False):
        if key in segment.rows:
            low, high = (int(bound[segment.rows.index(key)]) for bound in segment.bounds)
            parts.append(np.arange(low, high) + first)
    places = np.concatenate(parts)
    return places[np.argsort(trace.all.take(places).start, kind="stable")]


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
        spans.start,
    )
