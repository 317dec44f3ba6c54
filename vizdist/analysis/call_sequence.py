"""The calls of one client request in the order of time: who called whom, and how long it was held.

Times are ns from the step's start; calls that follow one another closely are one bundle.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.keys import tensor_of_key
from vizdist.analysis.recv_parts import recv_parts
from vizdist.store.details import hex_id
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

CLIENT = "client"  #: the lifeline of whoever asks for the step
UNKNOWN = -1  #: of a time: it was not recorded
RECV = "RecvTensor"
RUN_STEP = "RunStep"
CLOSE = 0.04  #: of the step: calls of one kind that are nearer to each other are told as one
FEW = 24  #: bundles; where there are more, all calls of one kind are one
_OF_GRAPHS = "RegisterGraph"
_PEER = "vizdist.peer"


@dataclass(frozen=True, slots=True)
class Call:
    """One call. It was `sent`, came there (`served`), was answered there, and was over (`done`).

    A recv_tensor is held at its server until its value `exists`. Nobody waits for the answer of a
    call that `is_notice`.
    """

    method: str
    source: str
    target: str
    sent: int
    served: int
    exists: int
    answered: int
    done: int
    bytes: int
    tensor: str
    key: str
    span: str
    is_notice: bool
    is_dead: bool
    is_control: bool
    is_deferred: bool
    is_failed: bool
    is_unfinished: bool

    @property
    def is_value(self) -> bool:
        is_lost = self.is_failed or self.is_unfinished
        return self.method == RECV and not (self.is_dead or self.is_control or is_lost)


@dataclass(frozen=True, slots=True)
class Bundle:
    """Calls of one method from one task to another, each soon after the one before."""

    calls: Sequence[Call]

    @property
    def bytes(self) -> int:
        return sum(call.bytes for call in self.calls)


@dataclass(frozen=True, slots=True)
class CallSequence:
    """`master` is the task that ran the step; `lifelines` are client, master, then the others.

    Where `is_local` the client is a part of the master's process, and no call is between them.
    """

    step: StepInfo
    master: str
    is_local: bool
    lifelines: Sequence[str]
    bundles: Sequence[Bundle]

    @property
    def calls(self) -> Sequence[Call]:
        return [call for bundle in self.bundles for call in bundle.calls]


def call_sequence(trace: Trace, step: StepInfo) -> CallSequence | None:
    """None where no call was recorded, as in a run of one process."""
    calls = sorted(_calls(trace, step), key=lambda call: call.sent)
    if not calls:
        return None
    root = next((call for call in calls if call.method == RUN_STEP), None)
    master = root.target if root else step.task
    ends = {end for call in calls for end in (call.source, call.target)} - {CLIENT, master, ""}
    rank = {task: place for place, task in enumerate(trace.tasks)}
    others = sorted(ends, key=lambda task: rank.get(task, len(rank)))
    lifelines = [CLIENT, master, *others]
    return CallSequence(step, master, root is None, lifelines, bundled(calls, step.duration))


def bundled(calls: Sequence[Call], step_ns: int) -> list[Bundle]:
    """Calls in order of time, joined where they are alike and near."""
    bundles = list(_bundles(calls, CLOSE * step_ns))
    if len(bundles) > FEW:
        bundles = list(_bundles(calls, step_ns + 1))
    return sorted(bundles, key=lambda bundle: bundle.calls[0].sent)


def _bundles(calls: Sequence[Call], near_ns: float) -> Iterator[Bundle]:
    def alike(call: Call) -> tuple[str, str, str]:
        return call.method, call.source, call.target

    for _, same in groupby(sorted(calls, key=alike), alike):  # still by time, as sorting is stable
        held: list[Call] = []
        for call in same:
            if held and call.sent - held[-1].sent > near_ns:
                yield Bundle(held)
                held = []
            held.append(call)
        yield Bundle(held)


def _calls(trace: Trace, step: StepInfo) -> Iterator[Call]:
    spans = trace.all.take(own := trace.step_places(step))
    own = own[spans.is_kind("rpc.client")]
    places = np.concatenate((own, _registering(trace, step, own)))
    calls = trace.all.take(places)
    served = trace.served_by(calls.span)
    there = trace.all.take(np.maximum(served, 0))
    targets = np.where(served >= 0, there.task, "")
    _fill_targets(trace, places, targets)
    is_client = _is_client(step, calls)
    columns = (
        calls.text("name"), np.where(is_client, CLIENT, calls.task), targets,
        *_times(trace, step, spans, calls),
        calls.bytes, calls.text("key"), calls.span,
        calls.flags | _flags(there, served) | _control(calls, spans),
    )  # fmt: skip
    for cells in zip(*(column.tolist() for column in columns), strict=True):
        yield _call(*cells)


def _call(
    method: str, source: str, target: str, sent: int, served: int, exists: int, answered: int,
    done: int, num_bytes: int, key: str, span: int, flags: int,
) -> Call:  # fmt: skip
    is_open = bool(flags & (Flag.ERROR | Flag.UNFINISHED))
    return Call(
        method=method,
        source=source,
        target=target,
        sent=sent,
        served=served,
        exists=exists,
        answered=answered,
        done=done,
        bytes=num_bytes,
        tensor=tensor_of_key(key),
        key=key,
        span=hex_id(span),
        is_notice=done == sent and not is_open,
        is_dead=bool(flags & Flag.DEAD),
        is_control=bool(flags & Flag.CONTROL),
        is_deferred=bool(flags & Flag.DEFERRED),
        is_failed=bool(flags & Flag.ERROR),
        is_unfinished=bool(flags & Flag.UNFINISHED),
    )


def _times(trace: Trace, step: StepInfo, spans: Spans, calls: Spans) -> tuple[Array, ...]:
    """Sent, served, exists, answered, done; where nobody is known to serve, UNKNOWN.

    The value of a recv_tensor exists when its recv among `spans` says so.
    """
    place, begin = trace.served_by(calls.span), step.start
    known, there = place >= 0, trace.all.take(np.maximum(place, 0))
    parts = recv_parts(trace, spans)
    order = np.argsort(parts.recvs.span)
    at = np.searchsorted(parts.recvs.span[order], calls.parent).clip(max=max(0, len(order) - 1))
    let_go = there.start + there.wait
    if len(order):
        recv = order[at]
        let_go = np.where(parts.recvs.span[recv] == calls.parent, parts.exists[recv], let_go)
    instants = there.start, np.clip(let_go, there.start, there.end), there.end
    told = (np.where(known, instant - begin, UNKNOWN) for instant in instants)
    return calls.start - begin, *told, calls.end - begin


def _flags(there: Spans, served: Array) -> Array:
    """What only the serving side knows of a call."""
    flags: Array = np.where(served >= 0, there.flags & (Flag.DEFERRED | Flag.DEAD), 0)
    return flags


def _control(calls: Spans, spans: Spans) -> Array:
    """What only the recv of a step knows: that its key carries no value."""
    signals = spans.is_kind("rendezvous.recv") & ((spans.flags & Flag.CONTROL) != 0)
    is_signal = np.isin(calls.codes("key"), spans.codes("key")[signals])
    flags: Array = np.where(is_signal, Flag.CONTROL, 0)
    return flags


def _registering(trace: Trace, step: StepInfo, own: Array) -> Array:
    """Calls that made a graph ready while this step waited for it; they are outside every step."""
    spans = trace.all
    inside = (spans.start >= step.start) & (spans.start < step.end) & (spans.step == 0)
    found = np.flatnonzero(
        inside & spans.is_kind("rpc.client") & spans.has_word("name", _OF_GRAPHS)
    )
    masters = set(spans.row[own].tolist())
    tasks = {trace.rows[row].task for row in masters} | {step.task}
    here = [trace.rows[row].task in tasks for row in spans.row[found].tolist()]
    return found[np.array(here, np.bool_)]


def _is_client(step: StepInfo, calls: Spans) -> Array:
    """Whether a call is the client's own: where a master is asked, all of that task's are."""
    asks = calls.has_word("name", RUN_STEP) & (calls.task == step.task)
    mine: Array = (calls.task == step.task) & bool(asks.any())
    return mine


def _fill_targets(trace: Trace, places: Array, targets: Array) -> None:
    """Who was called where the serving side left no span: the call's own word for it."""
    unknown = np.flatnonzero(targets == "").tolist()
    said = trace.attributes(int(places[at]) for at in unknown)
    for at in unknown:
        targets[at] = str(said.get(int(places[at]), {}).get(_PEER, ""))
