"""Why a step took longer than another: the one thing that took so much longer in it."""

from dataclasses import dataclass, replace

import numpy as np

from vizdist.analysis.keys import tensor_of_key
from vizdist.analysis.recv_parts import recv_parts
from vizdist.analysis.step_split import paint
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

#: what is compared; a wait is an effect, so it is blamed only where nothing else explains enough
MEASURES = ("register", "run", "queueing", "transfer", "rpc", "wait")
REGISTRATION = (
    *("graph.prune", "graph.place", "graph.optimize"),
    *("graph.partition", "graph.register"),
)
EXPLAINS = 0.3  #: part of the delay that a cause must account for

_Measured = dict[tuple[str, str, str], tuple[int, int]]  #: (measure, task, name) → (ns, span)


@dataclass(frozen=True, slots=True)
class Cause:
    """`late` is how many ns more than in the other step, at most its delay; `span` is where."""

    measure: str
    task: str
    name: str
    late: int
    span: int


def why_slow(trace: Trace, slow: StepInfo, usual: StepInfo) -> Cause | None:
    """The first of MEASURES that explains enough of the delay; None if no single thing does."""
    before, now = _measured(trace, usual), _measured(trace, slow) | _registered(trace, slow)
    delay = slow.duration - usual.duration
    for measure in MEASURES:
        causes = [
            Cause(measure, task, name, ns - before.get((kind, task, name), (0, 0))[0], span)
            for (kind, task, name), (ns, span) in now.items()
            if kind == measure
        ]
        worst = max(causes, key=lambda cause: cause.late, default=None)
        if worst is not None and worst.late > EXPLAINS * delay:
            return replace(worst, late=min(worst.late, delay))
    return None


def _registered(trace: Trace, step: StepInfo) -> _Measured:
    """How long the step's own task was registering graphs in it; that is a request of its own."""
    window = step.start, step.end
    spans = trace.spans(window=window, tasks=[step.task])
    calls = spans.is_kind("rpc.client") & spans.has_word("name", "RegisterGraph")
    own = spans.take(spans.is_kind(*REGISTRATION) | calls)
    if not len(own):
        return {}
    ns = paint([(own.start, own.end)], *window)[0]
    return {("register", step.task, ""): (ns, int(own.span[np.argmax(own.duration)]))}


def _measured(trace: Trace, step: StepInfo) -> _Measured:
    spans = trace.all.take(trace.step_places(step))
    ops = spans.take(spans.is_kind("op.run"))
    parts = recv_parts(trace, spans)
    found: _Measured = {}
    _add(found, "run", ops, ops.start, ops.end)
    _add(found, "queueing", ops, np.where(ops.ready > 0, ops.ready, ops.start), ops.start)
    _add(found, "transfer", parts.recvs, parts.exists, parts.recvs.end)
    _add(found, "wait", parts.recvs, parts.served, parts.exists)
    calls = spans.take(spans.is_kind("rpc.client") & ~spans.has_word("name", "RecvTensor"))
    server = trace.served_by(calls.span)
    served = np.where(server >= 0, trace.all.duration[server], calls.duration)
    _add(found, "rpc", calls, calls.start, calls.start + np.maximum(calls.duration - served, 0))
    return found


def _add(found: _Measured, measure: str, spans: Spans, starts: Array, ends: Array) -> None:
    """Of several with one name an instant counts once, however many of them it lies in."""
    is_recv = measure in ("transfer", "wait")
    names = map(tensor_of_key, spans.text("key")) if is_recv else spans.text("name")
    columns = (starts.tolist(), ends.tolist(), spans.task, names, spans.span.tolist())
    latest: dict[tuple[str, str], int] = {}
    for start, end, task, name, span in sorted(zip(*columns, strict=True)):
        before = latest.get((task, name), start)
        known, where = found.get((measure, task, name), (0, span))
        found[measure, task, name] = known + max(0, end - max(start, before)), where
        latest[task, name] = max(before, end)
