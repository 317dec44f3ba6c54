import json
import os
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.record.written_trace import (
    WrittenTrace,
    as_proto,
    lines_of,
    members_of,
    read_table,
    segment_paths,
    spans_in,
    value,
)
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import COLUMNS, SPANS, Flag
from tracer.record import columns, otlp_writer
from tracer.record.manifest import read_manifest
from tracer.record.otlp_writer import MEMBER_BYTES

STEP = trace_of_step("run", "worker:0", 3)
ODD = 'a "quoted" 100%s <img src=x onerror=alert(1)> \\ 名\n'


@pytest.fixture
def trace(tmp_path: Path) -> WrittenTrace:
    return WrittenTrace(tmp_path)


def span_file(trace: WrittenTrace, name: str = "worker-0.0") -> Path:
    return trace.folder / SPANS / f"{name}.otlp.jsonl.gz"


def test_opentelemetry_reads_what_was_recorded(trace: WrittenTrace) -> None:
    recorder = trace.recorder()
    recv = recorder.site(
        "rendezvous.recv", name=ODD, attributes={"vizdist.edge.kind": "feed", "vizdist.node": ODD}
    )
    waiting = recorder.open(recv, STEP.under(7), recorder.key(ODD))
    waiting.fail(ODD)
    waiting.close(num_bytes=2**40, link=9, extra=5, flags=Flag.REMOTE)
    trace.finish()
    ((_, _, document),) = lines_of(span_file(trace))
    data = as_proto(document)
    resource = {a.key: value(a.value) for a in data.resource_spans[0].resource.attributes}
    assert resource["vizdist.task"] == "worker:0"
    assert resource["process.pid"] == os.getpid()
    (span,) = data.resource_spans[0].scope_spans[0].spans
    assert span.trace_id.hex() == STEP.trace_id
    assert int.from_bytes(span.span_id) == waiting.span
    assert int.from_bytes(span.parent_span_id) == 7
    assert span.name == ODD
    assert span.kind == Span.SPAN_KIND_INTERNAL
    assert span.start_time_unix_nano == waiting.start
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, ODD)
    assert [int.from_bytes(link.span_id) for link in span.links] == [9]
    assert {a.key: value(a.value) for a in span.attributes} == {
        "vizdist.kind": "rendezvous.recv",
        "vizdist.lane": "recv",
        "vizdist.depth": 0,
        "vizdist.step.number": 3,
        "vizdist.edge.kind": "feed",
        "vizdist.node": ODD,
        "vizdist.rendezvous.key": ODD,
        "vizdist.bytes": 2**40,
        "vizdist.wait_ns": 5,
        "vizdist.remote": True,
    }


def test_client_and_server_spans_have_the_kind_that_opentelemetry_gives_them(
    trace: WrittenTrace,
) -> None:
    recorder = trace.recorder()
    for kind in ("rpc.client", "rpc.server"):
        recorder.writer().record(recorder.site(kind, name="RecvTensor"), STEP, 1, 2)
    trace.finish()
    ((_, _, document),) = lines_of(span_file(trace))
    kinds = {
        value(span.attributes[0].value): span.kind
        for span in as_proto(document).resource_spans[0].scope_spans[0].spans
    }
    assert kinds == {"rpc.client": Span.SPAN_KIND_CLIENT, "rpc.server": Span.SPAN_KIND_SERVER}


def test_every_row_of_the_columns_leads_to_its_span(
    trace: WrittenTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_writer, "LINE_SPANS", 7)
    monkeypatch.setattr("tracer.record.sink.MEMBER_BYTES", 6_000)
    for task in ("worker:0", "ps:0"):
        recorder = trace.recorder(task)
        ops = [recorder.site("op.run", name=f"op{n}", lane=f"lane {n % 2}") for n in range(3)]
        for number in range(100):
            recorder.writer().record(ops[number % 3], STEP, number, number + 1, ready=number % 2)
        trace.sink.turn(0)
    trace.finish()
    found = {
        (f"{SPANS}/{path.name}", member, line, int(span["spanId"], 16))
        for path in (span_file(trace), span_file(trace, "ps-0.0"))
        for member, line, document in lines_of(path)
        for span in spans_in(document)
    }
    _, spans = read_table(segment_paths(trace.folder)[0])
    assert {(s["file"], s["member"], s["line"], s["span"]) for s in spans} == found
    assert len(found) == 200
    assert len({member for _, member, _, _ in found}) > 4


def test_members_hold_at_most_so_much_text(
    trace: WrittenTrace,
) -> None:
    recorder = trace.recorder()
    for index in range(200):
        with recorder.span("graph.chunk", STEP) as span:
            span.set("vizdist.chunk.index", index)
            span.set("vizdist.chunk.data", "x" * 48_000)
    trace.finish()
    sizes = [len(text) for _, text in members_of(span_file(trace))]
    assert sum(sizes) > 2 * MEMBER_BYTES
    assert max(sizes) <= MEMBER_BYTES


