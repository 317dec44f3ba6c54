"""Text and tables of the Collectives page: who was late, four numbers, which one is shown."""

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.collectives import Collective, Late, formula_bytes, latest
from vizdist.components.cards import Children, rich, says
from vizdist.figures.call_lines import time_text
from vizdist.i18n import Lang, t
from vizdist.i18n.units import figures, size

MOST_STEPS = 24  #: side by side; more would be too thin for their numbers
MS = 1_000_000
#: percent of ink: figures are ink up to half, paper beyond, and are readable on both
_SPAN, _STRONG = 44, 62


def headline(one: Collective, rows: Sequence[Late], lang: Lang) -> Children:
    """Who came last how often, and what it cost in this step; or who never came."""
    if one.missing:
        who = ", ".join(map(str, one.missing))
        values = {"count": len(one.missing), "ranks": who, "step": f"{one.step:,}"}
        return rich("collectives.head.missing", lang, **values)
    found = latest(rows)
    step = {"step": f"{one.step:,}", "lost": time_text(one.lost_ns), "last": one.last.number}
    if found is None:
        return rich("collectives.head.alone", lang, **step)
    if not found.stands_out:
        return rich("collectives.head.even", lang, **step)
    counts = {"rank": found.rank, "count": found.steps, "of": f"{found.of:,}"}
    key = "often" if one.last.number == found.rank else "other"
    return rich(f"collectives.head.{key}", lang, **counts, **step)


def lateness_table(rows: Sequence[Late], step: int, lang: Lang) -> Component:
    """Rank x step; the darker the later, and the last of each step has its figure."""
    shown = _around(rows, step)
    ranks = sorted({rank for row in shown for rank in row.after_ns})
    most = max((ns for row in shown for ns in row.after_ns.values()), default=0)
    head = html.Tr([html.Td(), *(_step_head(row, step) for row in shown)])
    body = []
    for rank in ranks:
        name = html.Th(t("collectives.rank", lang, rank=rank), scope="row")
        body.append(html.Tr([name, *(_late_cell(row, rank, most, step, lang) for row in shown)]))
    label = says(t("collectives.late.title", lang))
    return html.Table([html.Thead(head), html.Tbody(body)], className="late-table", **label)


def _around(rows: Sequence[Late], step: int) -> Sequence[Late]:
    at = next((i for i, row in enumerate(rows) if row.step >= step), len(rows) - 1)
    first = max(0, min(at - MOST_STEPS // 2, len(rows) - MOST_STEPS))
    return rows[first : first + MOST_STEPS]


def _step_head(row: Late, step: int) -> Component:
    is_here = row.step == step
    return html.Th(f"{row.step:,}", scope="col", className="current" if is_here else "")


def _late_cell(row: Late, rank: int, most: int, step: int, lang: Lang) -> Component:
    after = row.after_ns.get(rank)
    if after is None:
        return html.Td(className="absent")
    told = t("collectives.late.cell", lang, rank=rank, step=f"{row.step:,}", time=time_text(after))
    share = after / most if most else 0
    is_strong = share > 1 / 2
    tint = _STRONG + _SPAN * (share - 1 / 2) if is_strong else _SPAN * share
    words = _short(after, most) if rank == row.last and after else ""
    label = f"{words}: {told}" if words else told
    data: dict[str, Any] = {"data-step": row.step, "aria-label": label}
    style = {"--late": f"{tint:.0f}%"}
    strong = " strong" if is_strong else ""
    button = html.Button(words, type="button", title=told, style=style,
                         className=f"late-cell{strong}", **data)  # fmt: skip
    return html.Td(button, className="current" if row.step == step else "")


def unit_of(rows: Sequence[Late]) -> str:
    """What the figures of the table are in."""
    most = max((ns for row in rows for ns in row.after_ns.values()), default=0)
    return "ms" if most >= MS else "µs"


def _short(ns: int, most: int) -> str:
    return f"{ns / MS:.3g}" if most >= MS else str(round(ns / 1000))


def numbers(one: Collective, lang: Lang) -> list[Component]:
    """Bytes beside their closed form, share of waiting, time and rate of moving, what was lost."""
    most = max(one.ranks, key=lambda rank: rank.sent_bytes)
    sent, moving = most.sent_bytes, most.transfer_ns
    inside = sum(rank.end - rank.arrived for rank in one.ranks)
    waited = sum(rank.wait_ns for rank in one.ranks)
    rate = size(sent / moving * 1e9) if moving else "–"
    share = figures(100 * waited / inside) if inside else "0"
    return [
        _number(size(sent), _formula(one, sent, lang)),
        _number(f"{share} %", t("collectives.numbers.waiting", lang, kind=one.kind)),
        _number(time_text(moving), t("collectives.numbers.moving", lang, rate=rate)),
        _number(time_text(one.lost_ns), t("collectives.numbers.lost", lang, rank=one.last.number)),
    ]


def _formula(one: Collective, sent: int, lang: Lang) -> str:
    formula = formula_bytes(one)
    values: dict[str, object] = {"n": one.num_ranks, "bytes": size(one.tensor_bytes)}
    if formula is None:
        return t("collectives.numbers.sent", lang, **values)
    if abs(sent - formula) <= 1:
        return t("collectives.numbers.exactly", lang, **values)
    return t("collectives.numbers.formula", lang, formula=size(formula), **values)


def _number(value: object, caption: str) -> Component:
    return html.Div([html.B(str(value)), html.Span(caption)])


def chooser(found: Sequence[Collective], one: Collective, lang: Lang) -> list[Component]:
    """Which of the step's collectives is looked at, and what its ranks are joined by."""
    facts = [html.Span(t("collectives.group", lang, group=one.group)),
             html.Span(t("collectives.instance", lang, instance=one.instance)),
             html.Span(one.algorithm)]  # fmt: skip
    options = [
        html.Option(
            t("collectives.which", lang, kind=each.kind, number=at, count=len(found), of=each.of),
            value=which(each),
            selected=each is one,
        )
        for at, each in enumerate(found, 1)
    ]
    label = says(t("collectives.choose", lang))
    select = html.Select(options, id="collectives-select", **label)
    return [html.Label(select, className="client"), *facts]


def which(one: Collective) -> str:
    """What names a collective within its step in every step."""
    return f"{one.group}/{one.instance}"


def chosen(found: Sequence[Collective], wanted: str | None) -> Collective | None:
    """The wanted one if the step has it, else one that misses ranks, or the largest."""
    for one in found:
        if which(one) == wanted:
            return one
    return max(found, key=lambda one: (len(one.missing), one.tensor_bytes), default=None)
