"""Of which class the own time of an instant is, in the words of `step_split`."""

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.recv_parts import never_came
from vizdist.analysis.step_events import BEGIN, END, MID, StepEvents
from vizdist.analysis.step_split import is_update, is_wait
from vizdist.store.segments import Array

#: by layer and kind; what is not here is `other`
_PARTS = {
    BEGIN: {"rpc.server": "rpc"},  # before a call is made no message travels
    MID: {
        "op.run": "queueing",
        "op.launch": "queueing",
        "rendezvous.send": "queueing",
        "rendezvous.recv": "rpc",
    },
    END: {
        "op.run": "compute",
        "rpc.client": "rpc",
        "rpc.server": "rpc",
        "rendezvous.send": "transfer",
        "rendezvous.recv": "transfer",
        "copy.run": "transfer",
    },
}


def parts_of(events: StepEvents, instants: Array) -> list[str]:
    """A class for each of these instants."""
    layers, owners = events.layer[instants].tolist(), events.span[instants]
    spans = events.spans.take(np.maximum(owners, 0))
    lost = never_came(spans.columns).tolist()
    columns = zip(
        layers,
        owners.tolist(),
        spans.text("kind").tolist(),
        spans.text("op").tolist(),
        spans.flags.tolist(),
        lost,
        strict=True,
    )
    return [_part(*cells) for cells in columns]


def _part(layer: int, owner: int, kind: str, op: str, flags: int, is_lost: bool) -> str:
    if owner < 0:
        return "other"
    part = _PARTS[layer].get(kind, "other")
    if part == "compute":
        return "update" if is_update(op) else "wait" if is_wait(op) else part
    if kind == "rendezvous.recv" and layer == END:
        return "other" if flags & Flag.CLIENT_EDGE else "wait" if is_lost else part
    return part
