"""The mailboxes of a step as rows: whether value or request came first, and by how much."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.keys import edge_of
from vizdist.analysis.mailbox import ClientEnd, Mailbox, Transfer
from vizdist.components.cards import HIDDEN, icon, link, rich, says
from vizdist.components.view import View
from vizdist.figures.call_lines import time_text
from vizdist.figures.mailbox_rows import (
    Arranged,
    Axis,
    Line,
    Look,
    arranged,
    axis_of,
    short_titles,
)
from vizdist.figures.shared_uses import NOT_KNOWN, Uses, uses_of
from vizdist.i18n import Lang, t
from vizdist.i18n.units import size

FEW = 12  #: keys that need no search
CHART = 300  #: px that a chart has at least
LETTER = 7  #: px of a time's letter
TAG = 25  #: px that a tag takes behind the end of a bar
_MOST_TRANSFER = 56  #: px


@dataclass(frozen=True, slots=True)
class _Scale:
    """What all rows have in common."""

    axis: Axis
    transfer_ns: int
    titles: Mapping[str, str]
    uses: Uses
    lang: Lang


def mailbox_list(found: Mailbox, look: Look, lang: Lang, uses: Uses = NOT_KNOWN) -> list[Component]:
    rows = found.rows
    shown = arranged(rows, look)
    scale = _Scale(axis_of(rows), _longest_transfer(rows), short_titles(rows), uses, lang)
    few: dict[str, Any] = {"data-few": ""} if len(rows) <= FEW else {}
    lines = [_line(line, scale) for line in shown.lines]
    foot = html.Div([_pager(shown, lang), _client(found.client, lang)], className="mail-foot")
    if not lines:
        why = "none_found" if rows else "none"
        return [html.P(t(f"rendezvous.mail.{why}", lang), className="hint", **few), foot]
    return [_head(scale), html.Ol(lines, className="mail-rows", **few), _ticks(scale), foot]


def collectives_note(found: Mailbox, count: int, task: str, view: View) -> list[Component]:
    """How the values of a step's collectives went, of which there are `count`."""
    if not count:
        return []
    values = {"pieces": f"{len(found.pieces):,}", "task": task}
    values |= {"bytes": str(size(sum(row.bytes for row in found.pieces)))}
    key = f"rendezvous.mail.{'pieces' if found.pieces else 'library'}"
    told = rich(key, view.lang, count=count, **values)
    words = [t("shell.pages.collectives", view.lang), icon("right")]
    way = link(words, f"/t/{view.trace}/collectives", kind="button")
    return [html.P([html.Span(told), way], className="mail-met")]


def _longest_transfer(rows: Iterable[Transfer]) -> int:
    """Of a row; of a loop's edge that of all iterations, as its folded row tells it."""
    moved: Counter[str] = Counter()
    for row in rows:
        moved[edge_of(row.key)] += row.transfer_ns
    return max(moved.values(), default=0)


def _head(scale: _Scale) -> Component:
    lang = scale.lang
    sides = [
        html.Span(t("rendezvous.mail.early", lang), className="side-early"),
        html.Span(t("rendezvous.mail.late", lang), className="side-late"),
    ]
    return html.Div(
        [
            html.Span(t("rendezvous.mail.key", lang)),
            html.Span(),
            html.Span(sides, className="mail-sides", style=_line_style(scale.axis)),
            html.Span(t("rendezvous.mail.transfer", lang), className="mail-moved"),
        ],
        className="mail-grid mail-head",
    )


def _line_style(axis: Axis) -> dict[str, str]:
    return {"--line-at": _percent(axis.line)}


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _line(line: Line, scale: _Scale) -> Component:
    """A row that selects its key, or opens and folds the iterations of a loop."""
    worst = line.told
    attributes: dict[str, Any] = {"title": _sentence(worst, scale)}
    if line.is_folded:
        attributes |= {"data-edge": line.edge, "aria-expanded": str(line.is_open).lower()}
    else:
        attributes |= {"data-sel": f"key:{worst.key}", "data-key": worst.key}
    attributes |= {"data-tensor": worst.tensor, "data-link": _link(worst, scale)}
    cells = [_name(line, worst, scale), _amount(line, worst, scale.lang), _chart(line, scale)]
    kind = " ".join(["mail-grid", "mail-row", *(["inner"] if line.is_inner else []), worst.state])
    row = [*cells, _moved(line, scale)]
    return html.Li(html.Button(row, type="button", className=kind, **attributes))


