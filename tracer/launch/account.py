"""The books of a run: its folder, its collector, its manifest."""

import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from tracer.launch.child import how_it_ended
from tracer.launch.plan import Plan
from tracer.launch.recording import open_recorder
from tracer.launch.signals import undisturbed
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.refusal import Refusal
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import LOGS, Manifest, TaskRecord, log_path
from tracer.record.collector import COLLECTOR, Counts, start_collector
from tracer.record.export_target import with_bare_urls
from tracer.record.manifest import update_manifest, write_manifest

PACKAGES = ("vizdist", "torch", "grpcio")
LAUNCHER = "launcher"

INTERRUPTED = "interrupted by Ctrl-C"  #: or a signal that asks for the same


class FolderError(Refusal):
    """`--out` names what cannot become a trace folder."""


def claim_folder(plan: Plan, name: str) -> Path:
    """Makes the trace folder, which nobody else has then; `name` is the process whose it is.

    Raises FolderError if the one that was asked for cannot be made, or is not empty.
    """
    asked = [Path(plan.out)] if plan.out else default_folders(plan, name)
    if not plan.out.isprintable():
        raise FolderError(f"--out {plan.out!r} is no text that can be shown; name another folder")
    for path in asked:
        with suppress(FileExistsError):
            _claim(path)
            return path
    raise FolderError(f"--out {plan.out} is not empty; choose another name or remove it first")


def _claim(path: Path) -> None:
    """Whoever makes the folder of logs has the trace folder; raises FileExistsError if taken."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise FileExistsError
        (path / LOGS).mkdir()
    except FileExistsError:
        if path.is_dir():
            raise
        raise FolderError(f"--out {path} is a file; name a folder") from None
    except OSError as error:
        raise FolderError(f"--out {path} cannot be made: {error.strerror}") from None


def default_folders(plan: Plan, name: str) -> Iterator[Path]:
    """`./<workload>-<strategy>-<time>.trace`, then the same with numbers behind it."""
    task = "" if name == LAUNCHER else name.replace(":", "-")
    parts = (plan.title.replace(":", "."), plan.strategy, task, time.strftime("%Y%m%d-%H%M%S"))
    stem = "-".join(part for part in parts if part)
    yield Path(f"{stem}.trace")
    yield from (Path(f"{stem}-{number}.trace") for number in count(2))


def first_manifest(plan: Plan, cluster: ClusterSpec) -> Manifest:
    return Manifest(
        run_id=plan.run_id,
        host=socket.gethostname(),
        command=[Path(sys.argv[0]).name, *map(with_bare_urls, sys.argv[1:])],
        workload=plan.title,
        strategy=plan.strategy,
        cluster=cluster.to_json(),
        versions={"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
        started_ns=time.time_ns(),
        steps=plan.steps,
        seed=plan.seed,
        options={name: with_bare_urls(value) for name, value in plan.options.items()},
    )


def outcome_of(error: BaseException | None) -> tuple[str, str]:
    """Outcome and error as the manifest says them."""
    if error is None:
        return "done", ""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", INTERRUPTED
    return "failed", with_bare_urls(str(error))


class Account:
    """Keeps the manifest true from the first process to the last count.

    A context manager: the collector runs inside it, and the outcome is written when it is left,
    with the exception that left it if there was one.
    """

    def __init__(
        self,
        plan: Plan,
        cluster: ClusterSpec,
        scratch: Path,
        name: str = LAUNCHER,
        report: Callable[[str, None], None] = lambda _text, _share: None,
    ) -> None:
        self._plan = plan
        self._name = name
        self._report = report
        self._scratch = scratch
        self._manifest = first_manifest(plan, cluster)
        self.counts = Counts(0, 0)

    def __enter__(self) -> Self:
        self.folder = claim_folder(self._plan, self._name)
        write_manifest(self.folder, self._manifest)
        orders = self._plan.recording.orders
        self._collector = start_collector(self.folder, self._scratch, self._plan.run_id, orders)
        self.started({self._name: os.getpid()})
        self.recorder = open_recorder(self._scratch, self._name, self._plan)
        self._run = self.recorder.span(
            "run",
            trace_of_step(self._plan.run_id, "run", 0),
            **{"vizdist.workload": self._plan.title, "vizdist.strategy": self._plan.strategy},
        )
        self._run.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with undisturbed():
            self._run.__exit__(kind, error, trace)
            self.recorder.close()
            self._close(error)

    def _close(self, error: BaseException | None) -> None:
        counts = self.counts = self._collector.stop(
            self._plan.limits.drain_s, lambda text: self._report(text, None)
        )
        if error is not None:
            error.add_note(f"what was recorded is in {self.folder}")

        def close(manifest: Manifest) -> None:
            manifest.ended_ns = time.time_ns()
            manifest.outcome, manifest.error = outcome_of(error)
            manifest.recorded, manifest.written = counts.recorded, counts.written
            for record in manifest.tasks:
                if record.task == COLLECTOR and record.outcome == "running":
                    record.outcome, record.error = "killed", counts.error

        update_manifest(self.folder, close)

    def log_path(self, task: TaskName) -> Path:
        return log_path(self.folder, str(task))

    def started(self, pids: Mapping[str, int]) -> None:
        """Every process of the run, by name; the collector adds itself."""
        records = [TaskRecord(task=name, pid=pid) for name, pid in pids.items()]

        def add(manifest: Manifest) -> None:
            known = {record.task for record in manifest.tasks}
            manifest.tasks += [record for record in records if record.task not in known]

        update_manifest(self.folder, add)

    def serving(self, task: TaskName, address: str, devices: Sequence[str]) -> None:
        def note(record: TaskRecord) -> None:
            record.address, record.devices = address, list(devices)

        self._change(str(task), note)

    def restarted(self, task: TaskName, pid: int, cause: str) -> None:
        """A task that died is there again, as another process."""

        def note(record: TaskRecord) -> None:
            record.pid, record.outcome = pid, "running"
            record.restarts.append(cause)

        self._change(str(task), note)

    def ended(self, task: TaskName, code: int, *, is_lost: bool) -> None:
        """How a task's process ended; `is_lost`: we killed it, as it did not stop in time."""

        def note(record: TaskRecord) -> None:
            record.outcome = "lost" if is_lost else "killed" if code < 0 else "failed"
            record.outcome = record.outcome if code else "done"
            record.error = "" if code == 0 else how_it_ended(code)

        self._change(str(task), note)

    def _change(self, task: str, note: Callable[[TaskRecord], None]) -> None:
        def change(manifest: Manifest) -> None:
            for record in manifest.tasks:
                if record.task == task:
                    note(record)

        update_manifest(self.folder, change)
