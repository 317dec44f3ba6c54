"""The loops of a step: frames and their iterations, how many at once, and what was passed by."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracer.model.graph import CONTROL_LOOP
from tracer.model.trace_folder import Flag
from vizdist.analysis.bytes_moved import device_title
from vizdist.analysis.mechanisms.executor import most_at_once
from vizdist.analysis.mechanisms.grouping import grouped
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import listed, short_id, table
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration
from vizdist.store.spans import Spans

NO_PLACES = np.empty(0, np.int64)
MACHINE = ("Merge", "Switch", "NextIteration")  #: what they do in each iteration


@dataclass(frozen=True, slots=True)
class Frame:
    """One execution of a loop on one device; `most` of its iterations were in flight at once.

    `deferred` of them had to wait for another to end. `machine` counts by op what ran of the nodes
    that only follow the loop there.
    """

    frame: str
    frame_id: str
    device: str
    iterations: int
    most: int
    deferred: int
    dead: int
    took_ns: int
    machine: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """`dead` counts the nodes that were passed by on each device, inside loops and outside.

    `broadcasts` are predicates of loops that were sent to devices that follow.
    """

    frames: Sequence[Frame]
    dead: Mapping[str, int]
    broadcasts: int


def find(one: OneStep) -> ControlFlow | None:
    """None where no loop ran and nothing was dead."""
    ops = one.of_kind("op.run")
    dead = ops.take((ops.flags & Flag.DEAD) != 0)
    frames = list(_frames(one))
    if not frames and not len(dead):
        return None
    by_device = dict(sorted(Counter(dead.text("device").tolist()).items()))
    return ControlFlow(frames, by_device, _broadcasts(one))


def _broadcasts(one: OneStep) -> int:
    recvs = one.attributes(one.spans.is_kind("rendezvous.recv") & (one.spans.frame_id != 0))
    return sum(recv.get("vizdist.edge.kind") == "loop" for recv in recvs)


def _frames(one: OneStep) -> Iterator[Frame]:
    """By when they began."""
    runs = one.of_kind("iteration.run", "frame.run")
    if not len(runs):
        return
    runs = runs.take(runs.start.argsort(kind="stable"))
    ops = one.of_kind("op.run")
    ops = ops.take(ops.frame_id != 0)
    nodes = dict(grouped(ops, ops.frame_id, ops.text("device")))
    own = grouped(runs, runs.frame_id, runs.text("device"), runs.text("frame"))
    for (frame_id, device, frame), spans in sorted(own, key=lambda each: int(each[1].start[0])):
        yield _frame(frame, device, spans, nodes.get((frame_id, device), ops.take(NO_PLACES)))


def _frame(frame: str, device: str, own: Spans, nodes: Spans) -> Frame:
    """`own` are its iterations, and its own span where it has one."""
    iterations = own.take(own.is_kind("iteration.run"))
    frames = own.take(own.is_kind("frame.run"))
    whole = frames if len(frames) else iterations
    follows = [name.startswith(CONTROL_LOOP) for name in nodes.text("name").tolist()]
    machine = Counter(nodes.text("op")[np.array(follows, np.bool_)].tolist())
    return Frame(
        frame=frame,
        frame_id=str(int(own.frame_id[0])),
        device=device,
        iterations=len(set(iterations.iteration.tolist())),
        most=most_at_once(iterations.start, iterations.end),
        deferred=int(((iterations.flags & Flag.DEFERRED) != 0).sum()),
        dead=int(((nodes.flags & Flag.DEAD) != 0).sum()),
        took_ns=int(whole.end.max() - whole.start.min()),
        machine={op: machine[op] for op in MACHINE if machine[op]},
    )


def tell(found: ControlFlow, lang: Lang) -> Iterator[str]:
    columns = ("frame", "device", "iterations", "most", "deferred", "dead", "took", "machine")
    if found.frames:
        yield from table(columns, (_cells(frame, lang) for frame in found.frames), lang)
    if found.broadcasts:
        yield f"  {t('mechanisms.control_flow.broadcasts', lang, count=found.broadcasts)}"
    for device, count in found.dead.items():
        where = device_title(device)
        yield f"  {t('mechanisms.control_flow.dead', lang, device=where, count=count)}"


def _cells(frame: Frame, lang: Lang) -> Sequence[object]:
    machine = listed((f"{count} {op}" for op, count in frame.machine.items()), lang)
    took = duration(frame.took_ns)
    return (
        f"{frame.frame} {short_id(int(frame.frame_id))}",
        device_title(frame.device),
        frame.iterations,
        frame.most,
        frame.deferred,
        frame.dead,
        took,
        machine,
    )
