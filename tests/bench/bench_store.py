"""The store at scale: opening, tiles, steps, one span, imports, memory. Prints JSON.

    python -m tests.bench.bench_store [SPANS]      default 1,000,000; the budgets are for 10,000,000

Every part runs in a process of its own, so that memory is that of what is measured. Times are those
of a warm page cache, on the wall and of the processor (`cpu_p50`, `cpu_p95`), which is what they
are where the machine is not shared; `load` is what else it was doing.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from tracer.model.trace_folder import COLUMNS, SEGMENT_ROWS, SPANS, Flag, Manifest, manifest_path
from vizdist.figures.tile_bytes import tile_bytes
from vizdist.store.otlp_spans import key_values
from vizdist.store.segments import NUMBER_COLUMNS, TEXT_COLUMNS, Array, RowKey, write_segment
from vizdist.store.tiles import TileSet, pixel_edges
from vizdist.store.trace import Trace, open_trace

EPOCH = 1_700_000_000_000_000_000
IMPORTED = 100_000
WORKERS, LANES, DEPTHS, FAN_OUT = 8, 5, 4, 8
ROWS, WIDTH = WORKERS * LANES * DEPTHS, 1600
STEP_SPANS = 2000
NAMES = tuple(f"layer{number}/MatMul" for number in range(400))
KINDS = ("op.run", "rendezvous.recv", "session.run")


def nested_lane(random: np.random.Generator, leaves: int, lane: int) -> dict[str, Array]:
    """Leaves of uneven length, some long, in spans that hold eight each, three levels up."""
    length = random.integers(200, 40_000, leaves)
    length[random.random(leaves) < 0.001] *= 500
    start = EPOCH + 10 + np.cumsum(length + random.integers(2, 20_000, leaves)) - length
    levels = [(DEPTHS - 1, start, start + length)]
    for depth in range(DEPTHS - 2, -1, -1):
        _, starts, ends = levels[-1]
        first = np.arange(0, len(starts), FAN_OUT)
        last = np.minimum(first + FAN_OUT, len(starts)) - 1
        levels.append((depth, starts[first] - 1, ends[last] + 1))
    return {
        "row": np.concatenate([np.full(len(s), lane * DEPTHS + d) for d, s, _ in levels]),
        "start": np.concatenate([s for _, s, _ in levels]),
        "end": np.concatenate([e for _, _, e in levels]),
    }


def busy_spans(count: int) -> dict[str, Array]:
    """All number columns: lanes of uneven weight, steps with roots, waits, 0.1 % errors."""
    random = np.random.default_rng(0)
    weight = random.pareto(1.5, WORKERS * LANES) + 0.05
    leaves = (weight / weight.sum() * count * (1 - 1 / FAN_OUT)).astype(int) + 1
    lanes = [nested_lane(random, int(n), lane) for lane, n in enumerate(leaves)]
    columns = {name: np.concatenate([lane[name] for lane in lanes]) for name in lanes[0]}
    steps = count // STEP_SPANS
    edges = EPOCH + np.linspace(0, int(columns["end"].max()) - EPOCH + 1, steps + 1).astype(int)
    root = {"row": np.full(steps, ROWS), "start": edges[:-1], "end": edges[1:]}
    columns = {name: np.concatenate((columns[name], root[name])) for name in columns}
    total = len(columns["row"])
    step = np.searchsorted(edges, columns["start"], "right")
    is_root = columns["row"] == ROWS
    waits = (columns["row"] // DEPTHS % LANES == 4) & ~is_root
    missing = {name: kind for name, kind in NUMBER_COLUMNS.items() if name not in columns}
    columns |= {name: np.zeros(total, kind) for name, kind in missing.items()}
    columns |= {
        "step": step,
        "trace_lo": step,
        "span": np.arange(1, total + 1),
        "parent": np.where(is_root, 0, total - steps + step),
        "ready": np.where(is_root, 0, columns["start"] - 100),
        "wait": np.where(waits, 150, 0),
        "version": np.full(total, -1),
        "flags": np.where(random.random(total) < 0.001, Flag.ERROR, 0) * ~is_root,
        "kind": np.select([is_root, waits], [2, 1], 0),
        "name": np.arange(total) % len(NAMES),
    }
    return columns


def write_own(folder: Path, count: int) -> None:
    """Segments as a collector leaves them: each a part of the time, with spans of all rows."""
    (folder / COLUMNS).mkdir(parents=True)
    columns = busy_spans(count)
    rows = [
        RowKey(f"worker:{w}", f"executor CPU:{lane}", depth)
        for w in range(WORKERS)
        for lane in range(LANES)
        for depth in range(DEPTHS)
    ] + [RowKey("worker:0", "client", 0)]
    words = {name: [""] for name in TEXT_COLUMNS} | {"name": list(NAMES), "kind": list(KINDS)}
    order = np.argsort(columns["end"], kind="stable")
    for number, at in enumerate(range(0, len(order), SEGMENT_ROWS)):
        part = order[at : at + SEGMENT_ROWS]
        zero = np.zeros(len(part), np.int32)
        texts = {n: (columns[n][part] if n in columns else zero, w) for n, w in words.items()}
        numbers = {name: columns[name][part] for name in NUMBER_COLUMNS}
        write_segment(folder / COLUMNS / f"{number:08d}-{number:08d}.arrow", rows, numbers, texts)
    manifest = Manifest("bench", outcome="done", recorded=len(order), written=len(order))
    manifest_path(folder).write_text(manifest.to_json())


def write_lines(path: Path, span_of: Callable[[int], dict[str, object]]) -> Path:
    """A line of 100 spans, as file exporters write them."""
    with path.open("w") as file:
        for line in range(IMPORTED // 100):
            spans = [span_of(line * 100 + at + 1) for at in range(100)]
            file.write(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}) + "\n")
    return path


def write_span_files(folder: Path) -> Path:
    """A folder of ours whose columns are gone."""
    (folder / SPANS).mkdir(parents=True)
    write_lines(folder / SPANS / "worker-0.0.otlp.jsonl", own_span)
    return folder


def own_span(number: int) -> dict[str, object]:
    """What is recorded of an op."""
    told = {
        "vizdist.kind": KINDS[0],
        "vizdist.lane": "executor CPU:0",
        "vizdist.depth": 0,
        "vizdist.step.number": number // 50 + 1,
        "vizdist.node": NAMES[number % len(NAMES)],
        "vizdist.op": "MatMul",
        "vizdist.device": "/job:worker/replica:0/task:0/device:CPU:0",
        "vizdist.ready_ns": EPOCH + number * 1000 - 100,
        "vizdist.bytes": 4096,
    }
    return {
        **foreign_span(number),
        "name": NAMES[number % len(NAMES)],
        "attributes": key_values(told),
    }


def foreign_span(number: int) -> dict[str, object]:
    """Of another tool, with six attributes."""
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


Sample = tuple[float, float]  #: ms on the wall, ms of the processor


def timed(action: Callable[[], object]) -> Sample:
    wall, cpu = time.perf_counter(), time.thread_time()
    action()
    return (time.perf_counter() - wall) * 1000, (time.thread_time() - cpu) * 1000


def quantiles(samples: Sequence[Sample]) -> dict[str, float]:
    walls, cpus = zip(*samples, strict=True)
    low, middle, high = np.percentile(walls, [25, 50, 95])
    cpu_middle, cpu_high = np.percentile(cpus, [50, 95])
    told = {"p25": low, "p50": middle, "p95": high, "cpu_p50": cpu_middle, "cpu_p95": cpu_high}
    return {name: round(float(value), 2) for name, value in told.items()}


def tile_times(trace: Trace, num_rows: int, *, whole: bool = False) -> dict[str, float]:
    """Windows from all of the run to a ten-thousandth; `whole`: with what a browser gets of it."""
    random = np.random.default_rng(1)
    samples = []
    for turn in range(60):
        length = int((trace.end - trace.start) * 10.0 ** -(turn % 5))
        start = trace.start + int(random.integers(0, max(1, trace.end - trace.start - length)))
        first = int(random.integers(0, ROWS - num_rows + 1))
        window = range(first, first + num_rows)
        ask = partial(trace.tiles, start, start + length, WIDTH, window)
        samples.append(timed(partial(answer, trace, ask) if whole else ask))
    return quantiles(samples)


def answer(trace: Trace, ask: Callable[[], TileSet]) -> bytes:
    return tile_bytes(trace, ask())


def is_exact(trace: Trace, windows: int = 200) -> bool:
    """Whether tiles hold the longest span of every pixel, at random windows and rows."""
    random = np.random.default_rng(2)
    spans = trace.all
    places = {row: np.flatnonzero(spans.row == row) for row in range(ROWS)}
    for _ in range(windows):
        low, high = sorted(int(x) for x in random.integers(trace.start, trace.end, 2))
        row, width = int(random.integers(0, ROWS)), int(random.integers(16, 400))
        edges = pixel_edges(low, high + 1, width)
        start, length = spans.start[places[row]], spans.duration[places[row]]
        inside = (start >= low) & (start <= high)
        pixel = np.searchsorted(edges, start[inside], "right") - 1
        longest = np.zeros(width, np.int64)
        np.maximum.at(longest, pixel, length[inside])
        tiles = trace.tiles(low, high + 1, width, range(row, row + 1)).spans
        tiles = tiles.take(tiles.start >= low)
        shown = np.zeros(width, np.int64)
        np.maximum.at(shown, np.searchsorted(edges, tiles.start, "right") - 1, tiles.duration)
        if not np.array_equal(longest, shown):
            return False
    return True


def resident_mb() -> int:
    """What this process holds in memory now, mapped files included."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


