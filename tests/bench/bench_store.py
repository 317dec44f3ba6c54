"""The store at a million spans: opening, tiles, steps, a span's detail, an OTLP import. JSON."""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from tracer.model.trace_folder import COLUMNS, Flag, Manifest, manifest_path
from vizdist.store.columns import SpanRecord, write_records
from vizdist.store.tiles import pixel_edges
from vizdist.store.trace import Trace, open_trace

EPOCH = 1_700_000_000_000_000_000
SPANS = 1_000_000
FOREIGN = 100_000
ROWS, WIDTH = 160, 1600


def busy_spans(count: int) -> Iterator[SpanRecord]:
    """Nested rows of uneven weight, long spans, 0.1 % errors."""
    random = np.random.default_rng(0)
    weight = random.pareto(1.5, ROWS) + 0.05
    share = (weight / weight.sum() * count).astype(int)
    number = 0
    for row, in_row in enumerate(share.tolist()):
        length = random.integers(200, 40_000, in_row)
        length[random.random(in_row) < 0.001] *= 500
        gap = random.integers(0, 20_000, in_row)
        start = EPOCH + np.cumsum(length + gap) - length
        flags = np.where(random.random(in_row) < 0.001, Flag.ERROR, 0)
        for at, ns, flag in zip(start.tolist(), length.tolist(), flags.tolist(), strict=True):
            number += 1
            yield SpanRecord(
                f"worker:{row // 20}", f"executor CPU:{row % 20 // 4}", at, at + ns,
                f"layer{number % 400}/MatMul", "op.run", row % 4, step=1 + number // 2000,
                op="MatMul", span=number, trace_lo=1 + number // 2000, flags=flag, ready=at - 100,
            )  # fmt: skip


def write_own(folder: Path) -> Path:
    (folder / COLUMNS).mkdir(parents=True)
    count = write_records(folder / COLUMNS, busy_spans(SPANS))
    manifest = Manifest("bench", outcome="done", recorded=count, written=count)
    manifest_path(folder).write_text(manifest.to_json())
    return folder


def write_foreign(path: Path) -> Path:
    """Spans as another tool's file exporter writes them: a line of 100, six attributes each."""
    with path.open("w") as file:
        for line in range(FOREIGN // 100):
            spans = [foreign_span(line * 100 + at + 1) for at in range(100)]
            file.write(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}) + "\n")
    return path


def foreign_span(number: int) -> dict[str, object]:
    at = EPOCH + number * 1000
    return {
        "traceId": f"{number // 50 + 1:032x}",
        "spanId": f"{number:016x}",
        "parentSpanId": f"{number - number % 50:016x}" if number % 50 else "",
        "name": f"GET /thing/{number % 50}",
        "kind": 2,
        "startTimeUnixNano": str(at),
        "endTimeUnixNano": str(at + 900),
        "attributes": [
            {"key": f"http.attribute.{key}", "value": {"stringValue": f"value {number % 10}"}}
            for key in range(6)
        ],
    }


def milliseconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def quantiles(samples: list[float]) -> dict[str, float]:
    low, middle, high = np.percentile(samples, [25, 50, 95])
    return {"p25": round(low, 2), "p50": round(middle, 2), "p95": round(high, 2)}


def tile_times(trace: Trace, num_rows: int) -> dict[str, float]:
    random = np.random.default_rng(1)
    samples = []
    for turn in range(60):
        length = int((trace.end - trace.start) * 10.0 ** -(turn % 5))
        start = trace.start + int(random.integers(0, max(1, trace.end - trace.start - length)))
        first = int(random.integers(0, ROWS - num_rows + 1))
        window = range(first, first + num_rows)
        samples.append(milliseconds(partial(trace.tiles, start, start + length, WIDTH, window)))
    return quantiles(samples)


def is_exact(trace: Trace, windows: int = 200) -> bool:
    """Whether tiles hold the longest span of every pixel, at random windows and rows."""
    random = np.random.default_rng(2)
    spans = trace.all
    for _ in range(windows):
        low, high = sorted(int(x) for x in random.integers(trace.start, trace.end, 2))
        row, width = int(random.integers(0, ROWS)), int(random.integers(16, 400))
        edges = pixel_edges(low, high + 1, width)
        inside = np.flatnonzero((spans.row == row) & (spans.start >= low) & (spans.start <= high))
        pixel = np.searchsorted(edges, spans.start[inside], "right") - 1
        longest = np.zeros(width, np.int64)
        np.maximum.at(longest, pixel, spans.duration[inside])
        tiles = trace.tiles(low, high + 1, width, range(row, row + 1)).spans
        tiles = tiles.take(tiles.start >= low)
        shown = np.zeros(width, np.int64)
        np.maximum.at(shown, np.searchsorted(edges, tiles.start, "right") - 1, tiles.duration)
        if not np.array_equal(longest, shown):
            return False
    return True


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        own = write_own(Path(folder) / "own.trace")
        opening = [milliseconds(lambda: open_trace(own).steps) for _ in range(20)]
        trace = open_trace(own)
        first_tile = milliseconds(lambda: trace.tiles(trace.start, trace.end, WIDTH, range(40)))
        result: dict[str, object] = {
            "spans": len(trace),
            "open_ms": quantiles(opening),
            "first_tile_ms": round(first_tile, 1),
            "tile_40_rows_ms": tile_times(trace, 40),
            "tile_160_rows_ms": tile_times(trace, 160),
            "exact_at_200_windows": is_exact(trace),
            "span_by_id_ms": quantiles(
                [milliseconds(partial(trace.place, n)) for n in range(1, SPANS, SPANS // 100)]
            ),
        }
        foreign = write_foreign(Path(folder) / "foreign.jsonl")
        cpu = time.process_time()
        seconds = milliseconds(lambda: open_trace(foreign)) / 1000
        result["foreign_spans_per_s"] = round(FOREIGN / seconds)
        result["foreign_spans_per_cpu_s"] = round(FOREIGN / (time.process_time() - cpu))
        result["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        json.dump(result, sys.stdout)
        print()


if __name__ == "__main__":
    main()
