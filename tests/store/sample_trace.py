"""Trace folders for tests, built from span records."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tracer.model.trace_folder import COLUMNS, Manifest, TaskRecord, manifest_path
from vizdist.store.columns import SpanRecord, write_records

EPOCH = 1_700_000_000_000_000_000
PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"


def write_trace(folder: Path, records: Iterable[SpanRecord], **manifest: object) -> Path:
    """A trace folder whose columns hold these spans."""
    (folder / COLUMNS).mkdir(parents=True)
    count = write_records(folder / COLUMNS, records)
    tasks = [TaskRecord("worker:0", 11, outcome="done"), TaskRecord("ps:0", 12, outcome="done")]
    filled = Manifest("run-1", outcome="done", tasks=tasks, recorded=count, written=count)
    for name, value in manifest.items():
        setattr(filled, name, value)
    manifest_path(folder).write_text(filled.to_json(), encoding="utf-8")
    return folder


def training_step(number: int, at: int = 0) -> list[SpanRecord]:
    """One step of a worker and a ps: 1000 ns in which every class of time occurs.

    worker: 0 session.run; 100-200 queueing, 200-400 MatMul; 400-600 recv, whose request is at the
    ps from 450, where the value exists from 500. ps: 100-150 read, 150-160 send, 700-800 update.
    """
    start = EPOCH + at
    ids = number * 100
    trace = {"step": number, "trace_hi": 7, "trace_lo": number}

    def span(
        task: str, lane: str, kind: str, begin: int, end: int, name: str, **rest: object
    ) -> SpanRecord:
        values: dict[str, Any] = trace | rest
        return SpanRecord(task, lane, start + begin, start + end, name, kind, **values)

    key = f"{PS};0000000000000001;{WORKER};edge_1_w;0:0"
    return [
        span("worker:0", "client", "session.run", 0, 1000, f"step {number}", span=ids + 1),
        span("worker:0", "executor", "op.run", 200, 400, "mm", span=ids + 2, parent=ids + 1,
             op="MatMul", device=WORKER, ready=start + 100),
        span("worker:0", "recv", "rendezvous.recv", 400, 600, "w", span=ids + 3, parent=ids + 1,
             wait=50, bytes=256, key=key, link=ids + 5, flags=8),
        span("worker:0", "rpc", "rpc.client", 410, 590, "RecvTensor", span=ids + 4, parent=ids + 3),
        span("ps:0", "executor", "rendezvous.send", 150, 160, "w", span=ids + 5, parent=ids + 1,
             bytes=256, key=key),
        span("ps:0", "rpc", "rpc.server", 450, 560, "RecvTensor", span=ids + 6, parent=ids + 4,
             wait=50),
        span("ps:0", "executor", "op.run", 100, 150, "w/read", span=ids + 7, parent=ids + 1,
             op="ReadVariableOp", device=PS, ready=start + 100, version=number),
        span("ps:0", "executor", "op.run", 700, 800, "update_w", span=ids + 8, parent=ids + 1,
             op="ResourceApplyGradientDescent", device=PS, ready=start + 690, version=number + 1),
    ]  # fmt: skip


def move_segment(source: Path, target: Path) -> None:
    """Makes the only segment of one trace the second of another."""
    (source / COLUMNS / "00000.arrow").rename(target / COLUMNS / "00001.arrow")
    manifests = [
        Manifest.from_json(manifest_path(folder).read_text(encoding="utf-8"))
        for folder in (source, target)
    ]
    manifests[1].recorded = manifests[1].written = sum(one.written for one in manifests)
    manifest_path(target).write_text(manifests[1].to_json(), encoding="utf-8")
