import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.campaign import kill_recorder
from tests.record.receivers import http_receiver
from tests.record.written_trace import lines_of, read_table, segment_paths, spans_in
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import Manifest, TaskRecord, spans_path
from tracer.record.collector import (
    CollectorProcess,
    Orders,
    _waits_for_a_core,
    start_collector,
)
from tracer.record.manifest import read_manifest, write_manifest
from tracer.record.recorder import Recorder
from tracer.record.room import FULL_FILES

pytestmark = pytest.mark.cluster
STEP = trace_of_step("run", "worker:0", 1)
SOON_S = 20


class Run:
    """A trace folder with a collector in a process of its own."""

    def __init__(self, folder: Path, orders: Orders | None = None) -> None:
        self.trace, self.scratch = folder / "a.trace", folder / "scratch"
        self.trace.mkdir()
        self.scratch.mkdir()
        write_manifest(self.trace, Manifest("run"))
        self.collector: CollectorProcess = start_collector(self.trace, self.scratch, "run", orders)

    def task(self, name: str) -> TaskRecord:
        return next(task for task in read_manifest(self.trace).tasks if task.task == name)

    def num_spans_in_file(self, task: str = "worker:0") -> int:
        return sum(
            len(spans_in(document)) for _, _, document in lines_of(spans_path(self.trace, task, 0))
        )


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    run.collector.stop(SOON_S)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def test_what_tasks_record_stands_in_the_trace_with_three_equal_counts(run: Run) -> None:
    recorders = [Recorder(run.scratch, task) for task in ("worker:0", "ps:0")]
    for recorder in recorders:
        writer, op = recorder.writer(), recorder.site("op.run")
        for _ in range(5_000):
            writer.record(op, STEP, 1, 2)
        recorder.close()
    counts = run.collector.stop(SOON_S)
    assert (counts.recorded, counts.written, counts.error) == (10_000, 10_000, "")
    assert run.num_spans_in_file() + run.num_spans_in_file("ps:0") == 10_000
    assert sum(len(read_table(path)[1]) for path in segment_paths(run.trace)) == 10_000
    pids = {run.task("collector").pid, run.task("worker:0").pid}
    assert pids == {run.collector.pid, os.getpid()}
    assert run.task("collector").outcome == "done"


def test_a_tight_loop_and_a_slow_receiver_lose_nothing_and_every_count_is_told(
    tmp_path: Path,
) -> None:
    with http_receiver() as receiver:
        receiver.answers.clear()
        run = Run(tmp_path, Orders(receiver.url, flush_s=0.2))
        recorder = Recorder(run.scratch, "worker:0")
        writer, op = recorder.writer(), recorder.site("op.run")
        for number in range(50_000):
            writer.record(op, STEP, number, number + 1)
        recorder.close()
        counts = run.collector.stop(SOON_S)
        receiver.answers.set()
    assert (counts.recorded, counts.written, counts.error) == (50_000, 50_000, "")
    assert run.num_spans_in_file() == 50_000
    export = counts.export
    assert (export["exported"], export["not_exported"]) == (0, 50_000)
    assert read_manifest(run.trace).export == export
    assert run.task("collector").outcome == "done"


def test_spans_reach_the_trace_while_the_task_runs(run: Run) -> None:
    recorder = Recorder(run.scratch, "worker:0")
    recorder.writer().record(recorder.site("op.run"), STEP, 1, 2)
    wait_until(lambda: read_manifest(run.trace).written == 1)
    assert run.num_spans_in_file() == 1
    assert len(segment_paths(run.trace)) == 1


