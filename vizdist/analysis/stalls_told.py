"""What is said of a stall: `key` names a sentence of the timeline's words, which takes `values`."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tracer.model.schema import SPAN_KINDS
from vizdist.analysis.collective_pieces import awaited, name_of
from vizdist.analysis.critical_path import Piece
from vizdist.analysis.keys import is_rank, title_of
from vizdist.analysis.slow_step import EXPLAINS, REGISTRATION
from vizdist.analysis.stalls import NOTHING_LEFT, Stall, device_of
from vizdist.i18n.units import duration, figures
from vizdist.store.trace import Trace

_RANKS = [*filter(is_rank, SPAN_KINDS)]
#: by the class of the cause and the kind of its span; "" is any other kind
_KEYS = {
    "compute": {"": "ran"},
    "update": {"": "ran"},
    "transfer": {
        "": "transfer",
        "rendezvous.send": "send",
        "copy.run": "copy",
        **dict.fromkeys(_RANKS, "pass"),
    },
    "rpc": {"": "called", "rpc.client": "call", "rendezvous.recv": "request"},
    "wait": {"": "lost", "op.run": "wait", **dict.fromkeys(_RANKS, "meet")},
    "queueing": {"": "queueing"},
    "other": {"": "other", **dict.fromkeys(REGISTRATION, "register")},
}
_CAUSES = sorted({key for kinds in _KEYS.values() for key in kinds.values()})
KEYS = ("nothing", "unknown", "pieces", *_CAUSES)


class Told(NamedTuple):
    key: str
    values: Mapping[str, str]


def told(trace: Trace, stall: Stall) -> Told:
    """The sentence of a stall; times as people write them.

    `pieces`: no one thing explains enough of it.
    """
    values = {"task": _where(trace, stall.row), "time": str(duration(stall.duration))}
    cause = stall.cause
    if cause is None or cause.place < 0:
        return Told("nothing" if stall.effect == NOTHING_LEFT else "unknown", values)
    kind = _word(trace, "kind", cause.place)
    key = _KEYS[cause.part].get(kind, _KEYS[cause.part][""])
    values["at"] = _where(trace, int(trace.all.row[cause.place]))
    values["name"] = name_of(trace, cause.place) if kind in _RANKS else _name(trace, cause)
    values["part"] = str(duration(cause.duration))
    if cause.duration < EXPLAINS * stall.duration:
        values["share"] = f"{figures(100 * cause.duration / stall.duration)} %"
        return Told("pieces", values)
    return Told(key, values | {"at": awaited(trace, cause.place)} if key == "meet" else values)


def _where(trace: Trace, number: int) -> str:
    """The task of a row, with its device where the task has several."""
    row = trace.rows[number]
    devices = {device_of(one) for one in trace.rows if one.task == row.task and ":" in one.lane}
    device = device_of(row)
    return f"{row.task} {device}" if len(devices) > 1 and device in devices else row.task


def _name(trace: Trace, cause: Piece) -> str:
    return title_of(_word(trace, "name", cause.place), _word(trace, "key", cause.place))


def _word(trace: Trace, column: str, place: int) -> str:
    return str(trace.all.take(np.array([place])).text(column)[0])