def test_columns_say_what_was_recorded(trace: WrittenTrace) -> None:
    recorder = trace.recorder()
    update = {"vizdist.op": "AssignVariableOp", "vizdist.device": "/job:ps/…/CPU:0"}
    update["vizdist.frame.name"] = "loop"
    op = recorder.site("op.run", name="up", lane="executor CPU:0", attributes=update)
    read = recorder.site("op.run", name="up/read", lane="executor CPU:0")
    send = recorder.site("rendezvous.send", attributes={"vizdist.edge.kind": "control"})
    writer = recorder.writer()
    span = writer.record(op, STEP.under(4), 10, 20, 9, 64, recorder.key("7:2"), 5, Flag.DEAD, 12)
    writer.record(read, STEP, 20, 30)
    writer.record(send, STEP, 1, 2)
    trace.finish()
    rows, spans = read_table(segment_paths(trace.folder)[0])
    by_name = {span["name"]: span for span in spans}
    assert by_name["up"] == {
        "row": by_name["up"]["row"],
        "start": 10,
        "end": 20,
        "ready": 9,
        "wait": 0,
        "bytes": 64,
        "step": 3,
        "kind": "op.run",
        "name": "up",
        "op": "AssignVariableOp",
        "device": "/job:ps/…/CPU:0",
        "key": "",
        "frame": "loop",
        "frame_id": 7,
        "iteration": 2,
        "trace_hi": STEP.trace_hi,
        "trace_lo": STEP.trace_lo,
        "span": span,
        "parent": 4,
        "link": 5,
        "version": 12,
        "flags": Flag.DEAD,
        "file": "spans/worker-0.0.otlp.jsonl.gz",
        "member": 0,
        "line": 0,
    }
    assert by_name["up/read"]["version"] == -1
    assert by_name["rendezvous.send"]["flags"] == Flag.CONTROL
    executor = {"task": "worker:0", "lane": "executor CPU:0", "depth": 0}
    assert rows[by_name["up"]["row"]] == rows[by_name["up/read"]["row"]] == executor


def test_segments_are_merged_as_they_come_and_at_the_end(
    trace: WrittenTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "SEGMENT_ROWS", 60)
    recorder = trace.recorder()
    most = 0
    for turn in range(50):
        op = recorder.site("op.run", name=f"op {turn}", lane=f"lane {turn % 3}")
        for number in range(4):
            recorder.writer().record(op, STEP, turn, turn + 1, num_bytes=4 * turn + number)
        trace.sink.turn(0)
        most = max(most, len(segment_paths(trace.folder)))
    trace.finish()
    tables = [read_table(path)[1] for path in segment_paths(trace.folder)]
    assert most < 24
    assert len(tables) < 8
    assert max(map(len, tables)) <= 60
    seen = [(span["bytes"], span["name"]) for table in tables for span in table]
    assert sorted(seen) == [(n, f"op {n // 4}") for n in range(200)]
    assert not list((trace.folder / COLUMNS).glob("*.part"))


def test_a_second_life_of_a_task_writes_a_file_of_its_own(trace: WrittenTrace) -> None:
    for life in range(2):
        recorder = trace.recorder()
        recorder.writer().record(recorder.site("op.run", name=f"life {life}"), STEP, 1, 2)
        recorder.close()
        trace.sink.turn(0)
    trace.finish()
    names = [
        [span["name"] for _, _, document in lines_of(path) for span in spans_in(document)]
        for path in (span_file(trace), span_file(trace, "worker-0.1"))
    ]
    assert names == [["life 0"], ["life 1"]]
    (task,) = read_manifest(trace.folder).tasks
    assert (task.recorded, task.written, task.outcome) == (2, 2, "done")


def test_a_full_disk_makes_spans_wait_and_loses_none(
    trace: WrittenTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = trace.recorder()
    writer, op = recorder.writer(), recorder.site("op.run")
    writer.record(op, STEP, 1, 2)
    trace.sink.turn(0)
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real_write(file, data[: len(data) // 2]))
    writer.record(op, STEP, 3, 4)
    assert trace.sink.turn(0) == 0
    assert "could be written" in trace.sink.error
    assert len(list(members_of(span_file(trace)))) == 1  # no torn tail
    monkeypatch.undo()
    assert trace.sink.turn(0) == 1
    assert trace.sink.error == ""
    trace.finish()
    assert (trace.sink.recorded, trace.sink.written) == (2, 2)
    assert len(read_table(segment_paths(trace.folder)[0])[1]) == 2


def test_a_disk_that_fills_between_two_members_has_no_span_twice(
    trace: WrittenTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = trace.recorder()
    for _ in range(200):
        with recorder.span("graph.chunk", STEP) as span:
            span.set("vizdist.chunk.data", "x" * 48_000)
    real_write = os.write
    written: list[int] = []

    def fill(file: int, data: bytes) -> int:
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        written.append(real_write(file, data))
        return written[-1]

    monkeypatch.setattr(os, "write", fill)
    assert trace.sink.turn(0) == 0
    assert len(written) == 2
    monkeypatch.undo()
    trace.finish()
    spans = [s["spanId"] for *_, d in lines_of(span_file(trace)) for s in spans_in(d)]
    assert len(spans) == len(set(spans)) == 200


def test_the_manifest_counts_per_task_and_in_all(trace: WrittenTrace) -> None:
    for task, count in (("worker:0", 3), ("ps:0", 2)):
        recorder = trace.recorder(task)
        for _ in range(count):
            recorder.writer().record(recorder.site("op.run"), STEP, 10, 20)
        if task == "ps:0":
            recorder.close()
    trace.finish()
    manifest = read_manifest(trace.folder)
    assert (manifest.recorded, manifest.written) == (5, 5)
    told = {task.task: (task.recorded, task.written, task.outcome) for task in manifest.tasks}
    assert told == {"worker:0": (3, 3, "lost"), "ps:0": (2, 2, "done")}
    assert {task.last_seen_ns for task in manifest.tasks} == {20}
    assert json.loads((trace.folder / "manifest.json").read_text())["written"] == 5
