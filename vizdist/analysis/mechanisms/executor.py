"""What each device did in a step: how many nodes, how long they queued and ran, most at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.bytes_moved import device_title
from vizdist.analysis.mechanisms.grouping import grouped
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.analysis.step_split import is_wait, op_mask
from vizdist.i18n import Lang
from vizdist.i18n.units import duration
from vizdist.store.details import hex_id
from vizdist.store.segments import Array
from vizdist.store.spans import Spans


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """Times in ns; queueing is from when a node had its inputs until it began.

    What an op waits at a queue is no running. `nodes` ran, `dead` were passed by; `most` ran at
    once. `longest` is the node that ran longest, `span` its span.
    """

    task: str
    device: str
    nodes: int
    dead: int
    most: int
    run_ns: int
    queueing_ns: int
    queueing_p95_ns: int
    longest: str
    longest_ns: int
    span: str


@dataclass(frozen=True, slots=True)
class Executor:
    devices: Sequence[DeviceWork]


def find(one: OneStep) -> Executor | None:
    """None where ops were not recorded."""
    ops = one.of_kind("op.run")
    if not len(ops):
        return None
    devices = grouped(ops, ops.task, ops.text("device"))
    return Executor([_work(own, *key) for key, own in devices])


def _work(ops: Spans, task: str, device: str) -> DeviceWork:
    is_dead = (ops.flags & Flag.DEAD) != 0
    alive = ops.take(~is_dead)
    ran = alive.take(~op_mask(alive, is_wait))
    timed = ran.take(ran.ready > 0)
    queueing = timed.start - timed.ready
    at = int(ran.duration.argmax()) if len(ran) else -1
    return DeviceWork(
        task=task,
        device=device,
        nodes=len(alive),
        dead=int(is_dead.sum()),
        most=most_at_once(ran.start, ran.end),
        run_ns=int(ran.duration.sum()),
        queueing_ns=int(queueing.sum()),
        queueing_p95_ns=int(np.percentile(queueing, 95)) if len(queueing) else 0,
        longest=str(ran.text("name")[at]) if len(ran) else "",
        longest_ns=int(ran.duration[at]) if len(ran) else 0,
        span=hex_id(int(ran.span[at])) if len(ran) else "",
    )


def most_at_once(starts: Array, ends: Array) -> int:
    """How many intervals overlap at most; one that ends where another begins does not."""
    if not len(starts):
        return 0
    moments = np.concatenate((ends, starts))
    change = np.repeat([-1, 1], [len(ends), len(starts)])
    order = np.lexsort((change, moments))
    return max(1, int(np.cumsum(change[order]).max()))


def tell(found: Executor, lang: Lang) -> Iterator[str]:
    columns = ("device", "nodes", "dead", "most", "run", "queueing", "queueing95", "longest")
    yield from table(columns, map(_cells, found.devices), lang)


def _cells(work: DeviceWork) -> Sequence[object]:
    return (
        device_title(work.device) if work.device else work.task,
        work.nodes,
        work.dead,
        work.most,
        duration(work.run_ns),
        duration(work.queueing_ns),
        duration(work.queueing_p95_ns),
        f"{work.longest} {duration(work.longest_ns)}",
    )
