"""The queues and accumulators that a step put into or took from, and how long it waited there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracer.model.trace_folder import Flag
from vizdist.analysis.bytes_moved import device_title
from vizdist.analysis.mechanisms.grouping import grouped
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.analysis.step_split import op_mask
from vizdist.i18n import Lang
from vizdist.i18n.units import duration
from vizdist.store.details import hex_id
from vizdist.store.spans import Spans


@dataclass(frozen=True, slots=True)
class QueueWork:
    """A node that works on one; the time it took is what it waited there."""

    node: str
    op: str
    device: str
    count: int
    errors: int
    took_ns: int
    longest_ns: int
    span: str  #: the longest


@dataclass(frozen=True, slots=True)
class Queues:
    nodes: Sequence[QueueWork]


def find(one: OneStep) -> Queues | None:
    """None where none was worked on."""
    spans = one.of_kind("op.run")
    ops = spans.take(op_mask(spans, lambda op: "Queue" in op or "Accumulator" in op))
    nodes = [_work(own, *key) for key, own in grouped(ops, ops.text("name"), ops.text("device"))]
    return Queues(nodes) if nodes else None


def _work(ops: Spans, node: str, device: str) -> QueueWork:
    at = int(ops.duration.argmax())
    return QueueWork(
        node=node,
        op=str(ops.text("op")[at]),
        device=device,
        count=len(ops),
        errors=int(((ops.flags & Flag.ERROR) != 0).sum()),
        took_ns=int(ops.duration.sum()),
        longest_ns=int(ops.duration[at]),
        span=hex_id(int(ops.span[at])),
    )


def tell(found: Queues, lang: Lang) -> Iterator[str]:
    columns = ("node", "op", "device", "runs", "errors", "took", "longest")
    yield from table(columns, map(_cells, found.nodes), lang)


def _cells(work: QueueWork) -> Sequence[object]:
    times = duration(work.took_ns), duration(work.longest_ns)
    return work.node, work.op, device_title(work.device), work.count, work.errors, *times
