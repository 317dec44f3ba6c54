"""What the length of a step was made of, what nearly was, and what a change would have saved."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vizdist.analysis.critical_path import CriticalPath
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.analysis.path_stretches import Stretch
from vizdist.analysis.typical_step import TypicalStep
from vizdist.analysis.what_if import Change, Kind, WhatIf, changes_of, what_if_text
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration, percentages
from vizdist.store.details import hex_id
from vizdist.store.trace import Trace

LONGEST, NEXT, TRIED = 12, 10, 3
CHANGED = ("compute", "update", "transfer", "rpc")  #: parts that an op, or a link, answers for


@dataclass(frozen=True, slots=True)
class OnPath:
    """ns of the path that one thing has in all, in `pieces` spans; the runtime has no name."""

    name: str
    task: str
    kind: str
    part: str
    took_ns: int
    pieces: int
    span: str


@dataclass(frozen=True, slots=True)
class Slack:
    """An op that could end so much later before the step did."""

    name: str
    task: str
    slack_ns: int
    took_ns: int
    span: str


@dataclass(frozen=True, slots=True)
class Tried:
    """How long the step would take if this op were free, this link twice as fast."""

    kind: Kind
    name: str
    would_take_ns: int
    saved_ns: int


@dataclass(frozen=True, slots=True)
class Path:
    """`path` by length, `next` by slack; `what_if` of the three longest that can be changed."""

    took_ns: int
    path: Sequence[OnPath]
    next: Sequence[Slack]
    what_if: Sequence[Tried]


def find(one: OneStep) -> Path | None:
    """None where ops were not recorded."""
    found = TypicalStep(one.trace, one.step)
    if found.path is None:
        return None
    rows = [_on_path(stretch) for stretch in found.stretches]
    return Path(one.step.duration, rows, _next(one.trace, found.path), _tried(one.trace, found))


def _on_path(one: Stretch) -> OnPath:
    span = hex_id(one.spans[0])
    return OnPath(one.name, one.task, one.kind, one.part, one.total, len(one.spans), span)


def _next(trace: Trace, path: CriticalPath) -> list[Slack]:
    """Of an op that ran several times, the run that could have ended least later."""
    places = np.array(list(path.slack), np.int64)
    slack = np.array(list(path.slack.values()), np.int64)
    spans = trace.all.take(places)
    order = np.argsort(slack, kind="stable")
    order = order[(spans.is_kind("op.run") & (slack > 0) & (spans.duration > 0))[order]]
    found: dict[tuple[str, str], int] = {}
    for name, task, at in zip(
        spans.text("name")[order].tolist(), spans.task[order].tolist(), order.tolist(), strict=True
    ):
        found.setdefault((name, task), at)
    return [
        Slack(*node, int(slack[at]), int(spans.duration[at]), hex_id(int(spans.span[at])))
        for node, at in list(found.items())[:NEXT]
    ]


def _tried(trace: Trace, found: TypicalStep) -> list[Tried]:
    spans = np.array([one.spans[0] for one in found.stretches if one.part in CHANGED], np.uint64)
    changes = (change for at in trace.places(spans) for change in changes_of(trace, int(at))[:1])
    tried = (found.what_if(change) for change in list(dict.fromkeys(changes))[:TRIED])
    return [Tried(*one.change, one.would_take, one.saved) for one in tried if one is not None]


def tell(found: Path, lang: Lang) -> Iterator[str]:
    shares = percentages([float(row.took_ns) for row in found.path])
    rows = [_cells(row, share, lang) for row, share in zip(found.path, shares, strict=True)]
    columns = ("name", "task", "part", "took", "share")
    yield from table(columns, rows[:LONGEST], lang)
    if rest := found.path[LONGEST:]:
        values = {"count": len(rest), "took": str(duration(sum(row.took_ns for row in rest)))}
        yield f"  {t('mechanisms.critical_path.rest', lang, **values)}"
    if found.next:
        yield f"  {t('mechanisms.critical_path.next', lang)}"
        nearly = ((o.name, o.task, duration(o.slack_ns), duration(o.took_ns)) for o in found.next)
        yield from table(("op", "task", "slack", "took"), nearly, lang)
    for one in found.what_if:
        changed = WhatIf(Change(one.kind, one.name), found.took_ns, one.would_take_ns)
        yield f"  {what_if_text(changed, lang)}"


def _cells(row: OnPath, share: float, lang: Lang) -> Sequence[object]:
    name = row.name or t("mechanisms.critical_path.runtime", lang)
    part = t(f"shell.class.{row.part}", lang)
    return name, row.task, part, duration(row.took_ns), f"{share:.1f} %"
