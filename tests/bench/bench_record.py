"""What a record costs the traced process, and a span the collector. Prints JSON.

Besides, what a user's own span costs, and what the export of a span does.

Budgets: a record (begin and end, with both clock reads) ≤ 1 µs; the collector ≤ 10 µs CPU a span.
Blocks of the ways to record take turns, so that a noisy minute hits all alike.
"""

import gzip
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.blocks import spread
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import SPANS, Manifest
from tracer.record.collector import TURN_S, start_collector
from tracer.record.exporter import BATCH_LINES
from tracer.record.facade import TracerProvider
from tracer.record.home import make_scratch
from tracer.record.manifest import write_manifest
from tracer.record.otlp_message import num_spans, request_of
from tracer.record.recorder import Recorder

ROUNDS = 24
BLOCK = 3000
COLLECTED = 400_000


class Ways:
    """The ways to record, as loops over `count` spans of one thread that has a span open."""

    def __init__(self, recorder: Recorder) -> None:
        self.context = trace_of_step("bench", "run", 1)
        self.recorder = recorder
        self.tracer = TracerProvider(recorder).get_tracer("bench")
        lane = "executor CPU:0"
        what = {"vizdist.op": "MatMul", "vizdist.node": "layer1/MatMul"}
        self.op = recorder.site("op.run", name="layer1/MatMul", lane=lane, attributes=what)
        self.recv = recorder.site("rendezvous.recv", name="w1/read/_7")
        self.key = recorder.key("/job:ps/replica:0/task:0/device:CPU:0;1;/job:worker;w1;0:0")
        self.writer = recorder.writer()
        self.writer.begin(recorder.site("partition.run", lane=lane), self.context, recorder.now())

    def two_clock_reads(self, count: int) -> None:
        now = self.recorder.now
        for _ in range(count):
            now()
            now()

    def begin_end(self, count: int) -> None:
        op, context, now = self.op, self.context, self.recorder.now
        begin, end = self.writer.begin, self.writer.end
        for _ in range(count):
            start = now()
            begin(op, context, start)
            end(start, now(), start, 4096)

    def record(self, count: int) -> None:
        op, context, now, record = self.op, self.context, self.recorder.now, self.writer.record
        for _ in range(count):
            start = now()
            record(op, context, start, now(), start, 4096)

    def open_close(self, count: int) -> None:
        recv, context, key, open_span = self.recv, self.context, self.key, self.recorder.open
        for _ in range(count):
            open_span(recv, context, key).close(num_bytes=4096, extra=1)

    def rare_span(self, count: int) -> None:
        for _ in range(count // 10):
            with self.recorder.span("data.next", self.context) as span:
                span.set("vizdist.batch", 64)

    def user_span(self, count: int) -> None:
        """As a user's code makes them: OpenTelemetry's API, current, two attributes."""
        for _ in range(count // 10):
            with self.tracer.start_as_current_span("fetch", attributes={"a": 1}) as span:
                span.set_attribute("b", "text")

    def loops(self) -> dict[str, Callable[[int], None]]:
        return {
            loop.__name__: loop
            for loop in (
                self.two_clock_reads,
                self.begin_end,
                self.record,
                self.open_close,
                self.rare_span,
                self.user_span,
            )
        }


def cost_of_recording(folder: Path) -> dict[str, object]:
    """ns a span, by way of recording; between two rounds the collector catches up.

    `cpu` is what the budget is about: on a shared machine the wall clock counts others too.
    """
    with _Collecting(folder) as collecting:
        loops = Ways(collecting.recorder).loops()
        cpu: dict[str, list[float]] = {name: [] for name in loops}
        wall: dict[str, list[float]] = {name: [] for name in loops}
        for number in range(ROUNDS):
            names = list(loops) if number % 2 == 0 else list(reversed(loops))
            for name in names:
                count = BLOCK // 10 if name in ("rare_span", "user_span") else BLOCK
                started = time.perf_counter_ns(), time.thread_time_ns()
                loops[name](BLOCK)
                cpu[name].append((time.thread_time_ns() - started[1]) / count)
                wall[name].append((time.perf_counter_ns() - started[0]) / count)
            threading.Event().wait(2 * TURN_S)
    return {name: {"cpu": spread(cpu[name]), "wall": spread(wall[name])} for name in loops}


def cost_of_collecting(folder: Path) -> dict[str, object]:
    """CPU µs a span of the collector, and bytes a span of what it wrote."""
    with _Collecting(folder) as collecting:
        ways = Ways(collecting.recorder)
        for _ in range(COLLECTED // BLOCK // 2):
            ways.begin_end(BLOCK)
            ways.open_close(BLOCK)
            collecting.recorder.step_boundary()
            threading.Event().wait(0.01)
    counts = collecting.counts
    size = {kind: _bytes_under(collecting.trace / kind) for kind in ("spans", "columns")}
    return {
        "recorded": counts.recorded,
        "written": counts.written,
        "cpu_us_per_span": round(1e6 * counts.cpu_seconds / counts.written, 2),
        "bytes_per_span": {kind: round(size[kind] / counts.written, 1) for kind in size},
    }


def cost_of_exporting(trace: Path) -> dict[str, float]:
    """CPU µs a span to turn what the file holds into requests, without sending them."""
    lines: list[bytes] = []
    for path in (trace / SPANS).iterdir():
        lines += gzip.decompress(path.read_bytes()).splitlines()
    began, spans, size = time.thread_time_ns(), 0, 0
    for first in range(0, len(lines), BATCH_LINES):
        request = request_of(lines[first : first + BATCH_LINES])
        spans += num_spans(request)
        size += len(request.SerializeToString())
    cpu_us = (time.thread_time_ns() - began) / 1e3
    return {"cpu_us_per_span": round(cpu_us / spans, 2), "bytes_per_span": round(size / spans, 1)}


def _bytes_under(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


class _Collecting:
    """A recorder with a real collector, which is stopped at the end."""

    def __init__(self, folder: Path) -> None:
        self.trace, self._scratch = folder / "bench.trace", make_scratch()
        self.trace.mkdir(parents=True)
        write_manifest(self.trace, Manifest("bench"))
        self._collector = start_collector(self.trace, self._scratch, "bench")
        self.recorder = Recorder(self._scratch, "worker:0")

    def __enter__(self) -> "_Collecting":
        return self

    def __exit__(self, *error: object) -> None:
        self.recorder.close()
        self.counts = self._collector.stop(30)
        shutil.rmtree(self._scratch)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        result = {
            "bench": "record",
            "ns_per_span": cost_of_recording(Path(folder) / "record"),
            "collector": cost_of_collecting(Path(folder) / "collect"),
            "export": cost_of_exporting(Path(folder) / "collect" / "bench.trace"),
        }
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