def test_a_step_boundary_waits_for_the_collector_and_records_that(run: Run) -> None:
    recorder = Recorder(run.scratch, "worker:0", ring_capacity=8)
    writer, op = recorder.writer(), recorder.site("op.run")
    wait_until((run.scratch / "collector.lock").exists)
    os.kill(run.collector.pid, signal.SIGSTOP)  # it takes nothing before the boundary is reached
    for _ in range(8 * (FULL_FILES + 20)):
        writer.record(op, STEP, 1, 2)
    goes_on = threading.Timer(0.2, os.kill, (run.collector.pid, signal.SIGCONT))
    goes_on.start()
    recorder.step_boundary()
    goes_on.join()
    assert writer.ring.num_waiting(0) <= FULL_FILES // 2
    recorder.close()
    run.collector.stop(SOON_S)
    (wait,) = (
        span
        for _, _, document in lines_of(spans_path(run.trace, "worker:0", 0))
        for span in spans_in(document)
        if span["name"] == "record.wait"
    )
    assert wait["endTimeUnixNano"] > wait["startTimeUnixNano"]


def test_a_killed_collector_is_named_and_its_last_counts_stand(run: Run) -> None:
    recorder = Recorder(run.scratch, "worker:0")
    recorder.writer().record(recorder.site("op.run"), STEP, 1, 2)
    wait_until(lambda: read_manifest(run.trace).written == 1)
    os.kill(run.collector.pid, signal.SIGKILL)
    counts = run.collector.stop(SOON_S)
    assert (counts.recorded, counts.written) == (1, 1)
    assert "logs/collector.log" in counts.error


def test_sigterm_ends_the_collector_with_all_spans_written(run: Run) -> None:
    recorder = Recorder(run.scratch, "worker:0")
    recorder.writer().record(recorder.site("op.run"), STEP, 1, 2)
    wait_until((run.scratch / "collector.lock").exists)
    os.kill(run.collector.pid, signal.SIGTERM)
    wait_until(lambda: not run.collector.is_alive)
    assert run.num_spans_in_file() == 1


LAUNCHER = """
import sys, time
from pathlib import Path
from tracer.model.step import trace_of_step
from tracer.record.collector import start_collector
from tracer.record.recorder import Recorder
trace, scratch = map(Path, sys.argv[1:])
collector = start_collector(trace, scratch, "run")
recorder = Recorder(scratch, "launcher")
recorder.open(recorder.site("run"), trace_of_step("run", "run", 0))
print(collector.pid, flush=True)
time.sleep(60)
"""


def test_a_dead_launcher_leaves_a_whole_trace_that_says_so(tmp_path: Path) -> None:
    trace, scratch = tmp_path / "a.trace", tmp_path / "scratch"
    trace.mkdir()
    scratch.mkdir()
    write_manifest(trace, Manifest("run"))
    command = [sys.executable, "-c", LAUNCHER, str(trace), str(scratch)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        assert int(launcher.stdout.readline()) != launcher.pid
        launcher.kill()
    wait_until(lambda: read_manifest(trace).outcome == "interrupted")
    wait_until(lambda: not scratch.exists())
    (span,) = (s for *_, d in lines_of(spans_path(trace, "launcher", 0)) for s in spans_in(d))
    unfinished = {"key": "vizdist.unfinished", "value": {"boolValue": True}}
    assert unfinished in span["attributes"]
    assert read_manifest(trace).error == "the launcher died"


def test_a_killed_task_loses_no_span_that_ended(tmp_path: Path) -> None:
    outcome = kill_recorder.run(tmp_path, kills=3, seed=1)
    assert outcome.is_clean, outcome
    assert outcome.ended > 0
    assert outcome.manifest_outcome == "lost"


@pytest.mark.slow
def test_fifty_kills_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    outcome = kill_recorder.run(tmp_path, kills=50, seed=2)
    assert outcome.is_clean, outcome
    assert outcome.ended > 10_000


def test_who_wants_a_core_is_waited_for_and_who_is_stopped_is_not() -> None:
    with subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"],
                          stdout=subprocess.PIPE) as busy:  # fmt: skip
        assert busy.stdout is not None
        busy.stdout.read(1)
        assert _waits_for_a_core(busy.pid)
        busy.send_signal(signal.SIGSTOP)
        os.waitpid(busy.pid, os.WUNTRACED)
        assert not _waits_for_a_core(busy.pid)
        busy.kill()
    assert not _waits_for_a_core(busy.pid)