def _link(row: Transfer, scale: _Scale) -> str:
    return f"{scale.titles[row.source]}→{scale.titles[row.target]}"


def _name(line: Line, row: Transfer, scale: _Scale) -> Component:
    lang = scale.lang
    marks = _marks_of_all(line, lang) if line.is_folded else _marks(row, lang)
    served = uses_of(row.key, scale.uses)
    marks += [t("rendezvous.mail.shared", lang, count=served)] if served > 1 else []
    route = f"{scale.titles[row.source]} → {scale.titles[row.target]}"
    sign = [html.Span(className="icon icon-right fold-sign", **HIDDEN)] if line.is_folded else []
    return html.Span(
        [
            html.Span([*sign, html.B(_tensor(row.tensor))]),
            html.Small([*(html.Em(mark) for mark in marks), html.Span(route)]),
        ],
        className="mail-key",
    )


def _tensor(name: str) -> list[Component]:
    """Its last part is what tells it from others, so the scope before is cut first."""
    scope, slash, leaf = name.rpartition("/")
    return [html.Span(scope + slash, className="scope"), html.Span(leaf, className="leaf")]


def _marks(row: Transfer, lang: Lang) -> list[str]:
    """What is not usual with a row, in words."""
    marks = [t(f"rendezvous.state.{row.state}", lang)] if row.state != "done" else []
    marks += [t("rendezvous.state.deferred", lang)] if row.is_deferred else []
    iteration = t("rendezvous.mail.iteration", lang, number=row.iteration)
    return [*marks, iteration] if row.frame else marks


def _marks_of_all(line: Line, lang: Lang) -> list[str]:
    states: Counter[str] = Counter(row.state for row in line.rows if row.state != "done")
    states["deferred"] += sum(row.is_deferred for row in line.rows)
    counted = [f"{n:,} {t(f'rendezvous.state.{state}', lang)}" for state, n in states.items() if n]
    return [t("rendezvous.mail.iterations", lang, count=len(line.rows)), *counted]


def _amount(line: Line, row: Transfer, lang: Lang) -> Component:
    words = t("rendezvous.mail.control", lang) if row.is_control else str(size(line.bytes))
    return html.Span(words, className="mail-bytes")


def _chart(line: Line, scale: _Scale) -> Component:
    """Bar, tags and time; the first of value and request stands at the line, with its tag."""
    axis, row = scale.axis, line.told
    told = _time(row, scale.lang)
    if line.is_folded:
        told = t("rendezvous.mail.longest", scale.lang, time=told)
    early, wait = axis.early(row.early_ns), axis.wait(row.wait_ns)
    hollow = " hollow" if row.is_control or row.state == "dead" else ""
    send, recv = f"tag tag-send{hollow}", f"tag tag-recv{hollow}"
    if row.first == "sender":
        parts = [
            _bar("mail-early", axis.line - early, early),
            _tag(send, axis.line, "end"),
            *([] if row.state == "unclaimed" else [_tag(recv, axis.line, "start")]),
            _label(told, axis.line - early, "before"),
        ]
    else:
        end = axis.line + wait
        last = _tag(send, end, "start") if row.first == "receiver" else _cross(end)
        letters = LETTER * len(told)
        is_within = wait * CHART > letters + 40 or (1 - end) * CHART < letters + TAG
        label = _label(told, *((axis.line + wait / 2, "within") if is_within else (end, "behind")))
        parts = [_bar("mail-late", axis.line, wait), _tag(recv, axis.line, "middle"), last, label]
    return html.Span(parts, className="mail-chart", style=_line_style(axis))


def _bar(kind: str, left: float, width: float) -> Component:
    return html.Span(className=kind, style={"left": _percent(left), "width": _percent(width)})


def _tag(kind: str, at: float, side: str) -> Component:
    return html.Span(className=f"{kind} at-{side}", style={"left": _percent(at)}, **HIDDEN)


