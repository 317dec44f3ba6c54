"""The books of a run: its folder, its collector, its manifest."""

import platform
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

from tracer.launch.child import how_it_ended
from tracer.launch.plan import Plan
from tracer.launch.watch import Failure
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.trace_folder import LOGS, Manifest, TaskRecord, log_path
from tracer.record.collector import start_collector
from tracer.record.manifest import update_manifest, write_manifest

PACKAGES = ("vizdist", "torch", "grpcio")
LAUNCHER = "launcher"


class FolderTaken(ValueError):
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


class Account:
    """Keeps the manifest true from the first process to the last count.

    A context manager: the collector runs inside it, and the outcome is written when it is left, with
    the exception that left it if there was one.
    """

    def __init__(self, plan: Plan, cluster: ClusterSpec, scratch: Path) -> None:
        self._plan = plan
        self._scratch = scratch
        self._manifest = first_manifest(plan, cluster)
        self.recorded = 0
        self.written = 0

    def __enter__(self) -> Self:
        make_folder(self._plan.folder)
        write_manifest(self._plan.folder, self._manifest)
        self._collector = start_collector(self._plan.folder, self._scratch, self._plan.run_id)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        counts = self._collector.stop(self._plan.limits.shutdown_s)
        self.recorded, self.written = counts.recorded, counts.written

        def close(manifest: Manifest) -> None:
            manifest.ended_ns = time.time_ns()
            manifest.outcome, manifest.error = _outcome(error)
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
