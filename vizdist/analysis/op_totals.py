"""Which ops, or in a trace without ops which names, cost most."""

from dataclasses import dataclass

import numpy as np

from vizdist.analysis.step_split import is_update, is_wait, op_mask
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace


@dataclass(frozen=True, slots=True)
class OpTotal:
    """One name on one task, over the spans looked at; `total` in ns, `slowest` a span id."""

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
    """Of one step or of all, the costliest first; what an op waits at a queue costs nothing."""
    spans = trace.all.take(trace.step_places(step)) if step else trace.all
    runs = spans.is_kind("op.run") & ~op_mask(spans, is_wait)
    return totals(trace, spans.take(runs & (spans.step > 0)))


def totals(trace: Trace, spans: Spans) -> list[OpTotal]:
    """Of any spans by name and task, the costliest first; what lies inside one is part of it."""
    if not len(spans):
        return []
    tasks = np.array([trace.tasks.index(row.task) for row in trace.rows])[spans.row]
    group = spans.codes("name").astype(np.int64) * len(trace.tasks) + tasks
    groups, first, where = np.unique(group, return_index=True, return_inverse=True)
    order = np.lexsort((spans.duration, where))
    last = order[np.append(np.flatnonzero(np.diff(where[order])), len(order) - 1)]
    lengths = np.bincount(where, spans.duration).astype(np.int64)
    counts = np.bincount(where)
    names, types = spans.text("name"), spans.text("op")
    found = [
        OpTotal(
            str(names[first[number]]),
            str(types[first[number]]),
            trace.tasks[int(groups[number]) % len(trace.tasks)],
            int(lengths[number]),
            int(counts[number]),
            int(spans.span[last[number]]),
        )
        for number in range(len(groups))
    ]
    return sorted(found, key=lambda total: -total.total)
