"""Faults that were asked for (`--fault`): which of them struck, and what followed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tracer.model.fault import Fault, FaultError, Kind, faults_from
from vizdist.analysis.kept import kept
from vizdist.analysis.medians import Median, median_of, median_step
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

FLAG = "--fault"
LETHAL = (Kind.KILL, Kind.STOP)


@dataclass(frozen=True, slots=True)
class Restart:
    """The task was started again, and served `took` ns after its death.

    `step` is the one that its own client went on with, 0 if it has none or never did.
    """

    took: int
    step: int
    proof: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recovery:
    """Clients that had lost a task, and with which step they went on."""

    clients: tuple[str, ...]
    lost: tuple[int, ...]
    resumed: tuple[int, ...]
    took: int  #: ns until the last of them went on
    proof: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slowed:
    """Steps of `clients` since then, and before, if any ended before.

    `proof` is the step of median length since then.
    """

    clients: tuple[str, ...]
    before: Median | None
    after: Median
    proof: StepInfo


@dataclass(frozen=True, slots=True)
class Strike:
    """`at`: ns since the epoch."""

    step: int
    at: int
    span: int
    restart: Restart | None = None
    recovery: Recovery | None = None
    slowed: Slowed | None = None


@dataclass(frozen=True, slots=True)
class AskedFault:
    """`strike` is None of one that no span tells of."""

    fault: Fault
    strike: Strike | None

    @property
    def text(self) -> str:
        """As it is written behind `--fault`."""
        return str(self.fault)


@kept()
def asked_faults(trace: Trace) -> tuple[AskedFault, ...]:
    """In the order in which they struck; last those that did not."""
    asked = faults_of(trace.manifest.command)
    found = _strikes(trace, asked)
    ends = [strike.at for fault, strike in found if fault.kind in LETHAL]
    struck = [AskedFault(fault, _followed(trace, fault, strike, ends)) for fault, strike in found]
    known = {fault for fault, _ in found}
    return (*struck, *(AskedFault(fault, None) for fault in asked if fault not in known))


def faults_of(command: Sequence[str]) -> tuple[Fault, ...]:
    """The last `--fault` of a command line counts; () where none can be read."""
    after = [value for word, value in pairwise(command) if word == FLAG]
    joined = [word.partition("=")[2] for word in command if word.startswith(f"{FLAG}=")]
    return _read([*joined, *after][-1]) if joined or after else ()


def _read(text: str) -> tuple[Fault, ...]:
    """() of what is no fault: a trace may come from anywhere."""
    try:
        return faults_from(text)
    except FaultError:
        return ()


def _strikes(trace: Trace, asked: Sequence[Fault]) -> list[tuple[Fault, Strike]]:
    """By time. What was asked for is read from the span, else known by its kind and task."""
    places = np.flatnonzero(trace.all.is_kind("fault.inject"))
    spans, told = trace.all.take(places), trace.told(places)
    columns = (places, spans.text("name"), spans.task, spans.step, spans.start, spans.span)
    found = []
    for place, kind, task, step, at, span in zip(*(c.tolist() for c in columns), strict=True):
        same = [fault for fault in asked if (str(fault.kind), str(fault.task)) == (kind, task)]
        fault, *_ = *_read(str(told.get(place, {}).get("vizdist.fault", ""))), *same, None
        if fault is not None:
            found.append((fault, Strike(step, at, span)))
    return sorted(found, key=lambda one: one[1].at)


def _followed(trace: Trace, fault: Fault, strike: Strike, ends: Sequence[int]) -> Strike:
    """A delay lasts; what became of a dead task is told up to the next death."""
    if fault.kind is Kind.DELAY:
        return replace(strike, slowed=_slowed(trace, str(fault.task), strike.at))
    if fault.kind not in LETHAL:
        return strike
    until = min((end for end in ends if end > strike.at), default=trace.end + 1)
    return replace(
        strike,
        restart=_restart(trace, str(fault.task), strike.at, until),
        recovery=_recovery(trace, strike.at, until),
    )


def _between(trace: Trace, kind: str, since: int, until: int) -> Iterator[int]:
    """Places of spans of the kind that begin then."""
    spans = trace.all
    is_then = (spans.start >= since) & (spans.start < until)
    yield from np.flatnonzero(spans.is_kind(kind) & is_then).tolist()


def _restart(trace: Trace, task: str, since: int, until: int) -> Restart | None:
    spans = trace.all
    for place in _between(trace, "task.restart", since, until):
        if trace.attributes([place]).get(place, {}).get("vizdist.peer") != task:
            continue
        end = int(spans.end[place])
        own = (step for step in trace.steps if step.task == task and step.start >= end)
        first = min(own, key=lambda step: step.start, default=None)
        proof = (int(spans.span[place]), *((first.span,) if first else ()))
        return Restart(int(spans.duration[place]), first.number if first else 0, proof)
    return None


def _recovery(trace: Trace, since: int, until: int) -> Recovery | None:
    places = list(_between(trace, "session.recover", since, until))
    told = trace.attributes(places)
    places = [place for place in places if "vizdist.resumed_step" in told.get(place, {})]
    if not places:
        return None
    own: Spans = trace.all.take(np.array(places))
    lost, resumed = (
        tuple(sorted({int(told[place].get(f"vizdist.{name}_step", 0)) for place in places}))
        for name in ("lost", "resumed")
    )
    took = int(own.end.max() - since)
    return Recovery(tuple(own.task.tolist()), lost, resumed, took, tuple(own.span.tolist()))


def _slowed(trace: Trace, task: str, since: int) -> Slowed | None:
    """The steps of the task itself; of one that leads none those of all clients."""
    whole = [step for step in trace.steps if step.is_whole]
    own = [step for step in whole if step.task == task] or whole
    after = [step for step in own if step.start >= since]
    if not after:
        return None
    earlier = [step.duration for step in own if step.end <= since]
    return Slowed(
        clients=tuple(dict.fromkeys(step.task for step in own)),
        before=median_of(earlier) if earlier else None,
        after=median_of([step.duration for step in after]),
        proof=median_step(after),
    )
