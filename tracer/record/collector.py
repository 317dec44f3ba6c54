"""The collector: the one process of a host that reads every ring and writes the trace.

    collector = start_collector(trace, scratch, run_id)      # in the launcher
    counts = collector.stop(timeout=5)

It ends when told, by a line on its standard input or SIGTERM. If its parent dies (end of input), it
waits a little for the tasks to die too, writes what they left and says that the run was
interrupted.
"""

import argparse
import json
import logging
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tracer.model.trace_folder import Manifest, TaskRecord, log_path, manifest_path
from tracer.record.clock import clock_environment, now_ns
from tracer.record.home import COLLECTOR_LOCK, lock_for_life
from tracer.record.manifest import read_manifest, update_manifest, write_manifest
from tracer.record.sink import Sink

COLLECTOR: Final = "collector"
TURN_S: Final = 0.5  #: between two turns
MANY_SPANS: Final = 20_000  #: a turn that wrote so many is followed by the next at once
ORPHAN_WAIT_S: Final = 10.0  #: how long tasks may outlive the launcher before they count as lost

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Counts:
    """Spans recorded by the tasks and written to the trace; CPU seconds of the collector."""

    recorded: int
    written: int
    cpu_seconds: float = 0.0
    error: str = ""


class CollectorProcess:
    """The launcher's hold on its collector."""

    def __init__(self, process: subprocess.Popen[bytes], trace: Path) -> None:
        self._process = process
        self._trace = trace
        self._counts: Counts | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def stop(self, timeout: float) -> Counts:
        """Lets it write the rest and end. Call it when the tasks have ended.

        It is killed after `timeout` seconds without a sign of progress; the counts are then those
        it noted last, with the error.
        """
        if self._counts is None:
            told = self._ask_for_end(timeout)
            last = told.splitlines()[-1:]
            is_well = last and self._process.returncode == 0
            self._counts = Counts(**json.loads(last[0])) if is_well else self._counts_so_far()
        return self._counts

    def _ask_for_end(self, timeout: float) -> bytes:
        """What it wrote to its standard output until it ended."""
        orders, answers = self._process.stdin, self._process.stdout
        assert orders is not None
        assert answers is not None
        with orders, suppress(BrokenPipeError):
            orders.write(b"stop\n")
        told = b""
        with answers, selectors.DefaultSelector() as selector:
            selector.register(answers, selectors.EVENT_READ)
            while selector.select(timeout) and (part := answers.read(4096)):
                told += part
        self._end()
        return told

    def _end(self) -> None:
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _counts_so_far(self) -> Counts:
        manifest = read_manifest(self._trace)
        error = f"the collector ended with {self._process.returncode}; see logs/collector.log"
        return Counts(manifest.recorded, manifest.written, error=error)


def start_collector(trace: Path, scratch: Path, run_id: str) -> CollectorProcess:
    """Starts the collector of this host. The tasks may record before it is up."""
    log_file = log_path(trace, COLLECTOR)
    log_file.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tracer.record.collector", str(trace), str(scratch), run_id]
    with log_file.open("ab") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            env=os.environ | clock_environment(),
            start_new_session=True,  # Ctrl-C is for the launcher, which then tells us
        )
    return CollectorProcess(process, trace)


class _Orders:
    """What the launcher told us: nothing yet, to stop, or nothing ever more."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        self.is_stop = False
        self.is_orphan = False

    def stop(self, *_: object) -> None:
        self.is_stop = True

    def wait(self, seconds: float) -> None:
        if self.is_orphan:
            time.sleep(seconds)
        elif self._selector.select(seconds):
            self.is_stop = bool(os.read(sys.stdin.fileno(), 64))
            self.is_orphan = not self.is_stop


def collect(trace: Path, scratch: Path, orders: _Orders) -> Counts:
    """Runs until told to stop; returns the counts, which the manifest has too."""
    sink = Sink(trace, scratch, progress=lambda: _tell_launcher() if orders.is_stop else None)
    orphan_since = 0.0
    while not orders.is_stop:
        num_spans = sink.turn(now_ns())
        sink.tell()
        if sink.error:
            log.warning("spans wait to be written: %s", sink.error)
        orders.wait(0 if num_spans > MANY_SPANS else TURN_S)
        if orders.is_orphan:
            orphan_since = orphan_since or time.monotonic()
            if sink.is_idle or time.monotonic() - orphan_since > ORPHAN_WAIT_S:
                break
    sink.turn(now_ns(), at_end=True)
    sink.close()
    sink.tell()
    return Counts(sink.recorded, sink.written, time.process_time(), sink.error)


def _tell_launcher(text: str = "") -> None:
    """A line to whoever waits for us to end: a sign of life, or the counts. Nobody may be there."""
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), f"{text}\n".encode())


def _introduce(trace: Path, run_id: str) -> None:
    if not manifest_path(trace).exists():
        write_manifest(trace, Manifest(run_id, started_ns=now_ns()))
    update_manifest(trace, lambda m: m.tasks.append(TaskRecord(COLLECTOR, os.getpid())))


def _take_leave(trace: Path, error: str, *, is_orphan: bool) -> None:
    def change(manifest: Manifest) -> None:
        for record in manifest.tasks:
            if record.task == COLLECTOR:
                record.outcome, record.error = ("failed", error) if error else ("done", "")
        if is_orphan and manifest.outcome == "running":
            manifest.outcome, manifest.ended_ns = "interrupted", now_ns()
            manifest.error = "the launcher died"
            for record in manifest.tasks:
                record.outcome = "lost" if record.outcome == "running" else record.outcome

    update_manifest(trace, change)


def _yield_to_what_is_traced() -> None:
    """Runs only when no core is wanted: a step must not wait for it, and rings hold minutes."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(19)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="collector")
    parser.add_argument("trace", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("run_id")
    told: Mapping[str, Any] = vars(parser.parse_args(arguments))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    _yield_to_what_is_traced()
    orders = _Orders()
    signal.signal(signal.SIGTERM, orders.stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lock_for_life(told["scratch"] / COLLECTOR_LOCK)
    _introduce(told["trace"], told["run_id"])
    counts = collect(told["trace"], told["scratch"], orders)
    _take_leave(told["trace"], counts.error, is_orphan=orders.is_orphan)
    if orders.is_orphan and not counts.error:
        shutil.rmtree(told["scratch"], ignore_errors=True)  # nobody else is left to do it
    _tell_launcher(json.dumps(asdict(counts)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
