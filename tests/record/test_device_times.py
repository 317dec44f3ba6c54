"""A GPU's clock is read in the host's time, and nothing is asked of it while a step runs."""

import random
from collections import deque
from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch

from tests.fake_gpu import FakeDriver, FakeStream
from tests.fakes import FakeClock, Recording, recorded
from tracer.model.step import SpanContext, trace_of_step
from tracer.record.device import LONGEST_GAP_NS, DeviceClock, DeviceTimes, Timed
from tracer.record.recorder import NO_RECORDER

MS = 1_000_000
S = 1_000_000_000
STEP = trace_of_step("run", "run", 1)
START = FakeClock().now_ns()


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
def recording(driver: FakeDriver) -> Iterator[Recording]:
    with recorded("worker:0", driver.clock) as recording:
        yield recording


def stream(driver: FakeDriver) -> FakeStream:
    return driver.stream(torch.device("cpu"))


def clock_of(driver: FakeDriver) -> DeviceClock:
    return DeviceClock(driver.clock.now_ns, stream(driver).record)


def test_a_clock_without_drift_is_read_to_the_nanosecond(driver: FakeDriver) -> None:
    clock, work = clock_of(driver), stream(driver)
    clock.anchor()
    work.launch(3 * MS)
    assert clock.read(work.record()) == START + 3 * MS


def test_what_came_before_an_anchor_is_read_as_well(driver: FakeDriver) -> None:
    clock = clock_of(driver)
    event = stream(driver).record()
    driver.clock.advance(5 * MS)
    clock.anchor()
    assert clock.read(event) == START


