"""Whether every send of a step met its recv, and who waited for a value that never came."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration
from vizdist.store.details import hex_id
from vizdist.store.spans import Spans


@dataclass(frozen=True, slots=True)
class Alone:
    """A send or recv without its other end: where, under which key, since when in the step."""

    side: str  #: send or recv
    task: str
    node: str
    key: str
    since_ns: int
    waited_ns: int
    span: str


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
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for task, node, key, start, end, span in rows:
        waited = end - start if side == "recv" else one.step.end - end
        yield Alone(side, task, node, key, start - one.step.start, waited, hex_id(span))


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
