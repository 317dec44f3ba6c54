"""However a process ends, its spans stand in the trace, and so do its children's (case C01)."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.record.written_trace import WrittenTrace, lines_of, spans_in
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import SPANS, TaskRecord
from tracer.record.manifest import read_manifest
from tracer.record.recorder import Recorder

STEP = trace_of_step("run", "worker:0", 3)
NUM_SPANS = 100

PROGRAM = """
import os, signal, sys, threading, time
from pathlib import Path
from tracer.model.step import trace_of_step
from tracer.record.recorder import Recorder

recorder = Recorder(Path(sys.argv[1]), "worker:0")
step = trace_of_step("run", "worker:0", 3)
with recorder.span("session.run", step) as root:
    op = recorder.site("op.run")
    for number in range(99):
        recorder.writer().record(op, root.context, number, number + 1)
recorder.open(recorder.site("rpc.client"), step)
"""

#: how it ends → the code of that, and how the manifest calls it
WAYS = {
    "returns": ("recorder.close()", "done"),
    "raises": ("raise SystemError('broken')", "lost"),
    "leaves by os._exit": ("os._exit(3)", "lost"),
    "is killed": ("os.kill(os.getpid(), signal.SIGKILL)", "lost"),
    "is terminated": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", "lost"),
    "aborts": ("os.abort()", "lost"),
    "becomes another program": ("os.execv(sys.executable, [sys.executable, '-c', ''])", "lost"),
}


def spans_of(trace: WrittenTrace) -> list[dict[str, object]]:
    return [
        span
        for path in sorted((trace.folder / SPANS).iterdir())
        for _, _, document in lines_of(path)
        for span in spans_in(document)
    ]


def task_of(trace: WrittenTrace) -> TaskRecord:
    (task,) = read_manifest(trace.folder).tasks
    return task


@pytest.mark.parametrize("way", WAYS)
def test_a_process_leaves_all_its_spans_and_what_was_open(tmp_path: Path, way: str) -> None:
    how, outcome = WAYS[way]
    trace = WrittenTrace(tmp_path)
    command = [sys.executable, "-c", PROGRAM + how, str(trace.scratch)]
    subprocess.run(command, check=False, capture_output=True, timeout=60)
    trace.sink.turn(0)
    trace.finish()
    spans = spans_of(trace)
    open_spans = [span for span in spans if "vizdist.unfinished" in str(span["attributes"])]
    assert len(spans) == NUM_SPANS + 1
    assert [span["name"] for span in open_spans] == ["rpc.client"]
    task = task_of(trace)
    assert (task.recorded, task.written, task.outcome) == (101, 101, outcome)
    last = max(int(str(span["endTimeUnixNano"])) for span in spans)
    assert task.last_seen_ns == last > 0


def record_in_child(scratch: str, method: str) -> None:
    """A forked child goes on with the recorder it has, another one opens its own."""
    recorder = PARENTS.get("recorder") if method == "fork" else None
    recorder = recorder or Recorder(Path(scratch), "worker:0")
    writer, op = recorder.writer(), recorder.site("op.run", name="in the child")
    for number in range(NUM_SPANS):
        writer.record(op, STEP, number, number + 1)
    os._exit(0)  # as multiprocessing's own children do, without goodbye


PARENTS: dict[str, Recorder] = {}


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_child_process_records_beside_its_parent(tmp_path: Path, method: str) -> None:
    trace = WrittenTrace(tmp_path)
    recorder = PARENTS["recorder"] = trace.recorder()
    op = recorder.site("op.run", name="in the parent")
    recorder.writer().record(op, STEP, 1, 2)
    try:
        context: Any = multiprocessing.get_context(method)
        child = context.Process(target=record_in_child, args=(str(trace.scratch), method))
        child.start()
        child.join(60)
        recorder.writer().record(op, STEP, 3, 4)
    finally:
        recorder.close()
        PARENTS.clear()
    trace.finish()
    names = [span["name"] for span in spans_of(trace)]
    assert names.count("in the child") == NUM_SPANS
    assert names.count("in the parent") == 2
    assert len({span["spanId"] for span in spans_of(trace)}) == NUM_SPANS + 2
    assert task_of(trace).written == NUM_SPANS + 2