@pytest.mark.parametrize("drift", [80e-6, -80e-6, 0.0])
def test_over_an_hour_a_drifting_clock_stays_within_its_error(drift: float) -> None:
    driver = FakeDriver(drift=drift)
    driver.wake_up_ns = lambda: chance.randrange(2_000, 30_000)
    chance = random.Random(1)
    clock, work = clock_of(driver), stream(driver)
    clock.anchor()
    worst = []
    for _ in range(3600 * 2):
        driver.clock.advance(S // 2)
        work.launch(10 * MS)
        event = work.record()
        worst.append(abs(clock.read(event) - (driver.clock.now_ns() + 10 * MS)))
        if clock.is_due:
            clock.anchor()
    assert max(worst) < 100_000
    assert max(worst[60:]) < 40_000
    assert clock.drift == pytest.approx(drift, abs=1e-7)


def test_anchors_grow_rare_until_one_comes_every_ten_seconds(driver: FakeDriver) -> None:
    clock = clock_of(driver)
    taken = []
    for _ in range(60 * 20):
        if clock.is_due:
            clock.anchor()
            taken.append(driver.clock.now_ns())
        driver.clock.advance(S // 20)
    gaps = [later - earlier for earlier, later in pairwise(taken)]
    assert gaps == sorted(gaps)
    assert gaps[0] == S // 10
    assert gaps[-1] == LONGEST_GAP_NS
    assert len(taken) < 15


def test_an_anchor_is_the_best_of_several_looks(driver: FakeDriver) -> None:
    late = iter([400_000, 900_000, 7_000, 50_000, 60_000])
    driver.wake_up_ns = lambda: next(late)
    clock = clock_of(driver)
    clock.anchor()
    assert clock.error_ns == 3_500


def test_a_busy_host_looks_more_often_and_believes_no_short_line() -> None:
    driver = FakeDriver()
    late = iter([2_000_000] * 24 + [30_000] + [9_000_000] * 25)
    driver.wake_up_ns = lambda: next(late)
    clock = clock_of(driver)
    clock.anchor()
    assert clock.error_ns == 15_000
    driver.clock.advance(S // 10)
    clock.anchor()
    assert clock.error_ns == 4_500_000
    assert clock.drift == 0


class Device:
    """A GPU whose work is timed."""

    def __init__(self, driver: FakeDriver, recording: Recording) -> None:
        self.driver = driver
        self.work = stream(driver)
        self.recorder = recording.recorder
        anchors = self.recorder.site("device.anchor", name="GPU:0")
        self.site = self.recorder.site("op.run", name="mm", lane="stream GPU:0")
        self.times = DeviceTimes(self.recorder, stream(driver).record, anchors)

    def op(self, ns: int, context: SpanContext = STEP) -> None:
        launched = self.driver.clock.now_ns()
        begun = self.work.record()
        self.work.launch(ns)
        ended = self.work.record()
        self.times.add(Timed(self.site, context, launched, begun, ended, num_bytes=8, extra=3))


@pytest.fixture
def device(driver: FakeDriver, recording: Recording) -> Device:
    return Device(driver, recording)


def test_ops_become_spans_one_after_another_on_the_streams_lane(
    device: Device, driver: FakeDriver, recording: Recording
) -> None:
    for number in range(3):
        device.op(2 * MS, STEP.under(40 + number))
        driver.clock.advance(10_000)
    device.times.settle(device.times.mark())
    spans = recording.of("op.run")
    assert [(s.start - START, s.end - START) for s in spans] == [
        (0, 2 * MS),
        (2 * MS, 4 * MS),
        (4 * MS, 6 * MS),
    ]
    assert [span.ready - START for span in spans] == [0, 10_000, 20_000]
    assert {(s.lane, s.depth, s.num_bytes, s.extra) for s in spans} == {("stream GPU:0", 0, 8, 3)}
    assert [span.parent for span in spans] == [40, 41, 42]
    assert {span.step for span in spans} == {1}


def test_nothing_is_synchronised_while_a_step_is_launched(
    device: Device, driver: FakeDriver
) -> None:
    before = driver.num_synchronized
    for _ in range(200):
        device.op(MS)
    device.times.settle(device.times.mark())
    assert driver.num_synchronized == before


def test_a_mark_parts_one_step_from_the_next(device: Device, recording: Recording) -> None:
    device.op(MS)
    mark = device.times.mark()
    device.op(MS, trace_of_step("run", "run", 2))
    device.times.settle(mark)
    assert [span.step for span in recording.of("op.run")] == [1]
    device.times.settle(device.times.mark())
    assert [span.step for span in recording.of("op.run")] == [1, 2]


def test_work_of_a_device_that_failed_is_told_by_nobody(
    device: Device, recording: Recording
) -> None:
    device.op(MS)
    device.times.drop(device.times.mark())
    device.times.settle(device.times.mark())
    assert not recording.of("op.run")


def test_each_anchor_tells_how_good_it_is(
    device: Device, driver: FakeDriver, recording: Recording
) -> None:
    driver.drift = 5e-6
    driver.wake_up_ns = lambda: 8_000
    device.times.anchor_if_due()
    driver.clock.advance(S)
    device.times.anchor_if_due()
    first, last = recording.of("device.anchor")
    assert first.attributes["vizdist.clock.drift_ppb"] == 0
    assert last.attributes["vizdist.clock.drift_ppb"] == pytest.approx(
        5_000, abs=4_010
    )  # of one second
    assert last.attributes["vizdist.clock.error_ns"] == 4_000
    assert last.end - last.start == 5 * 8_000


def test_without_a_recorder_no_device_is_asked_for_its_time(driver: FakeDriver) -> None:
    times = DeviceTimes(NO_RECORDER, stream(driver).record, 0)
    times.anchor_if_due()
    times.anchor()
    assert driver.num_synchronized == 0


def test_where_anchors_are_beyond_the_detail_none_is_taken_or_told(
    driver: FakeDriver, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    monkeypatch.setattr(recording.recorder, "annotate", lambda *what: told.append(what))
    times = DeviceTimes(recording.recorder, stream(driver).record, 0)
    times.anchor_if_due()
    times.anchor()
    event = stream(driver).record()
    times.add(Timed(0, STEP, START, event, event))
    times.settle(times.mark())
    assert (driver.num_synchronized, told) == (0, [])


def test_a_mark_is_the_same_at_any_moment_of_settling(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may ask for it while one is being taken out."""
    marks = []

    class Watched(deque[Timed]):
        def popleft(self) -> Timed:
            timed = super().popleft()
            marks.append(device.times.mark())
            return timed

    for _ in range(3):
        device.op(MS)
    waiting = Watched(device.times._waiting)
    monkeypatch.setattr(device.times, "_waiting", waiting)
    device.times.settle(device.times.mark())
    assert marks == [3, 3, 3]
