"""What to look at next: findings by the time a step would save, faults first, each with proof."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vizdist.analysis.bytes_moved import task_of_device
from vizdist.analysis.faults import faults
from vizdist.analysis.keys import key_of
from vizdist.analysis.longest import longest
from vizdist.analysis.op_totals import op_totals
from vizdist.analysis.path_stretches import Stretch
from vizdist.analysis.slow_step import why_slow
from vizdist.analysis.staleness import staleness
from vizdist.analysis.stalls_told import told
from vizdist.analysis.step_times import StepTimes, step_times
from vizdist.analysis.typical_step import TypicalStep, typical_step
from vizdist.analysis.what_if import Change, WhatIf, saved_without
from vizdist.i18n.units import duration, figures, size
from vizdist.store.trace import Trace

WORTH_SAYING = 0.05  #: part of a step below which a finding is noise
MUCH_OTHER = 0.15  #: part of a step that dispatch should stay under
LARGE_BYTES = 256 << 10  #: a transfer this large pays by the byte, a smaller one by the message
SAID = 6
CANDIDATES = 3  #: ops of one sort whose absence is tried out
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
    if (typical := typical_step(trace)) is not None:
        costs = [*_slow_step(trace, times), *_stale(trace, times)]
        if typical.path is not None:
            costs += [*_ops(trace, typical), *_moving(trace, typical)]
            costs += [*_stalls(trace, typical), *_dispatch(typical)]
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


def _ops(trace: Trace, typical: TypicalStep) -> Iterator[Finding]:
    """The op and the update whose absence would make a typical step shortest."""
    names = {(s.part, s.name) for s in typical.stretches}
    for part, is_update in (("compute", False), ("update", True)):
        totals = [one for one in op_totals(trace, typical.step) if one.is_update == is_update]
        on_path = [one for one in totals if (part, one.name) in names][:CANDIDATES]
        found = [(one, typical.what_if(Change("op", one.name))) for one in on_path]
        tried = [(changed, one) for one, changed in found if changed is not None]
        if not tried:
            continue
        changed, total = max(tried, key=lambda pair: pair[0].saved)
        values: dict[str, object] = {
            "name": total.name,
            "op": total.op,
            "task": total.task,
            "time": str(duration(total.total)),
            "share": f"{figures(100 * total.total / typical.split.total)} %",
            **_what_if_values(changed),
        }
        key, hue = ("update", "update") if is_update else ("op", "compute")
        proof = (total.slowest,)
        yield Finding(key, hue, float(changed.saved), values, proof, typical.step.number)


def _what_if_values(changed: WhatIf) -> dict[str, str]:
    return {"would": str(duration(changed.would_take)), "saved": str(duration(changed.saved))}


def _moving(trace: Trace, typical: TypicalStep) -> Iterator[Finding]:
    """What tensors under way cost the critical path, and what a faster link would save."""
    moved = [stretch for stretch in typical.stretches if stretch.part == "transfer"]
    if not moved:
        return
    longest = moved[0]
    one = trace.span(longest.spans[0])
    link = _link_of(one.key)
    changed = typical.what_if(Change("link", link)) if link else None
    values: dict[str, object] = {
        **_on_path(moved, typical),
        "name": longest.name,
        "longest": str(duration(longest.total)),
        "bytes": str(size(one.bytes)),
    }
    key, saved = "copy", float(longest.total)
    if changed is not None:
        key = "small_transfer" if one.bytes < LARGE_BYTES else "transfer"
        saved = float(changed.saved)
        values |= _what_if_values(changed) | {"link": link.replace("→", " → ")}
    proof = tuple(span for stretch in moved for span in stretch.spans)
    yield Finding(key, "recv", saved, values, proof, typical.step.number)


def _on_path(stretches: Sequence[Stretch], typical: TypicalStep) -> dict[str, str]:
    total = sum(stretch.total for stretch in stretches)
    share = f"{figures(100 * total / typical.step.duration)} %"
    return {"time": str(duration(total)), "share": share}


def _link_of(key: str) -> str:
    """The two tasks that a tensor goes between, "" within a task."""
    known = key_of(key)
    source, target = task_of_device(known.src_device), task_of_device(known.dst_device)
    return f"{source}→{target}" if source != target else ""


def _stalls(trace: Trace, typical: TypicalStep) -> Iterator[Finding]:
    """Of the longest stretches in which a device stood idle the one whose cause costs most."""
    tried = [
        (saved_without(trace, typical.step, stall.cause), stall)
        for stall in typical.stalls[:CANDIDATES]
        if stall.cause is not None and told(trace, stall).key not in _UNEXPLAINED
    ]
    for saved, stall in sorted(tried, key=lambda pair: -pair[0])[:1]:
        assert stall.cause is not None
        spans = trace.all.take(np.array([stall.cause.place, stall.effect]))
        ids = tuple(spans.span.tolist())
        is_op = bool(spans.is_kind("op.run")[1])
        said = told(trace, stall)
        values: dict[str, object] = {"stall": said, "next": str(spans.text("name")[1])}
        key = "stall" if is_op else "stall_at_end"
        yield Finding(key, "wait", float(saved), values, ids, typical.step.number)


_UNEXPLAINED = ("nothing", "unknown", "pieces")


def _dispatch(typical: TypicalStep) -> Iterator[Finding]:
    """What the runtime itself takes of the critical path."""
    idle = [stretch for stretch in typical.stretches if stretch.part == "other"]
    total = sum(stretch.total for stretch in idle)
    if total > MUCH_OTHER * typical.step.duration:
        values = {**_on_path(idle, typical), "task": idle[0].task}
        proof = tuple(span for stretch in idle for span in stretch.spans)
        yield Finding("other", "idle", float(total), values, proof, typical.step.number)


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
