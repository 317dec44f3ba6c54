"""The books of a run: its folder, its collector, its manifest."""

import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

from tracer.launch.child import how_it_ended
from tracer.launch.plan import Plan
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.refusal import Refusal
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import LOGS, Manifest, TaskRecord, log_path
from tracer.record.collector import start_collector
from tracer.record.manifest import update_manifest, write_manifest
from tracer.record.recorder import RUN_ID, Recorder

PACKAGES = ("vizdist", "torch", "grpcio")
LAUNCHER = "launcher"

INTERRUPTED = "interrupted by Ctrl-C"


class FolderTaken(Refusal):
    """`--out` names a folder that holds something."""


def make_folder(path: Path) -> None:
    """Makes the trace folder; raises FolderTaken if it exists and is not empty."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FolderTaken(
            f"--out {path} exists and is not empty; choose another name or remove it first"
        )
    (path / LOGS).mkdir(parents=True, exist_ok=True)


def first_manifest(plan: Plan, cluster: ClusterSpec) -> Manifest:
    return Manifest(
        run_id=plan.run_id,
        host=socket.gethostname(),
        command=[Path(sys.argv[0]).name, *sys.argv[1:]],
        workload=plan.title,
        strategy=plan.strategy,
        cluster=cluster.to_json(),
        versions={"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
        started_ns=time.time_ns(),
        steps=plan.steps,
        seed=plan.seed,
        options=dict(plan.options),
    )


def outcome_of(error: BaseException | None) -> tuple[str, str]:
    """Outcome and error as the manifest says them."""
    if error is None:
        return "done", ""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", INTERRUPTED
    return "failed", str(error)


class Account:
    """Keeps the manifest true from the first process to the last count.

    A context manager: the collector runs inside it, and the outcome is written when it is left,
    with the exception that left it if there was one.
    """

    def __init__(
        self, plan: Plan, cluster: ClusterSpec, scratch: Path, name: str = LAUNCHER
    ) -> None:
        self._plan = plan
        self._name = name
        self._scratch = scratch
        self._manifest = first_manifest(plan, cluster)
        self.recorded = 0
        self.written = 0

    def __enter__(self) -> Self:
        make_folder(self._plan.folder)
        write_manifest(self._plan.folder, self._manifest)
        self._collector = start_collector(self._plan.folder, self._scratch, self._plan.run_id)
        self.started({self._name: os.getpid()})
        self.recorder = Recorder(self._scratch, LAUNCHER, {RUN_ID: self._plan.run_id})
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
        self._run.__exit__(kind, error, trace)
        self.recorder.close()
        counts = self._collector.stop(self._plan.limits.shutdown_s)
        self.recorded, self.written = counts.recorded, counts.written

        def close(manifest: Manifest) -> None:
            manifest.ended_ns = time.time_ns()
            manifest.outcome, manifest.error = outcome_of(error)
            manifest.recorded, manifest.written = counts.recorded, counts.written

        update_manifest(self._plan.folder, close)

    def log_path(self, task: TaskName) -> Path:
        return log_path(self._plan.folder, str(task))

    def started(self, pids: Mapping[str, int]) -> None:
        """Every process of the run, by name; the collector adds itself."""
        records = [TaskRecord(task=name, pid=pid) for name, pid in pids.items()]

        def add(manifest: Manifest) -> None:
            known = {record.task for record in manifest.tasks}
            manifest.tasks += [record for record in records if record.task not in known]

        update_manifest(self._plan.folder, add)

    def serving(self, task: TaskName, address: str, devices: Sequence[str]) -> None:
        def note(record: TaskRecord) -> None:
            record.address, record.devices = address, list(devices)

        self._change(str(task), note)

    def ended(self, task: TaskName, code: int, *, expected: bool) -> None:
        """How a task's process ended; a SIGKILL of our own after its time was up is `lost`."""

        def note(record: TaskRecord) -> None:
            record.outcome = "done" if code == 0 else ("lost" if expected else "killed")
            record.error = "" if code == 0 else how_it_ended(code)

        self._change(str(task), note)

    def _change(self, task: str, note: Callable[[TaskRecord], None]) -> None:
        def change(manifest: Manifest) -> None:
            for record in manifest.tasks:
                if record.task == task:
                    note(record)

        update_manifest(self._plan.folder, change)
