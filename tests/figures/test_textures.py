"""Merged pixels: of waiting, standing still and being ready, what looking at every ns gives."""

from itertools import pairwise

import numpy as np
import pytest

from tests.store.sample_trace import EPOCH, write_trace
from vizdist.analysis.recv_parts import value_at
from vizdist.analysis.waiting import idle_wait
from vizdist.figures.textures import texture_shares
from vizdist.store.columns import SpanRecord
from vizdist.store.segments import Array
from vizdist.store.tiles import pixel_edges
from vizdist.store.trace import Trace, open_trace


def dense(seed: int) -> list[SpanRecord]:
    """A row of recvs, one of ops that were ready before, one of served calls."""
    random = np.random.default_rng(seed)
    records: list[SpanRecord] = []
    for lane, kind in (("recv", "rendezvous.recv"), ("executor", "op.run"), ("rpc", "rpc.server")):
        at = EPOCH + int(random.integers(0, 60))
        for _ in range(400):
            length = int(random.integers(1, 12) if random.random() < 0.97 else 400)
            wait = int(random.integers(0, length + 1)) if kind != "op.run" else 0
            ready = at - int(random.integers(0, 25)) if kind == "op.run" else 0
            records.append(
                SpanRecord(
                    "worker:0", lane, at, at + length, "n", kind, span=len(records) + 1, wait=wait,
                    ready=ready,
                )
            )  # fmt: skip
            at += length + int(random.integers(0, 9))
    return records


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return open_trace(write_trace(tmp_path_factory.mktemp("t") / "dense.trace", dense(5)))


def brute_force(trace: Trace, row: int, edges: Array) -> dict[str, list[float]]:
    """Of every pixel the share of its instants that are busy, stood, ready behind nothing."""
    spans = trace.all.take(np.flatnonzero(trace.all.row == row))
    is_recv = spans.is_kind("rendezvous.recv")
    came = np.where(is_recv, value_at(trace, spans), spans.start + spans.wait)
    stood = idle_wait(trace, spans, came)
    last = int(max(spans.end.max(), edges[-1])) - EPOCH
    busy, stand, ready = (np.zeros(last, np.bool_) for _ in range(3))
    for at in range(len(spans)):
        begin, value, end = (int(one[at]) - EPOCH for one in (spans.start, came, spans.end))
        busy[value:end] = True
        stand[value - int(stood[at]) : value] = is_recv[at]
        if spans.ready[at]:
            ran = int(spans.end[at - 1]) - EPOCH if at else 0
            ready[max(int(spans.ready[at]) - EPOCH, ran, 0) : begin] = True
    masks = {"share": busy, "stood_share": stand, "queue_share": ready}
    pixels = [(a - EPOCH, b - EPOCH) for a, b in pairwise(edges.tolist())]
    return {
        name: [float(mask[low:high].sum()) / max(high - low, 1) for low, high in pixels]
        for name, mask in masks.items()
    }


def test_every_merged_pixel_has_its_exact_shares(trace: Trace) -> None:
    random = np.random.default_rng(6)
    for _ in range(12):
        start = EPOCH + int(random.integers(0, 900))
        window, width = (start, start + int(random.integers(1500, 3000))), 40
        tiles = trace.tiles(*window, width)
        found = texture_shares(trace, tiles)
        edges = pixel_edges(*window, width)
        for row in range(len(trace.rows)):
            own = np.flatnonzero(tiles.spans.row == row)
            begins = trace.all.start[trace.all.row == row]
            assert ((begins >= window[0]) & (begins < window[1])).sum() > len(own)
            pixel = np.searchsorted(edges, tiles.spans.start[own], "right") - 1
            for name, shares in brute_force(trace, row, edges).items():
                wanted = [shares[max(at, 0)] for at in pixel.tolist()]
                assert found[name][own].tolist() == pytest.approx(wanted, abs=1e-6)


def test_where_no_span_is_hidden_the_shares_are_those_of_the_tile(trace: Trace) -> None:
    tiles = trace.tiles(EPOCH + 500, EPOCH + 600, 400)
    found = texture_shares(trace, tiles)
    assert found["share"].tolist() == tiles.share.tolist()
    assert not found["stood_share"].any()
