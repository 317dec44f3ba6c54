"""Lanes of the Strategy page: turns of replicas while the graph is built, devices in a step."""

from collections.abc import Sequence

from vizdist.analysis.replicas import Build, Turn, Work, names_of, spans_of
from vizdist.figures.call_lines import time_text
from vizdist.figures.lanes import Bar, Json, bar, lane, picture, work_bars
from vizdist.i18n import Lang, t
from vizdist.store.trace import StepInfo, Trace


def build_lanes(build: Build, lang: Lang) -> Json:
    """A lane a replica and one for merges; each turn hands the baton to the next."""
    begin, end = build.turns[0].start, max(turn.end for turn in build.turns)
    owners: list[int | None] = [*build.replicas, None]
    lanes = [
        lane(_title(owner, lang), _device(build, owner),
             [_turn(turn, begin, lang) for turn in build.turns if turn.replica == owner])
        for owner in owners
    ]  # fmt: skip
    batons = [
        [
            owners.index(one.replica),
            one.end - begin,
            owners.index(other.replica),
            other.start - begin,
        ]
        for one, other in zip(build.turns, build.turns[1:], strict=False)
        if one.replica != other.replica
    ]
    return picture(end - begin, lanes, batons=batons)


def _title(owner: int | None, lang: Lang) -> str:
    if owner is None:
        return t("strategy.build.merge", lang)
    return t("strategy.build.replica", lang, replica=owner)


def _device(build: Build, owner: int | None) -> str:
    return next((turn.device for turn in build.turns if turn.replica == owner), "")


def _turn(turn: Turn, begin: int, lang: Lang) -> Bar:
    name = "merged" if turn.replica is None else turn.ended or "returned"
    nodes = t("strategy.build.nodes", lang, count=turn.nodes)
    told = t(
        f"strategy.build.turn.{name}", lang, nodes=nodes, time=time_text(turn.end - turn.start)
    )
    hue = "merge" if turn.replica is None else "error" if turn.ended == "error" else "compute"
    return bar(
        turn.start - begin,
        turn.end - begin,
        hue,
        text=nodes if turn.nodes else "",
        sel=f"span:{turn.span}",
        says=told,
    )


def run_lanes(trace: Trace, requests: Sequence[StepInfo], rows: Sequence[Work]) -> Json | None:
    """What every device ran in the step; None where no op of it is recorded."""
    if not rows:
        return None
    begin = min(step.start for step in requests)
    end = max(step.end for step in requests)
    spans = spans_of(trace, requests)
    busy = spans.take(spans.is_kind("op.run"))
    lanes = [
        lane(*names_of(row, rows), work_bars(busy, row.task, row.device, (begin, end)))
        for row in rows
    ]
    return picture(end - begin, lanes)
