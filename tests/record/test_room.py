"""A recorder where rings are full, the disk is, or nobody reads."""

import os
import resource
from pathlib import Path

import pytest

from tests.fakes import FakeClock, recorded
from tests.record.written_trace import WrittenTrace
from tracer.model.step import trace_of_step
from tracer.record import recorder as recorder_room
from tracer.record.drain import find_homes
from tracer.record.home import COLLECTOR_LOCK, lock_for_life
from tracer.record.manifest import read_manifest
from tracer.record.recorder import Recorder
from tracer.record.room import FULL_FILES, Room, bound_rings, folder_bytes
from vizdist.store.trace import open_trace

STEP = trace_of_step("run", "worker:0", 3)


def test_a_step_boundary_does_not_wait_where_no_collector_runs() -> None:
    with recorded(clock=FakeClock()) as recording:
        recorder = recording.add("worker:1", ring_capacity=2)
        writer, op = recorder.writer(), recorder.site("op.run")
        for _ in range(200):
            writer.record(op, STEP, 1, 2)
        recorder.step_boundary()
        waits = recording.of("record.wait")
    assert len(waits) == 1
    assert waits[0].end - waits[0].start < 1_000_000_000


def test_there_is_room_until_a_ring_is_over_full_and_nobody_reads_it() -> None:
    with recorded(clock=FakeClock()) as recording:
        recorder = recording.add("worker:1", ring_capacity=2)
        writer, op = recorder.writer(), recorder.site("op.run")
        for _ in range(2 * FULL_FILES):
            writer.record(op, STEP, 1, 2)
        assert recorder.has_room()
        writer.record(op, STEP, 1, 2)
        assert not recorder.has_room()
        recording.spans()
        assert recorder.has_room()


def test_where_the_trace_may_be_small_little_may_wait_in_a_ring(tmp_path: Path) -> None:
    bound_rings(tmp_path, 200_000)
    recorder = Recorder(tmp_path, "worker:1", clock=FakeClock(), ring_capacity=2)
    writer, op = recorder.writer(), recorder.site("op.run")
    for _ in range(4):
        writer.record(op, STEP, 1, 2)
    assert recorder.has_room()
    writer.record(op, STEP, 1, 2)
    assert not recorder.has_room()
    recorder.close()


def test_steps_are_not_recorded_while_a_collector_cannot_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_room, "WAIT_LIMIT_S", 0.01)
    lock = lock_for_life(tmp_path / COLLECTOR_LOCK)  # it lives, and takes nothing
    recorder = Recorder(tmp_path, "worker:1", clock=FakeClock(), ring_capacity=2)
    writer, op = recorder.writer(), recorder.site("op.run")
    for _ in range(2 * FULL_FILES + 1):
        writer.record(op, STEP, 1, 2)
    assert recorder.has_room()
    recorder.step_boundary()
    assert not recorder.has_room()
    (home,) = find_homes(tmp_path, set())
    home.take()
    home.release()
    assert recorder.has_room()
    recorder.close()
    os.close(lock)


def test_where_there_is_no_room_spans_are_counted_and_lost_and_nothing_else(
    tmp_path: Path,
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    recorder = Recorder(tmp_path, "worker:0", clock=FakeClock(), ring_capacity=1000)
    op = recorder.site("op.run")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        for _ in range(1500):
            recorder.writer().record(op, STEP, 1, 2)
        with recorder.span("session.run", STEP) as span:
            span.set("vizdist.loss", 0.5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    for _ in range(600):
        recorder.writer().record(op, STEP, 1, 2)
    recorder.close()
    (home,) = find_homes(tmp_path, set())
    kept = len(home.take().records)
    assert (home.num_recorded, kept) == (2101, 101)


def test_recording_stops_where_the_trace_is_as_large_as_it_may_be(tmp_path: Path) -> None:
    trace = WrittenTrace(tmp_path)
    room = Room(trace.folder, trace.scratch, limit_bytes=20_000)
    recorder = trace.recorder()
    op = recorder.site("op.run")
    steps = recorded_steps = 0
    while steps < 100:
        steps += 1
        if recorder.takes_step():
            recorded_steps += 1
            for number in range(200):
                recorder.writer().record(op, STEP, number, number + 1)
        trace.sink.turn(0)
        room.look(trace.sink.error)
    recorder.close()
    trace.finish()
    manifest = read_manifest(trace.folder)
    assert 0 < recorded_steps < 100
    assert manifest.unrecorded_steps == 100 - recorded_steps
    assert manifest.recorded == manifest.written == 200 * recorded_steps
    assert "20000 bytes" in room.stopped
    assert 20_000 <= folder_bytes(trace.folder) < 60_000


def test_a_full_disk_stops_recording_until_there_is_room_again(tmp_path: Path) -> None:
    trace = WrittenTrace(tmp_path)
    room, recorder = Room(trace.folder, trace.scratch), trace.recorder()
    room.look("No space left on device")
    assert not recorder.takes_step()
    room.look("")
    assert recorder.takes_step()
    recorder.close()
    trace.finish()
    assert room.stopped == "spans could not be written: No space left on device"
    assert read_manifest(trace.folder).unrecorded_steps == 1


def test_what_was_recorded_before_the_disk_was_full_is_written_after(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    trace = WrittenTrace(tmp_path)
    room, recorder = Room(trace.folder, trace.scratch), trace.recorder()
    op = recorder.site("op.run", name="x" * 200)
    for number in range(5_000):
        recorder.writer().record(op, STEP, number, number + 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, limits[1]))
    try:
        trace.sink.turn(0)
        room.look(trace.sink.error)
        assert not recorder.takes_step()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    trace.sink.turn(0)
    room.look(trace.sink.error)
    assert recorder.takes_step()
    recorder.close()
    trace.finish()
    manifest = read_manifest(trace.folder)
    assert (manifest.recorded, manifest.written) == (5_000, 5_000)


def test_who_opens_the_trace_hears_of_the_steps_that_are_not_in_it(tmp_path: Path) -> None:
    trace = WrittenTrace(tmp_path)
    room, recorder = Room(trace.folder, trace.scratch, limit_bytes=1), trace.recorder()
    recorder.writer().record(recorder.site("op.run"), STEP, 1, 2)
    room.look("")
    for _ in range(3):
        assert not recorder.takes_step()
    recorder.close()
    trace.finish()
    (problem,) = open_trace(trace.folder).problems
    assert (problem.kind, problem.count) == ("room", 3)
