import subprocess
import sys
import time

import pytest

from tracer.record.clock import FakeClock, SystemClock, clock_environment

ONE_MS = 1_000_000


def test_the_system_clock_is_near_the_epoch_clock_and_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.now_ns() for _ in range(1000)]
    assert readings == sorted(readings)
    assert abs(clock.now_ns() - time.time_ns()) < 1_000 * ONE_MS


def test_a_child_process_has_the_same_clock() -> None:
    code = "from tracer.record.clock import now_ns; print(now_ns())"
    before = SystemClock.now_ns()
    answer = subprocess.run(
        [sys.executable, "-c", code], env=clock_environment(), capture_output=True, check=True
    )
    assert before < int(answer.stdout) < SystemClock.now_ns()


def test_the_fake_clock_moves_only_when_told() -> None:
    clock = FakeClock(5)
    clock.advance(7)
    clock.sleep(0.001)
    assert clock.now_ns() == clock.now_ns() == 12 + ONE_MS
    with pytest.raises(ValueError, match="never goes back"):
        clock.advance(-1)
