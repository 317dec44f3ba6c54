"""What the Collectives page tells of a run whose replicas reduce to one device, without any."""

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.reduced_to_one import Sum, Way
from vizdist.components.cards import Children, card, icon, link, rich
from vizdist.components.proof import evidence, proof, span_id
from vizdist.components.view import View
from vizdist.figures.call_lines import time_text
from vizdist.i18n import Lang, t
from vizdist.i18n.units import size

COLUMNS = ("sum", "device", "came", "took", "went")
MORE = ("rendezvous", "strategy")  #: pages that show how it went


def sums_told(found: Sequence[Sum], step: int, view: View) -> list[Component]:
    lang = view.lang
    head = html.Div([html.H1(_headline(found, step, lang)), _ways_on(view)], className="head")
    if not found:
        return [head]
    titles = [html.Th(t(f"collectives.sums.{name}", lang), scope="col") for name in COLUMNS]
    rows = [_row(one, step, view) for one in found]
    table = html.Table([html.Thead(html.Tr(titles)), html.Tbody(rows)], className="calls-table")
    scrolls: dict[str, Any] = {"data-scrolls": ""}
    body = html.Div(table, className="scrolls", tabIndex=0, **scrolls)
    title, note = (t(f"collectives.sums.{name}", lang) for name in ("title", "note"))
    return [head, card(title, body, name="sums", note=note)]


def _headline(found: Sequence[Sum], step: int, lang: Lang) -> Children:
    if not found:
        return t("collectives.not_here", lang, step=f"{step:,}")
    places = sorted({one.device for one in found})
    values = {
        "step": f"{step:,}",
        "count": len(found),
        "places": ", ".join(places),
        "came": size(sum(n for one in found for _, n in one.came)),
        "went": size(sum(n for one in found for _, n in one.went)),
    }
    return rich("collectives.sums.head", lang, **values)


def _ways_on(view: View) -> Component:
    ways = [
        link([html.Span(t(f"shell.pages.{page}", view.lang)), icon("right")],
             proof(view, page), kind="button")
        for page in MORE
    ]  # fmt: skip
    return html.Div(ways, className="ways")


def _row(one: Sum, step: int, view: View) -> Component:
    name = link(one.node, proof(view, "graph", step, span_id(one.span)), kind="cut")
    cells = [
        html.Th([name, html.Small(" + ".join(one.addends))], scope="row"),
        html.Td(one.device),
        html.Td(_ways(one.came)),
        html.Td(time_text(one.took)),
        html.Td(_ways(one.went)),
    ]
    return html.Tr(cells, **evidence([one.span]))


def _ways(ways: Sequence[Way]) -> Children:
    return [html.Div([html.B(str(size(n))), html.Small(device)]) for device, n in ways] or "–"
