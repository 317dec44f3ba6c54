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
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tracer.model.trace_folder import Manifest, TaskRecord, log_path, manifest_path
from tracer.record.clock import clock_environment, now_ns
from tracer.record.export_target import target_from
from tracer.record.exporter import Exporter, sender_to
from tracer.record.home import COLLECTOR_LOCK, lock_for_life
from tracer.record.manifest import read_manifest, update_manifest, write_manifest
from tracer.record.room import NO_LIMIT, Room, bound_rings
from tracer.record.sink import Sink

COLLECTOR: Final = "collector"
TURN_S: Final = 0.5  #: between two turns
MANY_SPANS: Final = 20_000  #: a turn that wrote so many is followed by the next at once
ORPHAN_WAIT_S: Final = 10.0  #: how long tasks may outlive the launcher before they count as lost
MOST_WAITS = 10  #: times the timeout, for a collector that finds no core to run on

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Orders:
    """What a run asks of its collector besides the trace."""

    endpoint: str = ""  #: of `--endpoint`; empty: what the environment says
    flush_s: float = 30.0
    limit_bytes: int = NO_LIMIT


@dataclass(frozen=True, slots=True)
class Counts:
    """Spans recorded by the tasks and written to the trace; CPU seconds of the collector.

    `stopped` says why steps were left out, `export` what became of the spans at a receiver; it is
    empty where there is none.
    """

    recorded: int
    written: int
    cpu_seconds: float = 0.0
    error: str = ""
    unrecorded_steps: int = 0
    stopped: str = ""
    export: Mapping[str, Any] = field(default_factory=dict)


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

    def stop(self, timeout: float, report: Callable[[str], None] = lambda _: None) -> Counts:
        """Lets it write the rest and end. Call it when the tasks have ended.

        It is killed after `timeout` seconds without a sign of progress; the counts are then those
        it noted last, with the error. `report` hears what it is about if that takes time.
        """
        if self._counts is None:
            told = self._ask_for_end(timeout, report)
            last = told.splitlines()[-1:]
            is_well = last and self._process.returncode == 0
            self._counts = Counts(**json.loads(last[0])) if is_well else self._counts_so_far()
        return self._counts

    def _ask_for_end(self, timeout: float, report: Callable[[str], None]) -> bytes:
        """What it wrote to its standard output until it ended."""
        orders, answers = self._process.stdin, self._process.stdout
        assert orders is not None
        assert answers is not None
        _let_run(self._process.pid)
        with orders, suppress(BrokenPipeError):
            orders.write(b"stop\n")
        told = b""
        with answers, selectors.DefaultSelector() as selector:
            selector.register(answers, selectors.EVENT_READ)
            while self._is_heard(selector, timeout) and (part := answers.read(4096)):
                told += part
                for line in filter(None, part.decode().splitlines()):
                    if not line.startswith("{"):
                        report(line)
        self._end()
        return told

    def _is_heard(self, selector: selectors.BaseSelector, timeout: float) -> bool:
        """Waits for a word; for longer while it is ready to run and others have the cores."""
        for _ in range(MOST_WAITS):
            if selector.select(timeout):
                return True
            if not _waits_for_a_core(self._process.pid):
                return False
        return False

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


def start_collector(
    trace: Path, scratch: Path, run_id: str, orders: Orders | None = None
) -> CollectorProcess:
    """Starts the collector of this host. The tasks may record before it is up."""
    log_file = log_path(trace, COLLECTOR)
    log_file.parent.mkdir(parents=True, exist_ok=True)
    orders = orders or Orders()
    bound_rings(scratch, orders.limit_bytes)
    told = json.dumps(asdict(orders))
    command = [sys.executable, "-m", "tracer.record.collector"]
    command += [str(trace), str(scratch), run_id, told]
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


class _Line:
    """What the launcher says as we run: nothing yet, to stop, or nothing ever more."""

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


class Collector:
    """Sink, room and export of one trace, turn by turn."""

    def __init__(self, trace: Path, scratch: Path, orders: Orders, line: _Line) -> None:
        self._trace = trace
        self._orders = orders
        self._line = line
        self._room = Room(trace, scratch, orders.limit_bytes)
        target = target_from(orders.endpoint)
        self._endpoint = str(target) if target else ""
        self._exporter = Exporter(sender_to(target)) if target else None
        wrote = (self._exporter.offer,) if self._exporter else ()
        self._sink = Sink(trace, scratch, self._sign_of_life, *wrote)

    def _sign_of_life(self) -> None:
        if self._line.is_stop:
            _tell_launcher()

    def run(self) -> Counts:
        """Until told to stop; returns the counts, which the manifest has too."""
        orphan_since = 0.0
        while not self._line.is_stop:
            num_spans = self._turn()
            self._line.wait(0 if num_spans > MANY_SPANS else TURN_S)
            if self._line.is_orphan:
                orphan_since = orphan_since or time.monotonic()
                if self._sink.is_idle or time.monotonic() - orphan_since > ORPHAN_WAIT_S:
                    break
        self._turn(at_end=True)
        self._sink.close()
        return self._counts()

    def _turn(self, *, at_end: bool = False) -> int:
        num_spans = self._sink.turn(now_ns(), at_end=at_end)
        if self._sink.error:
            log.warning("spans wait to be written: %s", self._sink.error)
        self._room.look(self._sink.error)
        self._sink.tell()
        return num_spans

    def _counts(self) -> Counts:
        """Lets the receiver have the rest, then says how all went."""
        sink, export = self._sink, self._export()
        counts = Counts(
            sink.recorded,
            sink.written,
            time.process_time(),
            sink.error,
            sink.unrecorded_steps,
            self._room.stopped,
            export,
        )

        def tell(manifest: Manifest) -> None:
            manifest.stopped, manifest.export = counts.stopped, dict(export)

        update_manifest(self._trace, tell)
        return counts

    def _tell_of_export(self) -> None:
        if self._line.is_stop:
            _tell_launcher(f"waiting for {self._endpoint} to take the rest of the spans")

    def _export(self) -> Mapping[str, Any]:
        if self._exporter is None:
            return {}
        told = self._exporter.finish(self._orders.flush_s, self._tell_of_export)
        return {
            "endpoint": self._endpoint,
            "exported": told.taken,
            "not_exported": self._sink.written - told.taken,
            "error": told.error,
        }


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


def _let_run(pid: int) -> None:
    """Takes back what `_yield_to_what_is_traced` did: nothing is traced any more, people wait."""
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):  # gone, or not ours to lift (RLIMIT_NICE)
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def _waits_for_a_core(pid: int) -> bool:
    """Whether a process could go on if it had a core: not stopped, and waiting for nothing."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # gone, or a system without /proc
        return False
    return told.rpartition(")")[2].split()[0] == "R"


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
    parser.add_argument("orders", type=lambda text: Orders(**json.loads(text)))
    told: Mapping[str, Any] = vars(parser.parse_args(arguments))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    _yield_to_what_is_traced()
    line = _Line()
    signal.signal(signal.SIGTERM, line.stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lock_for_life(told["scratch"] / COLLECTOR_LOCK)
    _introduce(told["trace"], told["run_id"])
    counts = Collector(told["trace"], told["scratch"], told["orders"], line).run()
    _take_leave(told["trace"], counts.error, is_orphan=line.is_orphan)
    if line.is_orphan and not counts.error:
        shutil.rmtree(told["scratch"], ignore_errors=True)  # nobody else is left to do it
    _tell_launcher(json.dumps(asdict(counts)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
