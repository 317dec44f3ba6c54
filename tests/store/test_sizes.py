"""Wide, deep and crowded traces (cases D07 and I24) open whole, and no stack overflows."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from vizdist.store.importers import otlp
from vizdist.store.problems import TraceError
from vizdist.store.trace import Trace, open_trace

EPOCH = 1_700_000_000_000_000_000
CHILDREN, LEVELS, LANES = 10_000, 5_000, 64

Made = tuple[int, int, int, int, int]  #: id, parent, begin, end, lane


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def opened(path: Path, spans: Iterable[Made]) -> Trace:
    told = [
        {
            "traceId": f"{1:032x}",
            "spanId": f"{number:016x}",
            "parentSpanId": f"{parent:016x}" if parent else "",
            "name": f"work {number}",
            "startTimeUnixNano": str(EPOCH + begin),
            "endTimeUnixNano": str(EPOCH + end),
            "attributes": [{"key": "thread.id", "value": {"intValue": str(lane)}}],
        }
        for number, parent, begin, end, lane in spans
    ]
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": told}]}]}))
    return open_trace(path)


def test_ten_thousand_children_of_one_root_are_one_row(tmp_path: Path) -> None:
    children = [(n + 2, 1, n * 10, n * 10 + 8, 0) for n in range(CHILDREN)]
    trace = opened(tmp_path / "wide.json", [(1, 0, 0, CHILDREN * 10, 0), *children])
    assert (len(trace), len(trace.rows)) == (CHILDREN + 1, 2)
    assert not trace.problems
    tiles = trace.tiles(trace.start, trace.end, 1000)
    assert len(tiles.spans) == 1001
    assert trace.span(CHILDREN // 2).parent == f"{1:016x}"


def test_ten_thousand_children_at_one_time_get_rows_of_their_own(tmp_path: Path) -> None:
    children = [(n + 2, 1, n + 1, CHILDREN * 2 + n, 0) for n in range(CHILDREN)]
    trace = opened(tmp_path / "fan.json", [(1, 0, 0, CHILDREN * 4, 0), *children])
    assert len(trace.rows) == CHILDREN + 1
    shown = trace.tiles(trace.start, trace.end, 100, range(200, 240))
    assert set(shown.spans.row.tolist()) == set(range(200, 240))


def test_five_thousand_levels_are_as_many_rows(tmp_path: Path) -> None:
    nested = [(n + 1, n, n, 3 * LEVELS - n, 0) for n in range(LEVELS)]
    trace = opened(tmp_path / "deep.json", nested)
    assert [row.depth for row in trace.rows] == list(range(LEVELS))
    assert trace.span(LEVELS).row == LEVELS - 1
    assert np.array_equal(np.sort(trace.all.row), np.arange(LEVELS))


def test_a_hundred_thousand_spans_on_many_lanes_keep_their_order(tmp_path: Path) -> None:
    spans = [(n + 1, 0, n, n + LANES - 2, n % LANES) for n in range(100_000)]
    trace = opened(tmp_path / "lanes.json", spans)
    assert len(trace.rows) == LANES
    assert [row.lane for row in trace.rows][:11] == [f"thread {n}" for n in range(11)]
    assert len(trace) == 100_000


def test_a_document_that_is_too_large_to_be_read_whole_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "DOCUMENT_BYTES", 1 << 20)
    spans = [(n + 1, 0, n, n + 1, 0) for n in range(10_000)]
    with pytest.raises(TraceError, match=r"more than 1 MiB.*one document a line"):
        opened(tmp_path / "large.json", spans)
