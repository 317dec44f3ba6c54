"""Tiles hold the longest span of every pixel and row, compared with looking at every span."""

from pathlib import Path

import numpy as np
import pytest

from tests.store.sample_trace import EPOCH, move_segment, write_trace
from tracer.model.trace_folder import Flag
from vizdist.store.columns import SpanRecord
from vizdist.store.problems import TraceError
from vizdist.store.tiles import pixel_edges
from vizdist.store.trace import Trace, open_trace


def busy_rows(seed: int, errors: float = 0.01) -> list[SpanRecord]:
    """Four rows of dense small spans, gaps, a few long spans, and some errors."""
    random = np.random.default_rng(seed)
    records: list[SpanRecord] = []
    for lane in range(4):
        at = EPOCH + int(random.integers(0, 1000))
        for _ in range(1000):
            length = int(random.integers(0, 40) if random.random() < 0.99 else 5000)
            flags = Flag.ERROR if random.random() < errors else 0
            number = 1 + len(records)
            records.append(
                SpanRecord(
                    "worker:0", f"l{lane}", at, at + length, "n", depth=0, span=number, flags=flags
                )
            )
            at += length + int(random.integers(0, 30))
    return records


def brute_force(trace: Trace, window: tuple[int, int], width: int, row: int) -> set[int]:
    """Longest span that starts in each pixel, all errors' longest too, and what reaches in."""
    edges = pixel_edges(*window, width)
    spans = trace.all
    chosen = set()
    for only_flagged in (False, True):
        best: dict[int, tuple[int, int]] = {}
        for place in np.flatnonzero(spans.row == row):
            start, end = int(spans.start[place]), int(spans.end[place])
            if start >= window[1] or (start < window[0] and end <= window[0]):
                continue
            if only_flagged and not spans.flags[place]:
                continue
            pixel = int(np.searchsorted(edges, start, "right")) - 1
            best[pixel] = max(best.get(pixel, (-1, -1)), (end - start, int(place)))
        chosen |= {int(place) for _, place in best.values()}
    return chosen


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return open_trace(write_trace(tmp_path_factory.mktemp("t") / "busy.trace", busy_rows(1)))


def test_every_pixel_shows_its_longest_span(trace: Trace) -> None:
    random = np.random.default_rng(2)
    for _ in range(40):
        at, end = sorted(int(x) for x in random.integers(trace.start, trace.end, 2))
        width, row = int(random.integers(16, 300)), int(random.integers(0, 4))
        tiles = trace.tiles(at, end + 1, width, range(row, row + 1))
        wanted = {int(trace.all.span[p]) for p in brute_force(trace, (at, end + 1), width, row)}
        assert set(tiles.spans.span.tolist()) == wanted


def test_no_row_is_drawn_that_was_not_asked_for(trace: Trace) -> None:
    tiles = trace.tiles(trace.start, trace.end, 100, range(1, 3))
    assert set(tiles.spans.row.tolist()) == {1, 2}
    assert len(tiles.spans) <= 2 * 100 * 2


def test_errors_and_the_selection_are_never_hidden(trace: Trace) -> None:
    tiny = int(np.argmin(trace.all.duration))
    selected = int(trace.all.span[tiny])
    tiles = trace.tiles(trace.start, trace.end, 16, selected=selected)
    assert selected in tiles.spans.span
    errors = trace.all.take(trace.all.flags != 0)
    edges = pixel_edges(trace.start, trace.end, 16)
    wanted = set(zip(errors.row, np.searchsorted(edges, errors.start, "right"), strict=True))
    shown = tiles.spans.take(tiles.spans.flags != 0)
    assert wanted == set(zip(shown.row, np.searchsorted(edges, shown.start, "right"), strict=True))


def test_share_is_the_busy_part_of_the_pixel(tmp_path: Path) -> None:
    records = [
        SpanRecord("w", "l", EPOCH + at, EPOCH + at + length, "n", span=at + 1)
        for at, length in ((0, 50), (100, 30), (140, 20), (200, 300))
    ]
    trace = open_trace(write_trace(tmp_path / "x.trace", records))
    tiles = trace.tiles(EPOCH, EPOCH + 1600, 16)
    assert tiles.share.tolist() == pytest.approx([0.5, 0.5, 1.0])


def test_segments_together_give_what_one_gives(tmp_path: Path) -> None:
    records = busy_rows(1, errors=0)
    trace = open_trace(write_trace(tmp_path / "whole.trace", records))
    folder = write_trace(tmp_path / "a.trace", records[::2])
    other = write_trace(tmp_path / "b.trace", records[1::2])
    move_segment(other, folder)
    split = open_trace(folder)
    for width in (16, 100, 1000):
        one = trace.tiles(trace.start, trace.end, width)
        two = split.tiles(trace.start, trace.end, width)
        assert sorted(one.spans.duration) == sorted(two.spans.duration)
        assert float(one.share.sum()) == pytest.approx(float(two.share.sum()), rel=1e-5)


@pytest.mark.parametrize("width", [0, 15, 5000])
def test_absurd_widths_are_refused(trace: Trace, width: int) -> None:
    with pytest.raises(TraceError, match="16 to 4096 pixels"):
        trace.tiles(trace.start, trace.end, width)


def test_a_window_that_ends_before_it_starts_is_refused(trace: Trace) -> None:
    with pytest.raises(TraceError, match="must end after it starts"):
        trace.tiles(trace.end, trace.start, 100)
