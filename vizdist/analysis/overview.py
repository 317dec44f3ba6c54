"""A run at a glance: what one row of the Library says of it."""

from collections.abc import Iterator
from dataclasses import dataclass

from vizdist.analysis.bytes_moved import bytes_moved
from vizdist.analysis.faults import faults
from vizdist.analysis.loss_curve import loss_curve
from vizdist.store.trace import Trace

HOUSEKEEPING = ("launcher", "collector", "client")

Fault = tuple[str, dict[str, object]]  #: key below `library.faults`, and its values


@dataclass(frozen=True, slots=True)
class Overview:
    """`losses` and `durations_ns` are in the order of steps; `step_bytes` is an average."""

    tasks: tuple[tuple[str, str], ...]
    durations_ns: tuple[int, ...]
    losses: tuple[float, ...]
    step_bytes: int
    faults: tuple[Fault, ...]


def overview(trace: Trace) -> Overview:
    return Overview(
        tasks=tuple(cluster_tasks(trace)),
        durations_ns=tuple(step.duration for step in trace.steps),
        losses=tuple(loss for _, loss in loss_curve(trace).main),
        step_bytes=round(bytes_moved(trace).per_step),
        faults=tuple(_faults(trace)),
    )


def cluster_tasks(trace: Trace) -> list[tuple[str, str]]:
    """(task, outcome) of those that compute, ps first; launcher and collector look after them."""
    known = [(record.task, record.outcome) for record in trace.manifest.tasks]
    tasks = known or [(task, "done") for task in trace.tasks]
    computing = [task for task in tasks if task[0].partition(":")[0] not in HOUSEKEEPING]
    return sorted(computing, key=_servers_first)


def _servers_first(task: tuple[str, str]) -> tuple[bool, str, int]:
    job, _, index = task[0].partition(":")
    return job != "ps", job, int(index) if index.isdecimal() else 0


def _faults(trace: Trace) -> Iterator[Fault]:
    found, outcome = faults(trace), trace.manifest.outcome
    for record in found.tasks:
        yield record.outcome, {"task": record.task}
    if outcome in ("running", "interrupted") and not trace.is_foreign:
        yield outcome, {}
    counts = {
        "unwritten": found.num_missing,
        "unfinished": sum(found.unfinished.values()),
        "errors": sum(found.errors.values()),
        "problems": sum(problem.kind != "count" for problem in trace.problems),  # that is unwritten
    }
    for key, count in counts.items():
        if count:
            yield key, {"count": f"{count:,}"}
