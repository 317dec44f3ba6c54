"""What failed in a step: its one cause, and every span that failed, in the order of their ends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.faults import RootCause, faults
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration
from vizdist.store.details import hex_id
from vizdist.store.segments import Array

Role = Literal["root", "derived", ""]
CANCELLED = "cancelled"  #: in the message of what was stopped, whatever the cause


@dataclass(frozen=True, slots=True)
class Failure:
    """A span that failed, or never ended; `after_ns` counts from the step's start.

    `role`: the op whose error the run gave as its cause is the `root`; what only repeats that error
    or was cancelled is `derived`.
    """

    task: str
    kind: str
    name: str
    after_ns: int
    is_unfinished: bool
    message: str
    role: Role
    span: str


@dataclass(frozen=True, slots=True)
class Failures:
    """`cause` is why the run failed, where it failed in this step."""

    cause: RootCause | None
    failures: Sequence[Failure]


def find(one: OneStep) -> Failures | None:
    """None where nothing failed and everything ended."""
    places = one.places[(one.spans.flags & (Flag.ERROR | Flag.UNFINISHED)) != 0]
    if not len(places):
        return None
    told = faults(one.trace).cause
    cause = told if told is not None and told.step == one.step.number else None
    spans = one.trace.all.take(places)
    places = places[np.lexsort((~spans.is_kind("op.run"), spans.end))]
    return Failures(cause, list(_with_roles(_failures(one, places), cause)))


def _failures(one: OneStep, places: Array) -> list[Failure]:
    spans = one.trace.all.take(places)
    messages = one.trace.messages(places.tolist())
    rows = zip(
        places.tolist(),
        spans.task.tolist(),
        spans.text("kind").tolist(),
        spans.text("name").tolist(),
        (spans.end - one.step.start).tolist(),
        ((spans.flags & Flag.UNFINISHED) != 0).tolist(),
        spans.span.tolist(),
        strict=True,
    )
    return [
        Failure(task, kind, name, after_ns, is_unfinished, messages[place], "", hex_id(span))
        for place, task, kind, name, after_ns, is_unfinished, span in rows
    ]


def _with_roles(failures: Sequence[Failure], cause: RootCause | None) -> Iterator[Failure]:
    error = cause.error if cause else ""
    has_root = False
    for each in failures:
        if not error or error not in each.message:
            was_stopped = bool(error) and CANCELLED in each.message
            yield replace(each, role="derived") if was_stopped else each
        elif each.kind == "op.run" and not has_root:
            has_root = True
            yield replace(each, role="root")
        else:
            yield replace(each, role="derived")


def tell(found: Failures, lang: Lang) -> Iterator[str]:
    if found.cause is not None:
        yield f"  {t(f'analysis.cause.{found.cause.key}', lang, **found.cause.values)}"
    columns = ("after", "task", "kind", "name", "role", "error")
    yield from table(columns, (_cells(each, lang) for each in found.failures), lang)


def _cells(each: Failure, lang: Lang) -> Sequence[object]:
    role = t(f"mechanisms.failures.{each.role}", lang) if each.role else ""
    return duration(each.after_ns), each.task, each.kind, each.name, role, _error(each, lang)


def _error(each: Failure, lang: Lang) -> str:
    """Its first line; one that only repeats the cause says nothing new."""
    if each.is_unfinished:
        return t("mechanisms.failures.unfinished", lang)
    is_own = each.role != "derived" or CANCELLED in each.message
    lines = each.message.splitlines() if is_own else []
    return lines[0][:120] if lines else ""