def measure_own(folder: Path) -> dict[str, Any]:
    opening = [timed(lambda: open_trace(folder).steps) for _ in range(20)]
    trace = open_trace(folder)
    first_tile = timed(lambda: trace.tiles(trace.start, trace.end, WIDTH, range(40)))
    found = {
        "spans": len(trace),
        "segments": len(trace.segments),
        "steps": len(trace.steps),
        "open_ms": quantiles(opening),
        "first_tile_ms": quantiles([first_tile]),
        "tile_40_rows_ms": tile_times(trace, 40),
        "tile_160_rows_ms": tile_times(trace, 160),
        "tile_answer_40_rows_ms": tile_times(trace, 40, whole=True),
        "rss_mb_of_views": resident_mb(),
        "span_by_id_ms": quantiles(
            [timed(partial(trace.place, n)) for n in range(1, len(trace), len(trace) // 50)]
        ),
        "first_arrows_ms": quantiles([timed(lambda: trace.arrows(trace.start, trace.end))]),
        "rss_mb_with_relations": resident_mb(),
        "read_spans_per_s": round(
            len(trace) / float(np.median([wall for wall, _ in opening])) * 1000
        ),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    return found | {"exact_at_200_windows": is_exact(trace)}


def measure_imports(folder: Path) -> dict[str, Any]:
    paths = {
        "foreign": write_lines(folder / "foreign.jsonl", foreign_span),
        "span_files": write_span_files(folder / "alone.trace"),
    }
    found = {}
    for name, path in paths.items():
        wall, cpu = timed(partial(open_trace, path))
        found[f"{name}_spans_per_s"] = round(IMPORTED / wall * 1000)
        found[f"{name}_spans_per_cpu_s"] = round(IMPORTED / cpu * 1000)
    return found


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with (
        tempfile.TemporaryDirectory() as name,
        ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as alone,
    ):
        own = Path(name) / "own.trace"
        alone.submit(write_own, own, count).result()
        result = alone.submit(measure_own, own).result()
        result |= alone.submit(measure_imports, Path(name)).result()
    json.dump({**result, "load": [round(one, 1) for one in os.getloadavg()]}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
