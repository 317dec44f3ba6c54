"""What a selected thing is: the facts that the strip says of it."""

from dataclasses import dataclass

import numpy as np

from vizdist.analysis.bytes_moved import CROSSING
from vizdist.analysis.keys import tensor_of_key
from vizdist.analysis.lit import lit_by, on_link
from vizdist.analysis.selection import BY_SPANS, Selection
from vizdist.store.trace import Trace


@dataclass(frozen=True, slots=True)
class Described:
    """The first span of a selection; `start_ns` and `end_ns` count from the start of its step.

    `runs` is how many spans the selection means, `step` 0 outside steps.
    """

    title: str
    kind: str
    op: str
    task: str
    step: int
    start_ns: int
    end_ns: int
    bytes: int
    runs: int


def describe(trace: Trace, selection: Selection, step: int | None) -> Described | None:
    """The selected thing in a step, or None when the run does not hold it."""
    places = lit_by(trace, selection, step).selected
    if not len(places):
        return None
    if selection["type"] == "link":
        return _link(trace, selection["id"], int(trace.all.step[places[0]]))
    one = trace.all.take(np.array(places[:1]))
    kind, name = str(one.text("kind")[0]), str(one.text("name")[0])
    number = int(one.step[0])
    origin = _step_start(trace, number, int(one.trace_lo[0]))
    return Described(
        title=name or kind if selection["type"] in BY_SPANS else _title(selection),
        kind=kind,
        op=str(one.text("op")[0]),
        task=str(one.task[0]),
        step=number,
        start_ns=int(one.start[0]) - origin,
        end_ns=int(one.end[0]) - origin,
        bytes=int(one.bytes[0]),
        runs=len(places),
    )


def _link(trace: Trace, name: str, number: int) -> Described | None:
    """All that went from one device to another in a step, however much that is."""
    here = on_link(trace.all, name) & (trace.all.step == number)
    recvs = trace.all.take(here & trace.all.is_kind(*CROSSING))
    if not len(recvs):
        return None
    origin = _step_start(trace, number, int(recvs.trace_lo[0]))
    return Described(
        title=" → ".join(name.split("→")),
        kind="rendezvous.recv",
        op="",
        task="",
        step=number,
        start_ns=int(recvs.start.min()) - origin,
        end_ns=int(recvs.end.max()) - origin,
        bytes=int(recvs.bytes.sum()),
        runs=len(recvs),
    )


def _title(selection: Selection) -> str:
    """What an id says in few words: of a key its tensor."""
    return tensor_of_key(selection["id"]) if selection["type"] == "key" else selection["id"]


def _step_start(trace: Trace, number: int, trace_lo: int) -> int:
    """A step number is run once by every worker; the trace id says by which."""
    for info in trace.steps:
        if info.number == number and info.trace_lo == trace_lo:
            return info.start
    return trace.start
