"""A task process as its launcher sees it."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracer.model.cluster import TaskName

TAIL_LINES = 20  #: of a failed task's log, shown with the error
READ_OUT_S = 1.0  #: for the last lines of a process that has ended


@dataclass(frozen=True, slots=True)
class Event:
    """What a task said (`serving`, `done` …), or that it is `stopped`, or gone (`exit`)."""

    task: TaskName
    name: str
    facts: Mapping[str, Any]


class Child:
    """Starts `tracer task`, turns its lines into events, ends it."""

    def __init__(
        self,
        task: TaskName,
        arguments: list[str],
        environment: Mapping[str, str],
        log: Path,
        events: "queue.SimpleQueue[Event]",
    ) -> None:
        self.task = task
        self.log = log
        self._events = events
        self._stopping = False
        self.was_given_up = False  #: killed by us, as its time to stop was up
        self._stopped: tuple[float, int] | None = None  # since when, and by which signal
        with log.open("ab") as log_file:  # it may have had lives before
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tracer", "task", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                bufsize=0,  # nothing left to flush into the pipe of a task that died
                env=dict(environment),
                start_new_session=True,  # Ctrl-C reaches the launcher alone, which ends us in order
            )
        self._reader = threading.Thread(target=self._read, name=f"child {task}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def command(self, command: str, **facts: Any) -> None:
        """Sends a command; a task that is gone shows as its `exit` event, not here."""
        assert self.process.stdin is not None
        self._stopping |= command == "stop"
        try:
            self.process.stdin.write(json.dumps({"command": command, **facts}).encode() + b"\n")
            self.process.stdin.flush()
        except (BrokenPipeError, OSError):
            return

    def tell_if_stopped(self, limit_s: float) -> None:
        """An event, if a signal has stopped the process for so long. The system tells its parent.

        Nobody else may ever see it: a task alone is asked for nothing.
        """
        with suppress(AttributeError, ChildProcessError):  # not on every system; it has ended
            told = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
            if told is not None:
                is_stopped = told.si_code == os.CLD_STOPPED
                self._stopped = (time.monotonic(), told.si_status) if is_stopped else None
        if self._stopped is not None and time.monotonic() - self._stopped[0] >= limit_s:
            self._events.put(Event(self.task, "stopped", {"signal": self._stopped[1]}))

    def end(self, timeout_s: float) -> None:
        """Waits for the process, then kills it; returns when it is gone and was heard out."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.was_given_up = True
            self.process.kill()
            self.process.wait()
        self._reader.join(READ_OUT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def tail(self) -> list[str]:
        """The last lines of the task's log."""
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            return [line.rstrip("\n") for line in deque(lines, TAIL_LINES)]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if (event := self._event(line)) is not None:
                self._events.put(event)
        code = self.process.wait()
        self._events.put(Event(self.task, "exit", {"code": code, "expected": self._stopping}))

    def _event(self, line: bytes) -> Event | None:
        """None for what a library printed before the task took its standard output over."""
        try:
            facts = json.loads(line)
            return Event(self.task, facts.pop("event"), facts)
        except (ValueError, TypeError, LookupError, AttributeError):
            return None


def how_it_ended(code: int) -> str:
    """`was killed by SIGKILL` or `ended with exit code 1`."""
    return f"was killed by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"


def signal_name(number: int) -> str:
    known = {int(each): each.name for each in signal.Signals}
    return known.get(number, f"signal {number}")
