"""What failed in a step, in the order in which it came to an end: the cause before what follows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration
from vizdist.store.details import hex_id


@dataclass(frozen=True, slots=True)
class Failure:
    """A span that failed, or never ended; `after_ns` counts from the step's start."""

    task: str
    kind: str
    name: str
    after_ns: int
    is_unfinished: bool
    message: str
    span: str


@dataclass(frozen=True, slots=True)
class Failures:
    failures: Sequence[Failure]


def find(one: OneStep) -> Failures | None:
    """None where nothing failed and everything ended."""
    places = one.places[(one.spans.flags & (Flag.ERROR | Flag.UNFINISHED)) != 0]
    if not len(places):
        return None
    spans = one.trace.all.take(places)
    order = np.lexsort((~spans.is_kind("op.run"), spans.end))
    return Failures([_failure(one, int(places[at])) for at in order])


def _failure(one: OneStep, place: int) -> Failure:
    detail = one.trace.span(int(one.trace.all.span[place]))
    return Failure(
        task=detail.task,
        kind=detail.kind,
        name=detail.name,
        after_ns=detail.end - one.step.start,
        is_unfinished="unfinished" in detail.flags,
        message=detail.status,
        span=hex_id(int(one.trace.all.span[place])),
    )


def tell(found: Failures, lang: Lang) -> Iterator[str]:
    columns = ("after", "task", "kind", "name", "error")
    yield from table(columns, (_cells(each, lang) for each in found.failures), lang)


def _cells(each: Failure, lang: Lang) -> Sequence[object]:
    said = t("mechanisms.failures.unfinished", lang) if each.is_unfinished else each.message
    line = (said.splitlines() or [""])[0]
    return duration(each.after_ns), each.task, each.kind, each.name, line[:120]