def _cross(at: float) -> Component:
    return html.Span(className="mail-cross", style={"left": _percent(at)}, **HIDDEN)


def _label(text: str, at: float, side: str) -> Component:
    return html.B(text, className=f"mail-time {side}", style={"left": _percent(at)})


def _time(row: Transfer, lang: Lang) -> str:
    if row.first == "sender":
        return time_text(row.early_ns) if row.early_ns else t("rendezvous.mail.at_once", lang)
    if row.first == "nobody":
        return t("rendezvous.mail.no_value", lang, time=time_text(row.wait_ns))
    return time_text(row.wait_ns)


def _moved(line: Line, scale: _Scale) -> Component:
    """How long its values travelled in all: wide as the square root, as the other times are."""
    row = line.told
    if not line.transfer_ns:
        return html.Span("–" if row.first == "nobody" else "", className="mail-moved")
    share = math.sqrt(line.transfer_ns / scale.transfer_ns)
    width = {"width": f"{max(3, share * _MOST_TRANSFER):.0f}px"}
    kind = "fill-idle" if row.is_control else "fill-recv"
    bar = html.Span(className=f"mail-way {kind}", style=width)
    label: dict[str, Any] = {"data-label": t("rendezvous.mail.transfer", scale.lang)}
    words = html.Span(time_text(line.transfer_ns))
    return html.Span([bar, words], className="mail-moved", **label)


def _sentence(row: Transfer, scale: _Scale) -> str:
    values = {
        "tensor": row.tensor,
        "source": scale.titles[row.source],
        "target": scale.titles[row.target],
        "time": time_text(row.early_ns if row.first == "sender" else row.wait_ns),
        "transfer": time_text(row.transfer_ns),
    }
    which: str = "unclaimed" if row.state == "unclaimed" else row.first
    which = "piece" if row.is_piece and row.first != "nobody" else which
    return t(f"rendezvous.mail.says.{which}", scale.lang, **values)


def _ticks(scale: _Scale) -> Component:
    ticks = [
        html.Span([html.I(), time_text(ns)], style={"left": _percent(at)})
        for ns, at in scale.axis.ticks
    ]
    return html.Div(
        [html.Span(), html.Span(), html.Span(ticks, className="mail-ticks"), html.Span()],
        className="mail-grid mail-axis",
        **HIDDEN,
    )


def _pager(shown: Arranged, lang: Lang) -> Component | None:
    if shown.num_pages == 1:
        return None
    ends = {"first": shown.first + 1, "last": shown.first + len(shown.lines)}
    words = t("rendezvous.mail.shown", lang, **ends, lines=shown.num_lines, count=shown.num_keys)
    steps = [("previous", "left", shown.page - 1), ("next", "right", shown.page + 1)]
    buttons = [
        html.Button(
            icon(sign),
            type="button",
            className="icon-button",
            disabled=not 0 <= page < shown.num_pages,
            **says(t(f"rendezvous.mail.{name}", lang), data_page=page),
        )
        for name, sign, page in steps
    ]
    return html.Div([html.Span(words), *buttons], className="mail-pager")


def _client(ends: Sequence[ClientEnd], lang: Lang) -> Component | None:
    """What the client feeds and fetches goes through the same table, but to no other device."""
    if not ends:
        return None
    groups = [(key, [end for end in ends if end.is_feed == is_feed])
              for key, is_feed in (("feeds", True), ("fetches", False))]  # fmt: skip
    parts = [
        html.Span([html.Span(t(f"rendezvous.mail.{key}", lang)), *(_end(end, lang) for end in of)])
        for key, of in groups
        if of
    ]
    return html.Div(parts, className="mail-client")


def _end(end: ClientEnd, lang: Lang) -> Component:
    key: dict[str, Any] = {"data-sel": f"key:{end.key}", "data-key": end.key}
    waited = t("rendezvous.mail.waited", lang, time=time_text(end.wait_ns))
    lost = t("rendezvous.mail.no_value", lang, time=time_text(end.wait_ns))
    facts = lost if end.is_lost else f"{size(end.bytes)} · {waited}"
    return html.Button(
        [html.B(end.name), html.Small(facts)], type="button", className="button", title=end.task,
        **key,
    )  # fmt: skip
