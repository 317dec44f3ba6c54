"""Under which ids a step ran: its session on client, master and workers, its step, its graphs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vizdist.analysis.bytes_moved import device_title
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration
from vizdist.store.details import hex_id
from vizdist.store.trace import Trace

SIDES = {"session.create": "client", "session.master": "master", "session.worker": "worker"}


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the session: who made it, under which handle, in what time."""

    side: str
    task: str
    handle: str
    took_ns: int
    span: str


@dataclass(frozen=True, slots=True)
class Sessions:
    """`graphs` are the handles of the registered partitions by device.

    `step_id` is "" where the step ended before its client was told it.
    """

    handle: str
    step_id: str
    sides: Sequence[Side]
    graphs: Mapping[str, str]


def find(one: OneStep) -> Sessions | None:
    """None where the client's own span was not written."""
    roots = one.attributes(one.spans.is_kind("session.run"))
    if not roots:
        return None
    handle = str(roots[0].get("vizdist.session.handle", ""))
    runs = one.attributes(one.spans.is_kind("partition.run"))
    graphs = {
        str(run["vizdist.device"]): str(run["vizdist.graph.handle"])
        for run in runs
        if "vizdist.device" in run and "vizdist.graph.handle" in run
    }
    step_id = str(roots[0].get("vizdist.step.id", ""))
    return Sessions(handle, step_id, list(_sides(one.trace, handle)), dict(sorted(graphs.items())))


def _sides(trace: Trace, handle: str) -> Iterator[Side]:
    places = np.flatnonzero(trace.all.is_kind(*SIDES))
    found = trace.attributes(places.tolist())
    own = [p for p in places.tolist() if found.get(p, {}).get("vizdist.session.handle") == handle]
    spans = trace.all.take(np.array(own, np.int64))
    for at in spans.start.argsort(kind="stable").tolist():
        kind, task = str(spans.text("kind")[at]), str(spans.task[at])
        yield Side(SIDES[kind], task, handle, int(spans.duration[at]), hex_id(int(spans.span[at])))


def tell(found: Sessions, lang: Lang) -> Iterator[str]:
    values = {"handle": found.handle, "step_id": found.step_id}
    key = "ids" if found.step_id else "id"
    yield f"  {t(f'mechanisms.sessions.{key}', lang, **values)}"
    if found.sides:
        columns = ("side", "task", "handle", "took")
        yield from table(columns, (_cells(side, lang) for side in found.sides), lang)
    if found.graphs:
        rows = ((device_title(device), handle) for device, handle in found.graphs.items())
        yield from table(("device", "graph"), rows, lang)


def _cells(side: Side, lang: Lang) -> Sequence[object]:
    told = t(f"mechanisms.sessions.{side.side}", lang)
    return told, side.task, side.handle, duration(side.took_ns)
