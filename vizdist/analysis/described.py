"""What a selected thing is: the facts that the strip says of it."""

from dataclasses import dataclass

import numpy as np

from vizdist.analysis.bytes_moved import tensor_of_key
from vizdist.analysis.lit import lit_by
from vizdist.analysis.selection import Selection
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
    one = trace.all.take(np.array(places[:1]))
    kind, name = str(one.text("kind")[0]), str(one.text("name")[0])
    number = int(one.step[0])
    origin = _step_start(trace, number, int(one.trace_lo[0]))
    return Described(
        title=name or kind if selection["type"] in ("span", "rpc") else _title(selection),
        kind=kind,
        op=str(one.text("op")[0]),
        task=str(one.task[0]),
        step=number,
        start_ns=int(one.start[0]) - origin,
        end_ns=int(one.end[0]) - origin,
        bytes=int(one.bytes[0]),
        runs=len(places),
    )


def _title(selection: Selection) -> str:
    """What an id says in few words: of a key its tensor, of a link its ends."""
    if selection["type"] == "key":
        return tensor_of_key(selection["id"])
    return (
        " → ".join(selection["id"].split("→")) if selection["type"] == "link" else selection["id"]
    )


def _step_start(trace: Trace, number: int, trace_lo: int) -> int:
    """A step number is run once by every worker; the trace id says by which."""
    for info in trace.steps:
        if info.number == number and info.trace_lo == trace_lo:
            return info.start
    return trace.start
