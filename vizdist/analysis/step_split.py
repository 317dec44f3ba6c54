"""Where the time of a step went: per task, every instant in exactly one class.

The first class that holds wins, in the order of CLASSES:

compute   an op runs that writes no variable, and does not wait at a queue
update    an op runs that writes a variable
transfer  a value exists and is on its way: to this task, from it, between its host and its GPU, or
          round the ranks of a collective
rpc       a request or an answer travels, or a request is served without a partition running for it
wait      a recv's request has arrived where the value will be, and there is no value yet; or an op
          is at a queue, or in a collective that not all ranks have come to
queueing  an op has its inputs and does not run yet
other     none of these: dispatch between ops, or nothing to do

All arithmetic is on integers, so the parts add up to the step exactly.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.keys import is_rank
from vizdist.analysis.recv_parts import recv_parts
from vizdist.store.segments import Array, Segment
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

CLASSES = ("compute", "update", "transfer", "rpc", "wait", "queueing", "other")

_WRITES = re.compile(r"(Resource)?(Sparse)?(Apply|Assign|Scatter)")
_WAITS = re.compile(r"Queue(Enqueue|Dequeue)|(Resource|Sparse)?AccumulatorTakeGradient|Collective")
_RUNS = ("executor ", "launch ")  #: lanes of a device on which ops begin

Interval = tuple[Array, Array]  #: starts and ends, ns


@dataclass(frozen=True, slots=True)
class TaskSplit:
    """One task's share of a step; `parts` are ns by class, in the order of CLASSES.

    `has_ops`: the step's ops were recorded; without them nobody can tell compute from `other`.
    """

    task: str
    step: StepInfo
    parts: Mapping[str, int]
    has_ops: bool = True

    @property
    def total(self) -> int:
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True)
class Lane:
    """What a task, or a device, did over a step: from edge to edge (ns) a class of CLASSES."""

    name: str
    edges: Array
    classes: Array


def split_step(trace: Trace, step: StepInfo) -> list[TaskSplit]:
    """Every task that took part in the step; first the one that leads it."""
    spans = trace.all.take(trace.step_places(step))
    return [_split(trace, step, task, spans) for task in _tasks(trace, step, spans)]


def lanes_of_step(trace: Trace, step: StepInfo, others: Sequence[StepInfo] = ()) -> list[Lane]:
    """The same, moment by moment. Where clients take a step together, `others` are theirs of it.

    A task that has the step to itself has a lane for each of its devices.
    """
    spans = trace.all.take(trace.step_places(step))
    parts = {task: spans.take(spans.task == task) for task in _tasks(trace, step, spans)}
    for other in others:
        held = trace.all.take(trace.step_places(other))
        parts[other.task] = held.take(held.task == other.task)
    if len(parts) == 1:
        parts = _by_device(spans) or parts
    return [
        Lane(name, *painted(_intervals(trace, own), step.start, step.end))
        for name, own in parts.items()
    ]


def _by_device(spans: Spans) -> dict[str, Spans]:
    """The spans of each device of a task that has several; {} of one."""
    device_of = np.array([row.lane.partition(" (")[0].rpartition(" ")[2] for row in spans.rows])
    rows = [row for row in np.unique(spans.row).tolist() if spans.rows[row].lane.startswith(_RUNS)]
    devices = sorted({str(device_of[row]) for row in rows})
    if len(devices) < 2:
        return {}
    return {device: spans.take(device_of[spans.row] == device) for device in devices}


def _tasks(trace: Trace, step: StepInfo, spans: Spans) -> list[str]:
    leads = leader_of(trace, step)
    return [leads, *sorted({*spans.task.tolist()} - {leads}, key=trace.tasks.index)]


def split_of_client(trace: Trace, step: StepInfo) -> TaskSplit:
    """The share of the task that leads the step."""
    return _split(trace, step, leader_of(trace, step), trace.all.take(trace.step_places(step)))


def _split(trace: Trace, step: StepInfo, task: str, spans: Spans) -> TaskSplit:
    intervals = _intervals(trace, spans.take(spans.task == task))
    lengths = paint(intervals, step.start, step.end)
    has_ops = bool(spans.is_kind("op.run").any())
    return TaskSplit(task, step, dict(zip(CLASSES, lengths, strict=True)), has_ops)


def leader_of(trace: Trace, step: StepInfo) -> str:
    """The client, or the master that it asks to run the step: then it does nothing but wait."""
    spans = trace.all.take(trace.step_places(step))
    calls = spans.take(
        spans.is_kind("rpc.client") & spans.has_word("name", "RunStep", "RunCallable")
    )
    served = trace.served_by(calls.span)
    at = served[served >= 0]
    return trace.rows[int(trace.all.row[at[0]])].task if len(at) else step.task


def paint(classes: Sequence[Interval], start: int, end: int) -> list[int]:
    """ns of [start, end) that each class holds and no earlier one; last the rest."""
    edges, owner = painted(classes, start, end)
    lengths = np.diff(edges)
    return [int(lengths[owner == number].sum()) for number in range(len(classes) + 1)]


def painted(classes: Sequence[Interval], start: int, end: int) -> tuple[Array, Array]:
    """Edges within [start, end], and between two of them the number of the class that holds it.

    Where none does, it is the number after the last.
    """
    clipped = [(np.clip(begins, start, end), np.clip(ends, start, end)) for begins, ends in classes]
    edges = np.unique(np.concatenate([[start, end], *(part for pair in clipped for part in pair)]))
    owner = np.full(len(edges) - 1, len(classes))
    for number, (begins, ends) in reversed([*enumerate(clipped)]):
        change = np.zeros(len(edges), np.int64)
        np.add.at(change, np.searchsorted(edges, begins), 1)
        np.add.at(change, np.searchsorted(edges, ends), -1)
        owner[np.cumsum(change)[:-1] > 0] = number
    return edges, owner


def is_update(op: str) -> bool:
    """Whether ops of this type write a variable."""
    return bool(_WRITES.match(op))


def is_wait(op: str) -> bool:
    """Whether ops of this type take as long as what they take, or room for it, is awaited."""
    return bool(_WAITS.match(op))


def op_mask(spans: Spans | Segment, is_meant: Callable[[str], bool]) -> Array:
    """Which spans have such an op type."""
    words = spans.words["op"] if isinstance(spans, Spans) else spans.texts["op"]
    mask: Array = np.array([*map(is_meant, words), False], np.bool_)[spans.columns["op"]]
    return mask


def _intervals(trace: Trace, own: Spans) -> list[Interval]:
    """The intervals of every class but `other`, of one task's spans."""
    ops = own.take(own.is_kind("op.run"))
    writes, waits = op_mask(ops, is_update), op_mask(ops, is_wait)
    computes = ~writes & ~waits
    parts = recv_parts(trace, own)
    copies = own.take(own.is_kind("copy.run"))
    ready = ops.take(ops.ready > 0)
    return [
        (ops.start[computes], ops.end[computes]),
        (ops.start[writes], ops.end[writes]),
        _joined(
            (parts.exists, parts.recvs.end),
            _sent(trace, own),
            (copies.start, copies.end),
            _exchanged(own),
        ),
        _rpc(trace, own),
        _joined((parts.served, parts.exists), (ops.start[waits], ops.end[waits])),
        (ready.ready, ready.start),
    ]


