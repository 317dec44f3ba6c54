"""A task process as its launcher sees it: stopped, going on again, gone."""

import os
import queue
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.launch.commands import until
from tracer.launch.child import Child, Event
from tracer.model.cluster import TaskName

TASK = TaskName("worker", 0)


@contextmanager
def sleeping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    """A child that is no task, and only waits."""
    program = tmp_path / "waits"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    child = Child(TASK, [], dict(os.environ), tmp_path / "log", queue.SimpleQueue())
    try:
        yield child
    finally:
        child.end(0.0)


def told(child: Child, limit_s: float) -> Event | None:
    child.tell_if_stopped(limit_s)
    events = child._events
    return None if events.empty() else events.get()


def test_a_process_that_is_stopped_is_told_of_once_its_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sleeping(tmp_path, monkeypatch) as child:
        assert told(child, 0.0) is None
        os.kill(child.pid, signal.SIGSTOP)
        event = until(lambda: told(child, 0.0), "the stop to be seen")
        assert event == Event(TASK, "stopped", {"signal": signal.SIGSTOP})
        assert told(child, 60.0) is None
        os.kill(child.pid, signal.SIGCONT)
        until(lambda: told(child, 0.0) is None, "it to go on")
        assert told(child, 0.0) is None


def test_a_process_that_is_gone_is_not_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sleeping(tmp_path, monkeypatch) as child:
        child.process.kill()
        assert child._events.get(timeout=60).name == "exit"
        assert told(child, 0.0) is None
