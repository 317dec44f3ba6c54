"""Runs that viewers start: each a process of `tracer run`, which ends with the server or before.

Their traces lie in the folder that the server shows, as those of runs started by hand there.
"""

import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal, NamedTuple

from tracer.model.trace_folder import manifest_path
from vizdist.store.index import path_id
from vizdist.store.library import Library
from vizdist.store.runnable import NotRunnable

TRACER: Final = (sys.executable, "-m", "tracer", "run")
AT_A_TIME: Final = 2
GRACE_S: Final = 8.0  #: for a run that is told to end, which writes the rest of its trace
TAIL_BYTES: Final = 4096

Phase = Literal["starting", "running", "done", "failed"]


class Progress(NamedTuple):
    """`says` are the last words of a run that failed."""

    phase: Phase
    says: str = ""


@dataclass(frozen=True, slots=True)
class _Run:
    path: Path
    process: subprocess.Popen[bytes]
    errors: IO[bytes]


class StartedRuns:
    """Thread-safe. `command` is what arguments are given to."""

    def __init__(self, library: Library, command: Sequence[str] = TRACER) -> None:
        self._library = library
        self._command = command
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        weakref.finalize(self, _end_all, self._runs)  # at the server's end, too

    def start(self, arguments: Sequence[str]) -> str:
        """Returns the id that the trace will have. Raises NotRunnable while too many run."""
        with self._lock:
            if sum(run.process.poll() is None for run in self._runs.values()) >= AT_A_TIME:
                raise NotRunnable("busy", count=AT_A_TIME)
            folder = self._library.folder_for_runs()
            path = folder.resolve() / _name(arguments)
            errors = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the run)
            process = subprocess.Popen(
                [*self._command, *arguments, "--out", str(path)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
            trace = path_id(path)
            self._runs[trace] = _Run(path, process, errors)
            return trace

    def progress(self, trace: str) -> Progress | None:
        """None: no such run was started here."""
        if (run := self._runs.get(trace)) is None:
            return None
        code = run.process.poll()
        if code is None:
            return Progress("running" if manifest_path(run.path).exists() else "starting")
        return Progress("done") if code == 0 else Progress("failed", _last_words(run.errors))

    def stop(self, trace: str) -> None:
        """Told as by Ctrl-C: what was recorded stays."""
        if run := self._runs.get(trace):
            _tell(run)


def _name(arguments: Sequence[str]) -> str:
    workload, *rest = arguments
    strategy = rest[1:2] if rest[:1] == ["--strategy"] else []
    parts = [workload, *strategy, time.strftime("%Y%m%d-%H%M%S"), secrets.token_hex(2)]
    return f"{'-'.join(parts)}.trace"


def _last_words(errors: IO[bytes]) -> str:
    """The reason that the command gave, or its last line."""
    errors.seek(max(0, errors.seek(0, 2) - TAIL_BYTES))
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    reasons = [line for line in lines if line.startswith("tracer: ")]
    return (reasons or lines or [""])[-1].removeprefix("tracer: ")


def _tell(run: _Run) -> None:
    with suppress(OSError):
        run.process.send_signal(signal.SIGINT)


def _end_all(runs: Mapping[str, _Run]) -> None:
    for run in runs.values():
        _tell(run)
    deadline = time.monotonic() + GRACE_S
    for run in runs.values():
        try:
            run.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            run.process.kill()
            run.process.wait()
        run.errors.close()
