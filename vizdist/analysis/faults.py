"""What went wrong: tasks that did not end well, errors, spans that never ended."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracer.model.trace_folder import Flag, TaskRecord
from vizdist.store.trace import Trace

BAD_OUTCOMES = ("failed", "killed", "lost")


@dataclass(frozen=True, slots=True)
class Faults:
    """`tasks` ended badly; `unfinished`, `errors` count spans by task, `proof` are some of them."""

    error: str
    tasks: tuple[TaskRecord, ...]
    unfinished: Mapping[str, int]
    errors: Mapping[str, int]
    proof: tuple[int, ...]
    num_missing: int

    @property
    def none(self) -> bool:
        return not (self.error or self.tasks or self.unfinished or self.errors or self.num_missing)


def faults(trace: Trace) -> Faults:
    manifest = trace.manifest
    flagged = trace.all.take((trace.all.flags & (Flag.ERROR | Flag.UNFINISHED)) != 0)
    first = np.argsort(flagged.start, kind="stable")[:5]
    return Faults(
        error=manifest.error,
        tasks=tuple(task for task in manifest.tasks if task.outcome in BAD_OUTCOMES),
        unfinished=_by_task(trace, Flag.UNFINISHED),
        errors=_by_task(trace, Flag.ERROR),
        proof=tuple(flagged.span[first].tolist()),
        num_missing=max(0, manifest.recorded - manifest.written),
    )


def _by_task(trace: Trace, flag: int) -> dict[str, int]:
    rows = trace.all.row[(trace.all.flags & flag) != 0]
    counts = np.bincount(rows, minlength=len(trace.rows))
    found: dict[str, int] = {}
    for row, count in zip(trace.rows, counts.tolist(), strict=True):
        if count:
            found[row.task] = found.get(row.task, 0) + count
    return found
