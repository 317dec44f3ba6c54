"""Which ops cost most."""

from dataclasses import dataclass

import numpy as np

from vizdist.analysis.step_split import is_update
from vizdist.store.trace import StepInfo, Trace


@dataclass(frozen=True, slots=True)
class OpTotal:
    """One node on one task, over the steps looked at; `total` in ns, `slowest` a span id."""

    name: str
    op: str
    task: str
    total: int
    count: int
    slowest: int

    @property
    def is_update(self) -> bool:
        return is_update(self.op)


def op_totals(trace: Trace, step: StepInfo | None = None) -> list[OpTotal]:
    """Of one step or of all, the costliest first."""
    spans = trace.all.take(trace.step_places(step)) if step else trace.all
    ops = spans.take(spans.is_kind("op.run") & (spans.step > 0))
    if not len(ops):
        return []
    tasks = np.array([trace.tasks.index(row.task) for row in trace.rows])[ops.row]
    group = ops.codes("name").astype(np.int64) * len(trace.tasks) + tasks
    groups, first, where = np.unique(group, return_index=True, return_inverse=True)
    order = np.lexsort((ops.duration, where))
    last = order[np.append(np.flatnonzero(np.diff(where[order])), len(order) - 1)]
    totals = np.bincount(where, ops.duration).astype(np.int64)
    counts = np.bincount(where)
    names, types = ops.text("name"), ops.text("op")
    found = [
        OpTotal(
            str(names[first[number]]),
            str(types[first[number]]),
            trace.tasks[int(groups[number]) % len(trace.tasks)],
            int(totals[number]),
            int(counts[number]),
            int(ops.span[last[number]]),
        )
        for number in range(len(groups))
    ]
    return sorted(found, key=lambda total: -total.total)
