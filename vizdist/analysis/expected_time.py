"""How long a run that is asked for will take, told by the last one like it.

Alike are runs of one workload and strategy with the same options, tasks and devices, and without
faults: they differ in steps and seed alone. Without one of them nobody knows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracer.model.trace_folder import Manifest
from vizdist.analysis.asked_faults import faults_of
from vizdist.store.library import Library
from vizdist.store.problems import TraceError
from vizdist.store.runnable import default_options, tasks_of
from vizdist.store.trace import Trace


@dataclass(frozen=True, slots=True)
class ExpectedTime:
    """`took_ns` is all of the run `title`, `step_ns` from one of its `steps` to the next."""

    title: str
    took_ns: int
    steps: int
    step_ns: float

    def of(self, steps: int) -> float:
        """What does not go into steps, such as to come up, is taken to be the same."""
        return self.took_ns + (steps - self.steps) * self.step_ns


def expected_time(library: Library, asked: Mapping[str, Any]) -> ExpectedTime | None:
    """`asked` was found to be runnable. What a fault does to it nobody knows before."""
    if asked.get("fault"):
        return None
    for entry in library.entries():
        if not _is_like(entry.manifest, asked):
            continue
        try:
            steps, step_ns = _pace(library.open(entry.id))
        except TraceError:
            continue
        if steps:
            took = entry.manifest.ended_ns - entry.manifest.started_ns
            return ExpectedTime(entry.title, took, steps, step_ns)
    return None


def _is_like(manifest: Manifest, asked: Mapping[str, Any]) -> bool:
    workload, strategy = asked["workload"], asked.get("strategy", "")
    if (manifest.workload, manifest.strategy) != (workload, strategy):
        return False
    options = default_options(workload, strategy) | dict(asked.get("options", {}))
    wanted, found = tasks_of(asked), {t.task: len(t.devices) for t in manifest.tasks if t.devices}
    return (
        manifest.outcome == "done"
        and manifest.options == options
        and found == (wanted or found)
        and not faults_of(manifest.command)
    )


def _pace(trace: Trace) -> tuple[int, float]:
    """How many steps it took, and ns from one to the next."""
    steps = trace.steps
    if not steps:
        return 0, 0.0
    first, last = min(s.number for s in steps), max(s.number for s in steps)
    length = max(s.end for s in steps) - min(s.start for s in steps)
    return last, length / (last - first + 1)
