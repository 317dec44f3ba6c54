"""Which spans a selection means: what every view lights when one thing is chosen in any of them."""

from typing import NamedTuple

import numpy as np

from vizdist.analysis.bytes_moved import device_title, task_of_device
from vizdist.analysis.scopes import Scope, parse
from vizdist.analysis.selection import Selection
from vizdist.store.problems import TraceError
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace

SPANS = ","  #: between the ids of a selected stall: its cause, and what ran next
MOST = 256  #: more spans than these say nothing when lit at once

_NONE = np.empty(0, np.int64)


class Lit(NamedTuple):
    """Places in the trace's table: selected spans, and the other ends of their links.

    Selected ones come worker by worker, as the steps of one number do, then by start.
    """

    selected: Array
    linked: Array


def lit_by(trace: Trace, selection: Selection | None, step: int | None) -> Lit:
    """The spans of a selection in a step; those of the whole run where the step has none."""
    selected = _selected(trace, selection, step) if selection else _NONE
    ids = trace.all.span[selected]
    ends = {end for link in trace.links(ids.tolist()) for end in (link.source, link.target)}
    linked = trace.places(np.array(sorted(ends - set(ids.tolist())), np.uint64))
    return Lit(selected, linked[linked >= 0][:MOST])


def _selected(trace: Trace, selection: Selection, step: int | None) -> Array:
    kind, name = selection["type"], selection["id"]
    if kind in ("span", "rpc"):
        try:
            return np.array([trace.place(name)])
        except TraceError:
            return _NONE
    if kind == "stall":
        places = places_of(trace, name)
        return places[places >= 0]
    if kind == "key":
        mask = _has_word(trace.all, "key", {name})
    elif kind == "device":
        mask = _on_device(trace, name)
    elif kind == "link":
        mask = on_link(trace.all, name)
    elif scope := parse(name):
        mask = _in_scope(trace, scope)
    elif kind in ("node", "edge"):
        mask = _has_name(trace.all, name.split("→") if kind == "edge" else [name])
    else:
        return _NONE
    inside = mask & (trace.all.step == step) if step is not None else mask
    places = np.flatnonzero(inside if inside.any() else mask)
    spans = trace.all.take(places)
    return places[np.lexsort((spans.start, _workers(trace, spans, step)))][:MOST]


def places_of(trace: Trace, ids: str) -> Array:
    """Of each span that an id of a selection names, -1 for one that the trace does not hold."""
    return trace.places(np.array([number_of(one) for one in ids.split(SPANS)], np.uint64))


def number_of(text: str) -> int:
    """Of a span's id, 0 for what is none."""
    try:
        return int(text, 16)
    except ValueError:
        return 0


def _on_device(trace: Trace, name: str) -> Array:
    """A mask of the ops that ran on a device as `worker:0 CPU:0` names it, or on a whole task."""
    task, _, device = name.partition(" ")
    rows = [row.task == task and device in row.lane.split(" ") for row in trace.rows]
    if not device:
        rows = [row.task == task for row in trace.rows]
    return np.array(rows, np.bool_)[trace.all.row] & trace.all.is_kind("op.run")


def on_link(spans: Spans, name: str) -> Array:
    """A mask of what went from one device to another: `ps:0→worker:0 CPU:1`, by task or device."""
    ends = tuple(name.split("→"))
    devices: dict[str, tuple[str, ...]] = {}

    def is_at(device: str, end: str) -> bool:
        if device not in devices:
            devices[device] = task_of_device(device), device_title(device)
        return end in devices[device]

    def is_on(key: str) -> bool:
        parts = key.split(";")
        return len(parts) > 3 and len(ends) == 2 and all(map(is_at, (parts[0], parts[2]), ends))

    return _has_word(spans, "key", {key for key in spans.words["key"] if is_on(key)})


def _in_scope(trace: Trace, scope: Scope) -> Array:
    """A mask of the ops of a scope that the graph shows as one."""
    words = trace.all.words
    names = {word for word in words["name"] if scope.holds(word)}
    ops = {word for word in words["op"] if scope.is_of_family(word)}
    named = _has_word(trace.all, "name", names) & _has_word(trace.all, "op", ops)
    return named & _on_device(trace, scope.where)


def _workers(trace: Trace, spans: Spans, step: int | None) -> Array:
    """Which of the requests with this step's number a span is part of."""
    found = np.zeros(len(spans), np.int64)
    requests = [one.trace_lo for one in trace.steps if one.number == step]
    for place, request in enumerate(requests):
        found[spans.trace_lo == np.uint64(request)] = place
    return found


def _has_word(spans: Spans, column: str, words: set[str]) -> Array:
    codes = [code for code, word in enumerate(spans.words[column]) if word in words]
    return np.isin(spans.codes(column), codes)


def _has_name(spans: Spans, names: list[str]) -> Array:
    """Spans of these nodes; where a name is no node's, of all nodes in that scope."""
    known = set(spans.words["name"])
    wanted = set(names) & known
    if not wanted:
        scopes = tuple(f"{name}/" for name in names if name)
        wanted = {word for word in known if scopes and word.startswith(scopes)}
    return _has_word(spans, "name", wanted)
