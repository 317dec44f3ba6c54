"""How long a step would take if an op took no time, or a link or a device were twice as fast.

The step is run again on what it awaited (see `step_events`): every thread keeps its order, and what
is not changed takes as long as it did.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np

from vizdist.analysis.bytes_moved import device_title
from vizdist.analysis.critical_path import Piece
from vizdist.analysis.step_events import BEGIN, END, MID, StepEvents, step_events
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration
from vizdist.store.segments import Array
from vizdist.store.trace import StepInfo, Trace

Kind = Literal["op", "link", "device"]


class Change(NamedTuple):
    """`name` is a node's, a device's full name, or of a link `source→target`, two tasks."""

    kind: Kind
    name: str


class WhatIf(NamedTuple):
    """What the step took and would take, ns."""

    change: Change
    took: int
    would_take: int

    @property
    def saved(self) -> int:
        return self.took - self.would_take


def what_if(trace: Trace, step: StepInfo, change: Change) -> WhatIf | None:
    """None where the step has no ops, or nothing in it is changed by that."""
    events = step_events(trace, step)
    return None if events is None else what_if_in(events, change)


def what_if_in(events: StepEvents, change: Change) -> WhatIf | None:
    instants, share = _AFFECTED[change.kind](events, change.name)
    if not len(instants):
        return None
    durations = events.order.durations.copy()
    durations[instants] = durations[instants] // 2 if share else 0
    ends = events.order.ends_with(durations)
    return WhatIf(change, int(events.times[events.last]), int(ends[events.last]))


def saved_without(trace: Trace, step: StepInfo, piece: Piece) -> int:
    """ns by which the step would end sooner if what took a piece of its order took no time."""
    events = step_events(trace, step)
    if events is None:
        return 0
    durations = events.order.durations.copy()
    at = np.flatnonzero(np.append(events.places, -1)[events.span] == piece.place)
    ends = events.times[at] + step.start
    durations[at[(ends > piece.start) & (ends - durations[at] < piece.end)]] = 0
    return int(events.times[events.last] - events.order.ends_with(durations)[events.last])


_HALF, _NOTHING = True, False
_Affected = tuple[Array, bool]


def _op(events: StepEvents, name: str) -> _Affected:
    """All its runs, on a GPU also its launches."""
    spans = events.spans
    is_meant = spans.is_kind("op.run", "op.launch") & spans.has_word("name", name)
    return events.instant[END][is_meant], _NOTHING


def _device(events: StepEvents, name: str) -> _Affected:
    spans = events.spans
    is_meant = spans.is_kind("op.run") & spans.has_word("device", name)
    return events.instant[END][is_meant], _HALF


def _link(events: StepEvents, name: str) -> _Affected:
    """Messages one way: values and answers, and what asks for values and calls in return."""
    source, _, target = name.partition("→")
    spans = events.spans
    outward = _joins(events, events.sender, source, target)
    backward = _joins(events, events.sender, target, source)
    calls = spans.is_kind("rpc.server") & _joins(events, events.parent, source, target)
    answers = spans.is_kind("rpc.server") & _joins(events, events.parent, target, source)
    instants = (
        events.instant[END][outward],
        events.instant[MID][backward],
        events.instant[BEGIN][calls],
        events.instant[END][events.parent[answers]],
    )
    return np.concatenate(instants), _HALF


def _joins(events: StepEvents, other: Array, source: str, target: str) -> Array:
    """Spans of the target task whose other end is one of the source task."""
    task = events.spans.task
    mask: Array = (other >= 0) & (task[other] == source) & (task == target)
    return mask


_AFFECTED: Mapping[Kind, Callable[[StepEvents, str], _Affected]] = {
    "op": _op,
    "link": _link,
    "device": _device,
}


def changes_of(trace: Trace, place: int) -> tuple[Change, ...]:
    """What may be tried with a span: of an op itself and its device, of a message its link."""
    span = trace.all.take(np.array([place]))
    kind = str(span.text("kind")[0])
    if kind in ("op.run", "op.launch"):
        name, device = str(span.text("name")[0]), str(span.text("device")[0])
        return Change("op", name), *([Change("device", device)] if kind == "op.run" else [])
    ends = [(link.source, link.target) for link in trace.links([int(span.span[0])])]
    places = trace.places(np.array(ends, np.uint64).reshape(-1)).reshape(-1, 2)
    source, target = next((pair for pair in places.tolist() if place in pair), (-1, -1))
    if source < 0 or target < 0 or kind not in _MESSAGES:
        return ()
    tasks = [trace.rows[int(trace.all.row[end])].task for end in (source, target)]
    asked = tasks if kind != "rpc.client" else tasks[::-1]  # on a path it is the answer that counts
    return (Change("link", "→".join(asked)),)


_MESSAGES = ("rendezvous.recv", "rendezvous.send", "rpc.client", "rpc.server")


def what_if_text(found: WhatIf, lang: Lang) -> str:
    """As a sentence."""
    key = "shorter" if found.saved > 0 else "same"
    values = {
        "name": found.change.name.replace("→", " → "),
        "would": str(duration(found.would_take)),
        "saved": str(duration(found.saved)),
    }
    if found.change.kind == "device":
        values["name"] = device_title(found.change.name)
    return t(f"what_if.{found.change.kind}.{key}", lang, **values)