def _sent(trace: Trace, own: Spans) -> Interval:
    """From when a value exists that another task asked for until it arrived there, if it did."""
    handed_over = (own.flags & (Flag.ERROR | Flag.UNFINISHED)) == 0
    served = own.take(_is_tensor(own) & handed_over)
    client = trace.places(served.parent)
    arrived = np.where(client >= 0, trace.all.end[client], 0)
    return served.start + served.wait, np.maximum(served.end, arrived)


def _exchanged(own: Spans) -> Interval:
    """From when all ranks of a collective had come."""
    met = own.take(own.is_kind(*filter(is_rank, own.words["kind"])))
    return met.start + met.wait, met.end


def _is_tensor(spans: Spans) -> Array:
    """Served calls that hand over a value, which is of no size if it is dead or only control."""
    mask: Array = spans.is_kind("rpc.server") & spans.has_word("name", "RecvTensor")
    return mask


def _joined(*intervals: Interval) -> Interval:
    return (
        np.concatenate([begins for begins, _ in intervals]),
        np.concatenate([ends for _, ends in intervals]),
    )


def _rpc(trace: Trace, own: Spans) -> Interval:
    """Messages under way, calls that nobody is known to serve, and serving without running."""
    clients = own.take(own.is_kind("rpc.client"))
    servers = trace.served_by(clients.span)
    known = servers >= 0
    begun, ended = trace.all.start[servers], trace.all.end[servers]
    asked = (
        clients.start,
        np.where(known, np.clip(begun, clients.start, clients.end), clients.end),
    )
    answered = (np.clip(ended, clients.start, clients.end)[known], clients.end[known])
    served = own.take(own.is_kind("rpc.server") & ~_is_tensor(own))
    return _joined(asked, answered, _without_runs(own, served))


def _without_runs(own: Spans, served: Spans) -> Interval:
    """What of the served calls lies before the first and after the last partition run."""
    runs = own.take(own.is_kind("partition.run"))
    if not len(runs):
        return served.start, served.end
    first, last = runs.start.min(), runs.end.max()
    before = (served.start, np.clip(first, served.start, served.end))
    after = (np.clip(last, served.start, served.end), served.end)
    return _joined(before, after)
