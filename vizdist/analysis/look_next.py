"""What to look at next: findings by the time a step would save, faults first, each with proof."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from vizdist.analysis.bytes_moved import tensor_of_key
from vizdist.analysis.faults import faults
from vizdist.analysis.longest import longest
from vizdist.analysis.op_totals import op_totals
from vizdist.analysis.recv_parts import recv_parts
from vizdist.analysis.slow_step import why_slow
from vizdist.analysis.staleness import staleness
from vizdist.analysis.step_split import TaskSplit, split_of_client
from vizdist.analysis.step_times import StepTimes, step_times
from vizdist.i18n.units import duration, figures, size
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace

WORTH_SAYING = 0.05  #: part of a step below which a finding is noise
MUCH_OTHER = 0.15  #: part of a step that dispatch should stay under
LARGE_BYTES = 256 << 10  #: a transfer this large pays by the byte, a smaller one by the message
SAID = 6
LONGEST = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """`key` names two texts, `analysis.look.<key>.says` and `.remedy`, that take `values`.

    `hue` is what the machine is doing; `proof` are span ids; `saved` ns a step, for the order.
    """

    key: str
    hue: str
    saved: float
    values: Mapping[str, object] = field(default_factory=dict)
    proof: tuple[int, ...] = ()
    step: int = 0


def look_next(trace: Trace) -> list[Finding]:
    times = step_times(trace)
    found = [*_faults(trace)]
    if not times.steps:
        found += _longest(trace)
    if times.typical is not None:
        split = split_of_client(trace, times.typical)
        costs = [*_slow_step(trace, times), *_stale(trace, times)]
        if split.has_ops:
            costs += [*_ops(trace, split), *_recvs(trace, split), *_dispatch(split)]
        enough = WORTH_SAYING * times.median
        found += sorted((f for f in costs if f.saved >= enough), key=lambda f: -f.saved)
    return found[:SAID]


def _faults(trace: Trace) -> Iterator[Finding]:
    wrong = faults(trace)
    if wrong.proof and (wrong.unfinished or wrong.errors):
        first = trace.span(wrong.proof[0])
        error = wrong.cause.error if wrong.cause else ""
        key = "unfinished" if wrong.unfinished else "errors"
        if key == "errors" and first.status and error not in first.status:
            key = "stopped"
        counts = wrong.unfinished or wrong.errors
        values = {
            "count": sum(counts.values()),
            "tasks": tuple(counts),
            "name": first.name or first.kind,
            "task": first.task,
            "error": error,
        }
        yield Finding(key, "error", 0, values, wrong.proof, first.step)
    if wrong.num_missing:
        yield Finding("missing", "error", 0, {"count": wrong.num_missing})


def _longest(trace: Trace) -> Iterator[Finding]:
    """In a trace without steps nothing is typical; the longest spans are where to begin."""
    for place in longest(trace, None, LONGEST):
        one = trace.all.take(np.array([place]))
        values = {
            "name": str(one.text("name")[0]) or str(one.text("kind")[0]),
            "task": str(one.task[0]),
            "time": str(duration(int(one.duration[0]))),
            "at": str(duration(int(one.start[0]) - trace.start)),
        }
        yield Finding("longest", "idle", 0, values, (int(one.span[0]),))


def _slow_step(trace: Trace, times: StepTimes) -> Iterator[Finding]:
    slow = times.outlier
    usual = times.usual_for(slow) if slow else None
    if slow is None or usual is None:
        return
    values: dict[str, object] = {
        "step": slow.number,
        "took": str(duration(slow.duration)),
        "usual": str(duration(usual.duration)),
    }
    saved = (slow.duration - usual.duration) / len(times.steps)
    cause = why_slow(trace, slow, usual)
    proof = (slow.span,) if cause is None else (cause.span,)
    if cause is not None:
        values |= {"task": cause.task, "name": cause.name, "late": str(duration(cause.late))}
    key = "slow_unknown" if cause is None else f"slow_{cause.measure}"
    # one slow step in many saves little a step, yet it is what a reader sees first
    worth = max(saved, WORTH_SAYING * times.median)
    yield Finding(key, "wait", worth, values, proof, slow.number)


def _ops(trace: Trace, split: TaskSplit) -> Iterator[Finding]:
    """The op and the update that cost most in a typical step."""
    worst = {total.is_update: total for total in reversed(op_totals(trace, split.step))}
    for is_update, total in worst.items():
        values = {
            "name": total.name,
            "op": total.op,
            "task": total.task,
            "time": str(duration(total.total)),
            "share": f"{figures(100 * total.total / split.total)} %",
        }
        key, hue = ("update", "update") if is_update else ("op", "compute")
        proof = (total.slowest,)
        yield Finding(key, hue, float(total.total), values, proof, split.step.number)


def _recvs(trace: Trace, split: TaskSplit) -> Iterator[Finding]:
    """What moving tensors and waiting for them costs the client of a typical step."""
    own = trace.all.take(trace.step_places(split.step))
    parts, copies = recv_parts(trace, own), own.take(own.is_kind("copy.run"))
    moved = (parts.recvs, parts.transfer)
    if len(copies) and copies.duration.max() > max(parts.transfer, default=0):
        moved = (copies, copies.duration)
    for key, hue, (spans, lengths) in (
        ("transfer", "recv", moved),
        ("wait", "wait", (parts.recvs, parts.wait)),
    ):
        cost = split.parts[key]
        if not cost or not len(lengths):
            continue
        most = int(np.argmax(lengths))
        num_bytes = int(spans.bytes[most])
        values = {
            "name": _tensor_of(spans, most),
            "task": split.task,
            "time": str(duration(cost)),
            "longest": str(duration(int(lengths[most]))),
            "bytes": str(size(num_bytes)),
            "share": f"{figures(100 * cost / split.total)} %",
        }
        small = key == "transfer" and num_bytes < LARGE_BYTES
        proof = (int(spans.span[most]),)
        name = "small_transfer" if small else key
        yield Finding(name, hue, float(cost), values, proof, split.step.number)


def _tensor_of(spans: Spans, at: int) -> str:
    """A recv's key says it; a copy between host and GPU is named after it."""
    key = str(spans.text("key")[at])
    return tensor_of_key(key) if key else str(spans.text("name")[at])


def _dispatch(split: TaskSplit) -> Iterator[Finding]:
    other = split.parts["other"]
    if other > MUCH_OTHER * split.total:
        values = {
            "task": split.task,
            "time": str(duration(other)),
            "share": f"{figures(100 * other / split.total)} %",
        }
        proof = (split.step.span,)
        yield Finding("other", "idle", float(other), values, proof, split.step.number)


def _stale(trace: Trace, times: StepTimes) -> Iterator[Finding]:
    found = staleness(trace)
    if found.most:
        late = sum(count for missed, count in found.missed.items() if missed)
        values = {
            "most": f"{found.most:,}",
            "count": late,
            "late": f"{late:,}",
            "all": f"{found.num_updates:,}",
        }
        step = _step_of(trace, found.worst)
        yield Finding("stale", "update", times.median * WORTH_SAYING, values, (found.worst,), step)


def _step_of(trace: Trace, span: int) -> int:
    return int(trace.all.step[trace.place(span)])
