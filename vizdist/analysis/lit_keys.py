"""Which mailboxes and calls a selection means."""

from typing import TypedDict

import numpy as np

from vizdist.analysis.lit import lit_by
from vizdist.analysis.selection import Selection
from vizdist.store.details import hex_id
from vizdist.store.trace import Trace


class LitKeys(TypedDict):
    """Keys, calls by their spans, pairs of devices, tensors by the node that makes them.

    `task` is the client whose step holds what is selected, "" where none does.
    """

    keys: list[str]
    spans: list[str]
    links: list[str]
    tensors: list[str]
    task: str


def lit_keys(trace: Trace, selection: Selection | None, number: int | None) -> LitKeys:
    """Of a step; a span leads to its own key and to those of its other ends."""
    lit = lit_by(trace, selection, number)
    places = np.concatenate((lit.selected, lit.linked))
    spans = trace.all.take(places)
    kind, name = (selection["type"], selection["id"]) if selection else ("", "")
    keys = {name} if kind == "key" else set(spans.text("key").tolist()) - {""}
    clients = {step.trace_lo: step.task for step in trace.steps if step.number == number}
    owner = int(trace.all.trace_lo[lit.selected[0]]) if len(lit.selected) else -1
    return {
        "keys": sorted(keys),
        "spans": list(map(hex_id, spans.span.tolist())),
        "links": [name] if kind == "link" else [],
        "tensors": [name] if kind == "node" else [],
        "task": clients.get(owner, ""),
    }
