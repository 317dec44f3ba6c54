"""Collectives: who arrived when, who waited for whom, and the chunks on their way round."""

from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from vizdist.analysis.collectives import has_collectives, lateness, of_step
from vizdist.analysis.reduced_to_one import has_sums, sums
from vizdist.analysis.steps import shown_step
from vizdist.components.callbacks import callback, clientside
from vizdist.components.cards import Children, bare, card, icon, says
from vizdist.components.collective_cards import (
    chooser,
    chosen,
    headline,
    lateness_table,
    numbers,
    unit_of,
)
from vizdist.components.sum_cards import sums_told
from vizdist.components.view import Live, Route, View, view_of
from vizdist.figures.collectives import picture_of
from vizdist.figures.lanes import Json
from vizdist.i18n import Lang, t
from vizdist.store.library import Library

NAME = "collectives"
PATH = "/t/{trace}/collectives"


def layout(library: Library, view: View) -> Component:
    trace, lang = library.open(view.trace), view.lang
    if not has_collectives(trace):
        if has_sums(trace):
            told = html.Div(id="collectives-sums", className="as-one")
            return html.Div(told, className="reading reduced")
        return bare(
            t("collectives.title", lang, trace=trace.title),
            t("collectives.none", lang),
            t("collectives.none_next", lang),
        )
    picture = says(t("collectives.arrival.picture", lang), role="group")
    ring = says(t("collectives.ring.picture", lang), role="group")
    hops = says(t("collectives.hops.picture", lang), role="group")
    left = [
        _card("arrival", html.Div(id="collectives-arrival", className="drawing", **picture), lang),
        _card("late", html.Div(id="collectives-late"), lang),
        html.Section(html.Div(id="collectives-numbers", className="numbers"), className="card"),
    ]
    right = [
        _card("ring", html.Div(id="collectives-ring", className="drawing", **ring), lang),
        _card("hops", html.Div(id="collectives-hops", className="drawing", **hops), lang),
        html.Section(_transport(lang), className="card transport"),
    ]
    head = [html.H1(id="collectives-head"), html.Div(id="collectives-choice", className="which")]
    parts = [
        html.Div(head, className="head"),
        html.Div(left, className="wide"),
        html.Div(right, className="narrow"),
        *(dcc.Store(id=f"collectives-{name}") for name in ("which", "picture", "drawn")),
    ]
    return html.Div(parts, id="collectives-page", className="reading collectives")


def _card(name: str, body: Children, lang: Lang) -> Component:
    title, note = (t(f"collectives.{name}.{part}", lang) for part in ("title", "note"))
    return card(title, body, name=name, note=note, note_id=f"collectives-{name}-note")


def _transport(lang: Lang) -> list[Component]:
    names = (("back", "left"), ("play", "play"), ("forward", "right"))
    buttons = [_hop_button(name, sign, lang) for name, sign in names]
    now: dict[str, Any] = {"aria-live": "polite"}
    return [html.Div(buttons, className="buttons"), html.P(id="collectives-now", **now),
            html.Span(id="collectives-at")]  # fmt: skip


def _hop_button(name: str, sign: str, lang: Lang) -> Component:
    label = t(f"collectives.transport.{name}", lang)
    data = says(label, data_hop=name)
    return html.Button(icon(sign), type="button", className="icon-button", title=label, **data)


def register(app: Dash, library: Library) -> None:
    now = [Input("step", "data"), Input("collectives-which", "data"), Input("live", "data")]
    names = ("head", "choice", "late", "numbers", "arrival-note", "late-note")
    filled = [Output(f"collectives-{name}", "children") for name in names]
    picture = Output("collectives-picture", "data")

    @callback(app, *filled, picture, *now, State("route", "data"))
    def show_step(
        step: int | None, wanted: str | None, _live: Live | None, route: Route
    ) -> tuple[Any, ...]:
        view = view_of(route)
        trace, lang = library.open(view.trace), view.lang
        number = shown_step(trace, step)
        found = of_step(trace, number) if number is not None else ()
        one = chosen(found, wanted)
        rows = lateness(trace)
        late = lateness_table(rows, number or 0, lang)
        unit = t("collectives.late.unit", lang, unit=unit_of(rows))
        if one is None:
            words = t("collectives.not_here", lang, step=f"{number or 0:,}")
            return words, [], late, [], "", unit, None
        drawn: Json = picture_of(trace, one, lang)
        note = t("collectives.arrival.of", lang, step=f"{one.step:,}", kind=one.kind)
        return (
            headline(one, rows, lang),
            chooser(found, one, lang),
            late,
            numbers(one, lang),
            note,
            unit,
            drawn,
        )

    @callback(app, Output("collectives-sums", "children"), now[0], now[2], State("route", "data"))
    def show_sums(step: int | None, _live: Live | None, route: Route) -> list[Component]:
        view = view_of(route)
        trace = library.open(view.trace)
        number = shown_step(trace, step) or 0
        return sums_told(sums(trace, number), number, view)

    drawn = Output("collectives-drawn", "data")  # so that Dash asks only where the page is
    seen = [Input("collectives-picture", "data"), Input("sel", "data")]
    clientside(app, "collectives.mjs", "show", drawn, *seen)
