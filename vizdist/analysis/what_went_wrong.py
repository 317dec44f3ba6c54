"""What went wrong in a run: its cause, what followed from it in order of time, who still waits.

Instants count from `origin`, the moment that it went wrong: the end of the op that failed, the last
sign of a task that died, or else the first span that failed; where there is none, the trace's end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracer.model.trace_folder import Flag, TaskRecord
from vizdist.analysis.faults import HOUSEKEEPING, RootCause, faults
from vizdist.analysis.mechanisms import failures, leftovers
from vizdist.analysis.mechanisms.failures import Failure
from vizdist.analysis.mechanisms.leftovers import Alone
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.wait_circle import NOBODY, Waits, waits_of
from vizdist.store.details import hex_id
from vizdist.store.logs import last_lines
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

STEPS = 8  #: in flight at once that are looked at, the guilty task's first
LOG_LINES = 20


@dataclass(frozen=True, slots=True)
class RootOp:
    """The op whose error ended the run; `source` is the user's `file:line`, "" where unknown."""

    node: str
    op: str
    source: str
    span: str


@dataclass(frozen=True, slots=True)
class Echo:
    """A span that failed for the cause."""

    task: str
    kind: str
    name: str
    after_ns: int
    span: str


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A span that was begun and never ended; `open_ns` until its task was last heard of."""

    task: str
    kind: str
    name: str
    since_ns: int
    open_ns: int
    span: str


@dataclass(frozen=True, slots=True)
class Absent:
    """A task that a session waited for in vain."""

    task: str
    address: str
    waited_ns: int
    error: str
    span: str


@dataclass(frozen=True, slots=True)
class LastSeen:
    """How a task ended. `after_ns` is None of one that was never heard of."""

    task: str
    address: str
    outcome: str
    error: str
    after_ns: int | None


@dataclass(frozen=True, slots=True)
class Emptied:
    """What an abort found in a task's mailboxes, and what was left there after their cleanup."""

    task: str
    values: int
    waiting: int
    left: int
    span: str


@dataclass(frozen=True, slots=True)
class WhatWentWrong:
    """`origin` is ns since the epoch; `step` 0 where it went wrong outside steps.

    `waits` are told where neither an op nor a task is known to have failed.
    """

    cause: RootCause
    origin: int
    from_end: bool  #: nothing tells when it went wrong
    task: str  #: the guilty one, "" where none is
    step: int
    root: RootOp | None
    echoes: Sequence[Echo]  #: in order of time; what failed before is no echo
    unmet: Sequence[Alone]
    waits: Waits
    emptied: Sequence[Emptied]
    unfinished: Sequence[Unfinished]
    absent: Sequence[Absent]
    seen: Sequence[LastSeen]
    log: Sequence[str]  #: the last lines of the guilty task's

    @property
    def address(self) -> str:
        return next((one.address for one in self.seen if one.task == self.task), "")


def what_went_wrong(trace: Trace) -> WhatWentWrong | None:
    """None of a run that ended well, and of one that says no end."""
    cause = faults(trace).cause
    if cause is None:
        return None
    task = str(cause.values.get("task", ""))
    steps = [OneStep(trace, step) for step in _steps(trace, cause.step, task)]
    failed = [(one, each) for one in steps for each in _failures(one)]
    root = next(((one, each) for one, each in failed if each.role == "root"), None)
    open_spans = _open(trace)
    outside = _failed_outside_steps(trace)
    ends = [_at(one, each) for one, each in failed if not each.is_unfinished]
    first = min(ends or outside.end.tolist(), default=0)
    known = _at(*root) if root else _last_sign(trace, task) or first
    origin = known or trace.end
    echoes = [
        echo
        for echo in (*_echoes(failed, origin), *_outside(outside, origin))
        if echo.after_ns >= 0
    ]
    return WhatWentWrong(
        cause=cause,
        origin=origin,
        from_end=not known,
        task=task,
        step=cause.step,
        root=_root_op(*root) if root else None,
        echoes=sorted(echoes, key=lambda echo: echo.after_ns),
        unmet=_unmet(steps, (root[1].task, root[1].name) if root else ("", "")),
        waits=_waits(steps) if not root and not any(map(_died, trace.manifest.tasks)) else NOBODY,
        emptied=[each for one in steps for each in _emptied(one)],
        unfinished=list(_unfinished(open_spans, origin, task)),
        absent=list(_absent(trace)),
        seen=list(_seen(trace, origin)),
        log=last_lines(trace.path, task, LOG_LINES) if task else (),
    )


def _steps(trace: Trace, number: int, guilty: str) -> list[StepInfo]:
    """Requests of the number that the cause names, and others that came to no end with them."""
    named = [step for step in trace.steps if step.number == number]
    since = min((step.start for step in named), default=0)
    broken = [step for step in trace.steps if not step.is_whole and step.end >= since]
    found = [*named, *(step for step in broken if step not in named)]
    return sorted(found, key=lambda step: (step.task != guilty, step not in named))[:STEPS]


def _failures(one: OneStep) -> Sequence[Failure]:
    found = failures.find(one)
    return found.failures if found else ()


def _at(one: OneStep, failure: Failure) -> int:
    return one.step.start + failure.after_ns


