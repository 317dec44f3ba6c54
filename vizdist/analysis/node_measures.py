"""What one step measured at every node of its graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.recv_parts import RecvParts, recv_parts
from vizdist.analysis.step_split import paint
from vizdist.store.details import hex_id
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

NODE_KINDS = ("op.run", "rendezvous.send", "rendezvous.recv")


@dataclass(frozen=True, slots=True)
class Measured:
    """One node in one step. A node that ran several times (a loop) has sums, and its first start.

    In `dead` of its `runs` it had nothing to work on: the way not taken, or the end of a loop. In
    `failed` of them it was an op that ended with an error.

    `time`, `queueing` (ready, not run), `start` (from the start of the step), and of a recv
    `request` (it is on its way) and `wait` (it is there, and no value yet) are ns; `span` is its
    first span's id, 16 hex digits; `key` the rendezvous key of a Send or Recv.
    """

    time: int = 0
    queueing: int = 0
    request: int = 0
    wait: int = 0
    bytes: int = 0
    start: int = 0
    runs: int = 0
    dead: int = 0
    span: str = ""
    key: str = ""
    failed: int = 0

    @property
    def transfer(self) -> int:
        """How long the value of a recv was on its way."""
        return max(0, self.time - self.request - self.wait)


@dataclass(frozen=True, slots=True)
class StepMeasures:
    """Measurements by node name; the share of the step in which each task ran ops; the master."""

    nodes: Mapping[str, Measured] = field(default_factory=dict)
    busy: Mapping[str, float] = field(default_factory=dict)
    master: str = ""


NOTHING_MEASURED = StepMeasures()


def measure_nodes(trace: Trace, step: StepInfo) -> StepMeasures:
    spans = trace.all.take(trace.step_places(step))
    own = spans.take(spans.is_kind(*NODE_KINDS))
    nodes = _nodes(own, recv_parts(trace, spans), step)
    return StepMeasures(nodes, _busy(own, step), step.task)


def _nodes(own: Spans, parts: RecvParts, step: StepInfo) -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    request, wait = np.zeros(len(own), np.int64), own.wait.copy()
    between = own.is_kind("rendezvous.recv") & ((own.flags & Flag.CLIENT_EDGE) == 0)
    request[between], wait[between] = parts.request, parts.wait
    names, keys = own.text("name"), own.text("key")
    queueing = np.where(own.ready > 0, own.start - own.ready, 0)
    is_dead = (own.flags & Flag.DEAD) > 0
    has_failed = own.is_kind("op.run") & ((own.flags & Flag.ERROR) > 0)
    for at in np.argsort(own.start, kind="stable"):
        old = found.get(names[at])
        new = Measured(
            int(own.end[at] - own.start[at]),
            int(queueing[at]),
            int(request[at]),
            int(wait[at]),
            int(own.bytes[at]),
            int(own.start[at]) - step.start,
            1,
            int(is_dead[at]),
            hex_id(int(own.span[at])),
            str(keys[at]),
            int(has_failed[at]),
        )
        found[str(names[at])] = _joined(old, new) if old else new
    return found


def _joined(old: Measured, new: Measured) -> Measured:
    return replace(
        old,
        time=old.time + new.time,
        queueing=old.queueing + new.queueing,
        request=old.request + new.request,
        wait=old.wait + new.wait,
        bytes=old.bytes + new.bytes,
        runs=old.runs + 1,
        dead=old.dead + new.dead,
        failed=old.failed + new.failed,
    )


def _busy(own: Spans, step: StepInfo) -> dict[str, float]:
    """Ops that run at the same time count once."""
    ops = own.take(own.is_kind("op.run"))
    length = max(1, step.duration)
    shares = {}
    for task in np.unique(ops.task.astype(str)):
        here = ops.task == task
        shares[str(task)] = paint([(ops.start[here], ops.end[here])], step.start, step.end)[0]
    return {task: covered / length for task, covered in shares.items()}
