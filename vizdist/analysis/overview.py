"""A run at a glance: what one row of the Library says of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from vizdist.analysis.asked_faults import AskedFault, asked_faults
from vizdist.analysis.bytes_moved import bytes_moved
from vizdist.analysis.faults import HOUSEKEEPING, Faults, faults
from vizdist.analysis.loss_curve import LossCurve, loss_curve
from vizdist.analysis.progress import progress
from vizdist.analysis.what_went_wrong import WhatWentWrong, what_went_wrong
from vizdist.store.library import Entry
from vizdist.store.liveness import outcome_of
from vizdist.store.problems import Problem
from vizdist.store.trace import Trace


@dataclass(frozen=True, slots=True)
class Overview:
    """`durations_ns` are in the order of steps; `step_bytes` is an average.

    `counts` are of spans by what is wrong with them, `remarks` what was mended in its files.
    `step` is the highest that has ended, of `of_steps` that were asked for (0: not known).
    """

    tasks: tuple[tuple[str, str], ...]
    asked: tuple[AskedFault, ...]
    durations_ns: tuple[int, ...]
    loss: LossCurve
    step_bytes: int
    wrong: WhatWentWrong | None
    counts: Mapping[str, int]
    remarks: tuple[Problem, ...]
    spans: int
    step: int
    of_steps: int


def overview(trace: Trace) -> Overview:
    wrong = faults(trace)
    now = progress(trace)
    return Overview(
        tasks=tuple(cluster_tasks(trace)),
        asked=asked_faults(trace),
        durations_ns=tuple(step.duration for step in trace.steps),
        loss=loss_curve(trace),
        step_bytes=round(bytes_moved(trace).per_step),
        wrong=what_went_wrong(trace),
        counts=_counts(wrong),
        remarks=tuple(p for p in trace.problems if p.kind != "count"),  # that is unwritten
        spans=now.spans,
        step=now.step,
        of_steps=now.of_steps,
    )


def entry_outcome(entry: Entry, now_ns: int) -> str:
    """How a listed run stands, by its files alone: a long list opens none of them for it."""
    return outcome_of(entry.manifest, (now_ns - entry.changed_ns) / 1e9)


def cluster_tasks(trace: Trace) -> list[tuple[str, str]]:
    """(task, outcome) of those that compute, ps first; launcher and collector look after them."""
    known = [(record.task, record.outcome) for record in trace.manifest.tasks]
    tasks = known or [(task, "done") for task in trace.tasks]
    computing = [task for task in tasks if task[0].partition(":")[0] not in HOUSEKEEPING]
    return sorted(computing, key=_servers_first)


def _servers_first(task: tuple[str, str]) -> tuple[bool, str, int]:
    job, _, index = task[0].partition(":")
    return job != "ps", job, int(index) if index.isdecimal() else 0


def _counts(wrong: Faults) -> dict[str, int]:
    counts = {
        "unwritten": wrong.num_missing,
        "unfinished": sum(wrong.unfinished.values()),
        "errors": sum(wrong.errors.values()),
    }
    return {key: count for key, count in counts.items() if count}
