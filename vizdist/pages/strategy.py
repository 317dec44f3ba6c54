"""Strategy: how replicas took turns while the graph was built, and how devices work in a step."""

from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from vizdist.analysis.replicas import builds, mechanisms, overlap, works
from vizdist.analysis.steps import clients_of, shown_step
from vizdist.analysis.variables import variables
from vizdist.components.callbacks import callback, clientside
from vizdist.components.cards import Children, bare, card, says
from vizdist.components.strategy_cards import (
    build_sentence,
    facts,
    headline,
    roles_table,
    used_rows,
)
from vizdist.components.view import Live, Route, View, view_of
from vizdist.figures.strategy import build_lanes, run_lanes
from vizdist.i18n import Lang, t
from vizdist.store.library import Library

NAME = "strategy"
PATH = "/t/{trace}/strategy"


def layout(library: Library, view: View) -> Component:
    trace, lang = library.open(view.trace), view.lang
    if not trace.steps:
        return bare(
            t("strategy.title", lang, trace=trace.title),
            t("strategy.no_steps", lang),
            t("strategy.no_steps_next", lang),
        )
    scrolls: dict[str, Any] = {"data-scrolls": ""}
    parts = [
        html.Div([html.H1(id="strategy-head"), html.Dl(id="strategy-facts", className="facts-row")],
                 className="head"),
        html.Div([_card("build", [html.P(id="strategy-build-says", className="says"),
                        _drawing("build", lang)], lang),
        _card("run", [html.P(id="strategy-run-says", className="says"),
                      _drawing("run", lang)], lang)], className="wide"),
        html.Div([_card("roles", html.Div(id="strategy-roles", className="scrolls", tabIndex=0,
                                          **scrolls), lang),
        _card("used", html.Div(id="strategy-used", className="used-rows"), lang)],
                 className="narrow"),
        *(dcc.Store(id=f"strategy-{name}-picture") for name in ("build", "run")),
        dcc.Store(id="strategy-drawn"),
    ]  # fmt: skip
    return html.Div(parts, id="strategy-page", className="reading strategy-page")


def _drawing(name: str, lang: Lang) -> Component:
    label = says(t(f"strategy.{name}.picture", lang), role="group")
    return html.Div(id=f"strategy-{name}", className="drawing", **label)


def _card(name: str, body: Children, lang: Lang) -> Component:
    title, note = (t(f"strategy.{name}.{part}", lang) for part in ("title", "note"))
    return card(title, body, name=name, note=note)


def register(app: Dash, library: Library) -> None:
    now = [Input("step", "data"), Input("live", "data")]
    names = ("head", "facts", "build-says", "run-says", "roles", "used")
    filled = [Output(f"strategy-{name}", "children") for name in names]
    pictures = [Output(f"strategy-{name}-picture", "data") for name in ("build", "run")]

    @callback(app, *filled, *pictures, *now, State("route", "data"))
    def show_step(step: int | None, _live: Live | None, route: Route) -> tuple[Any, ...]:
        view = view_of(route)
        trace, lang = library.open(view.trace), view.lang
        number = shown_step(trace, step)
        if number is None:
            return [], [], [], [], [], [], None, None
        clients = clients_of(trace, number)
        requests = [trace.step(number, task) for task in clients]
        rows = works(trace, requests)
        made, side = builds(trace), overlap(rows)
        return (
            headline(trace, made, rows, variables(trace, number), lang),
            facts(trace, requests, lang),
            build_sentence(made, lang),
            t("strategy.run.says", lang, step=f"{number:,}", share=f"{100 * side.share:.0f}"),
            roles_table(rows, lang),
            used_rows(mechanisms(trace, requests), made, view),
            build_lanes(made[0], lang) if made else None,
            run_lanes(trace, requests, rows),
        )

    drawn = Output("strategy-drawn", "data")  # so that Dash asks only where the page is
    seen = [Input(f"strategy-{name}-picture", "data") for name in ("build", "run")]
    clientside(app, "strategy.mjs", "show", drawn, *seen, Input("sel", "data"))