def _last_sign(trace: Trace, guilty: str) -> int:
    """When a task was last heard of that died, else 0."""
    dead = next((t for t in trace.manifest.tasks if t.task == guilty and _died(t)), None)
    return dead.last_seen_ns if dead is not None else 0


def _died(task: TaskRecord) -> bool:
    return task.outcome in ("killed", "lost")


def _root_op(one: OneStep, root: Failure) -> RootOp:
    span = one.trace.span(root.span)
    stages = one.graph.stages.values() if one.graph else ()
    sources = (row.source for rows in stages for row in rows if row.name == root.name)
    return RootOp(root.name, span.op, next(filter(None, sources), ""), root.span)


def _echoes(failed: Sequence[tuple[OneStep, Failure]], origin: int) -> list[Echo]:
    return [
        Echo(each.task, each.kind, each.name, _at(one, each) - origin, each.span)
        for one, each in failed
        if each.role != "root" and not each.is_unfinished
    ]


def _failed_outside_steps(trace: Trace) -> Spans:
    """What belongs to the run or to a session; the run holds all, and a wait is told by itself."""
    failed = ((trace.all.flags & Flag.ERROR) != 0) & (trace.all.step == 0)
    spans = trace.all.take(failed)
    return spans.take(~spans.is_kind("run", "session.wait"))


def _outside(spans: Spans, origin: int) -> Iterator[Echo]:
    columns = (
        spans.task,
        spans.text("kind"),
        spans.text("name"),
        spans.end - origin,
        spans.span,
    )
    for task, kind, name, after, span in zip(*(c.tolist() for c in columns), strict=True):
        yield Echo(task, kind, name, after, hex_id(span))


def _unmet(steps: Sequence[OneStep], root: tuple[str, str]) -> list[Alone]:
    """What the root (task, node) should have made first, then by the time that was waited."""
    left = [found.alone for one in steps if (found := leftovers.find(one))]
    alone = [_judged(each, root) for several in left for each in several]
    return sorted(alone, key=lambda one: (one.fate != "failed", -one.waited_ns))


def _waits(steps: Sequence[OneStep]) -> Waits:
    """Of the first step that holds a circle, else of the first in which anything waited."""
    left = [(one, leftovers.find(one)) for one in steps]
    found = [waits_of(one, each.alone) for one, each in left if each]
    held = [each for each in found if each.circle] or [each for each in found if each.waiting]
    return next(iter(held), NOBODY)


def _emptied(one: OneStep) -> Iterator[Emptied]:
    mask = one.spans.is_kind("rendezvous.cleanup")
    spans = one.spans.take(mask)
    rows = zip(spans.task.tolist(), spans.span.tolist(), one.attributes(mask), strict=True)
    for task, span, told in rows:
        values, waiting, left = (
            int(told[f"vizdist.rendezvous.{of}"]) for of in ("values", "waiting", "left")
        )
        yield Emptied(task, values, waiting, left, hex_id(span))


def _judged(one: Alone, root: tuple[str, str]) -> Alone:
    """Of all ops that ended with an error only the root failed by itself."""
    is_root = (one.other, one.maker) == root
    return replace(one, fate="stopped") if one.fate == "failed" and not is_root else one


def _open(trace: Trace) -> Spans:
    spans = trace.all.take((trace.all.flags & Flag.UNFINISHED) != 0)
    return spans.take(~spans.is_kind("run"))


def _unfinished(spans: Spans, origin: int, guilty: str) -> Iterator[Unfinished]:
    """The guilty task's first; what began last stands deepest, so it is told first."""
    spans = spans.take(np.lexsort((-spans.start, spans.task != guilty)))
    columns = (
        spans.task,
        spans.text("kind"),
        spans.text("name"),
        spans.start - origin,
        spans.duration,
        spans.span,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for task, kind, name, since, lasted, span in rows:
        yield Unfinished(task, kind, name, since, lasted, hex_id(span))


def _absent(trace: Trace) -> Iterator[Absent]:
    waits = trace.mask(kinds=["session.wait"])
    waits &= (trace.all.flags & (Flag.ERROR | Flag.UNFINISHED)) != 0
    places = np.flatnonzero(waits).tolist()
    attributes, messages = trace.attributes(places), trace.messages(places)
    for place in places:
        told = attributes.get(place, {})
        one = trace.all.take(np.array([place]))
        yield Absent(
            str(told.get("vizdist.peer") or one.text("name")[0]),
            str(told.get("server.address", "")),
            int(one.duration[0]),
            str(told.get("vizdist.error") or messages.get(place, "")),
            hex_id(int(one.span[0])),
        )


def _seen(trace: Trace, origin: int) -> Iterator[LastSeen]:
    """Tasks that compute, in the order in which they were last heard of."""
    tasks = [one for one in trace.manifest.tasks if _job(one) not in HOUSEKEEPING]
    for one in sorted(tasks, key=lambda task: task.last_seen_ns):
        after = one.last_seen_ns - origin if one.last_seen_ns else None
        yield LastSeen(one.task, one.address, one.outcome, one.error, after)


def _job(task: TaskRecord) -> str:
    return task.task.partition(":")[0]
