"""Why a step took longer than another: the one thing that took so much longer in it."""

from dataclasses import dataclass

import numpy as np

from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

#: what is compared; a wait is an effect, so it is blamed only where nothing else explains enough
MEASURES = ("run", "queueing", "transfer", "wait")
EXPLAINS = 0.3  #: part of the delay that a cause must account for

_Measured = dict[tuple[str, str, str], tuple[int, int]]  #: (measure, task, name) → (ns, span)


@dataclass(frozen=True, slots=True)
class Cause:
    """`late` is how many ns more than in the other step; `span` is where."""

    measure: str
    task: str
    name: str
    late: int
    span: int


def why_slow(trace: Trace, slow: StepInfo, usual: StepInfo) -> Cause | None:
    """The first of MEASURES that explains enough of the delay; None if no single thing does."""
    before, now = _measured(trace, usual), _measured(trace, slow)
    delay = slow.duration - usual.duration
    for measure in MEASURES:
        causes = [
            Cause(measure, task, name, ns - before.get((kind, task, name), (0, 0))[0], span)
            for (kind, task, name), (ns, span) in now.items()
            if kind == measure
        ]
        worst = max(causes, key=lambda cause: cause.late, default=None)
        if worst is not None and worst.late > EXPLAINS * delay:
            return worst
    return None


def _measured(trace: Trace, step: StepInfo) -> _Measured:
    spans = trace.all.take(trace.step_places(step))
    ops = spans.take(spans.is_kind("op.run"))
    recvs = spans.take(spans.is_kind("rendezvous.recv"))
    found: _Measured = {}
    _add(found, "run", ops, ops.duration)
    _add(found, "queueing", ops, np.where(ops.ready > 0, ops.start - ops.ready, 0))
    _add(found, "transfer", recvs, recvs.duration - recvs.wait)
    _add(found, "wait", recvs, recvs.wait)
    return found


def _add(found: _Measured, measure: str, spans: Spans, lengths: np.ndarray) -> None:
    rows = zip(spans.task, spans.text("name"), lengths.tolist(), spans.span.tolist(), strict=True)
    for task, name, ns, span in rows:
        known, where = found.get((measure, task, name), (0, span))
        found[measure, task, name] = known + ns, where
