"""Whether every send of a step met its recv, and who waited for a value that never came."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.bytes_moved import task_of_device
from vizdist.analysis.keys import key_of, tensor_title
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration
from vizdist.store.details import hex_id
from vizdist.store.spans import Spans

#: what became of the node that makes an awaited value, as far as its task recorded it
Fate = Literal["failed", "stopped", "unfinished", "ran", "never_ran", "unknown", "not_asked"]


@dataclass(frozen=True, slots=True)
class Alone:
    """A send or recv without its other end: where, under which key, since when in the step.

    `other` is the task at the other end and `maker` the node whose value the key carries; `fate`
    says why the value of a recv did not come; `stopped` is an op that ended with an error which is
    not its own.
    """

    side: str  #: send or recv
    task: str
    node: str
    key: str
    since_ns: int
    waited_ns: int
    span: str
    other: str = ""
    maker: str = ""
    fate: Fate = "unknown"


@dataclass(frozen=True, slots=True)
class Leftovers:
    """`sends` and `recvs` count those that were made; `alone` are those that did not meet."""

    sends: int
    recvs: int
    alone: Sequence[Alone]


def find(one: OneStep) -> Leftovers | None:
    """None where no send and no recv was recorded."""
    sends, recvs = one.of_kind("rendezvous.send"), one.of_kind("rendezvous.recv")
    if not len(sends) and not len(recvs):
        return None
    sends = sends.take((sends.flags & Flag.ERROR) == 0)
    left = sends.take(~np.isin(sends.span, recvs.link))
    waiting = recvs.take(~np.isin(recvs.link, sends.span) | (recvs.link == 0))
    alone = [*_alone(one, "send", left), *_alone(one, "recv", waiting)]
    return Leftovers(len(sends), len(recvs), sorted(alone, key=lambda each: each.since_ns))


def _alone(one: OneStep, side: str, spans: Spans) -> Iterator[Alone]:
    columns = (
        spans.task,
        spans.text("name"),
        spans.text("key"),
        spans.start,
        spans.end,
        spans.span,
    )
    ran = _ran(one) if side == "recv" and len(spans) else {}
    for task, node, key, start, end, span in zip(*(c.tolist() for c in columns), strict=True):
        waited = end - start if side == "recv" else one.step.end - end
        since = start - one.step.start
        yield Alone(side, task, node, key, since, waited, hex_id(span), *_other_end(ran, side, key))


_Ran = Mapping[tuple[str, str, int, int], int]  #: (task, node, frame, iteration) → its flags


def _ran(one: OneStep) -> _Ran:
    """Every op that a task began."""
    ops = one.of_kind("op.run")
    frames, rounds = ops.frame_id.tolist(), np.maximum(ops.iteration, 0).tolist()
    names = zip(ops.task.tolist(), ops.text("name").tolist(), frames, rounds, strict=True)
    return dict(zip(names, ops.flags.tolist(), strict=True))


def _other_end(ran: _Ran, side: str, text: str) -> tuple[str, str, Fate]:
    """(task, node that makes the value, what became of it)."""
    key = key_of(text)
    if not key.src_device:
        return "", text, "unknown"
    maker = tensor_title(key.edge_name).partition(":")[0]
    if side == "send":
        return task_of_device(key.dst_device), maker, "not_asked"
    source = task_of_device(key.src_device)
    return source, maker, _fate(ran, (source, maker, key.frame, key.iteration))


def _fate(ran: _Ran, op: tuple[str, str, int, int]) -> Fate:
    flags = ran.get(op)
    if flags is None:
        return "never_ran" if ran else "unknown"
    if flags & Flag.ERROR:
        return "failed"
    return "unfinished" if flags & Flag.UNFINISHED else "ran"


def tell(found: Leftovers, lang: Lang) -> Iterator[str]:
    values = {"sends": found.sends, "recvs": found.recvs, "count": len(found.alone)}
    key = "alone" if found.alone else "met"
    yield f"  {t(f'mechanisms.leftovers.{key}', lang, **values)}"
    if found.alone:
        columns = ("side", "task", "node", "since", "wait", "key")
        yield from table(columns, (_cells(each, lang) for each in found.alone), lang)


def _cells(each: Alone, lang: Lang) -> Sequence[object]:
    side = t(f"mechanisms.leftovers.{each.side}", lang)
    times = duration(each.since_ns), duration(each.waited_ns)
    return side, each.task, each.node, *times, each.key
