"""Data: who saw which example, by which policy, in batches of which size."""

from typing import Any

from dash import Dash, Input, Output, State, html
from dash.development.base_component import Component

from vizdist.analysis.data_told import headline, sentences
from vizdist.analysis.example_grid import example_grid
from vizdist.analysis.mean_of_means import mean_of_means
from vizdist.analysis.steps import shown_step
from vizdist.analysis.who_saw_what import Data, batch_sizes, has_data, who_saw_what
from vizdist.components.callbacks import callback, clientside
from vizdist.components.cards import bare, card, rich, says
from vizdist.components.charts import chart
from vizdist.components.data_cards import cuts, grid_of, means_of, policies, refusal, sentence
from vizdist.components.proof import evidence
from vizdist.components.view import Live, Route, View, view_of
from vizdist.figures.batch_sizes import batch_sizes_figure
from vizdist.figures.theme import as_theme
from vizdist.i18n import Lang, t
from vizdist.store.library import Library
from vizdist.store.trace import Trace

NAME = "data"
PATH = "/t/{trace}/data"
FILLED = ("head", "said", "grid", "policy", "cut", "means")


def layout(library: Library, view: View) -> Component:
    trace, lang = library.open(view.trace), view.lang
    if not has_data(trace):
        return bare(
            t("data.title", lang, trace=trace.title),
            t("data.none", lang),
            t("data.none_next", lang),
        )
    said, grid, policy, cut, means = (
        card(t(f"data.{name}.title", lang), _body(name, lang), name=f"of-{name}",
             note=t(f"data.{name}.note", lang))
        for name in FILLED[1:]
    )  # fmt: skip
    parts = [
        html.H1(id="data-head"),
        html.Div([grid, cut], className="wide"),
        html.Div([policy, said, means], className="narrow"),
    ]
    return html.Div(parts, id="data-page", className="reading data")


def _body(name: str, lang: Lang) -> list[Component]:
    """What is filled in; under how one batch is cut, the sizes of all."""
    label = t(f"data.{name}.title", lang)
    scrolls = says(label, role="group", data_scrolls="")  # with the keyboard, too
    body: list[Component] = [html.Div(id=f"data-{name}", tabIndex=0, **scrolls)]
    if name == "cut":
        body.append(html.P(t("data.sizes.caption", lang), className="caption"))
        body.append(chart("data-sizes", t("data.sizes.says", lang)))
    return body


def _filled(trace: Trace, step: int | None, view: View) -> tuple[Any, ...]:
    """What stands in FILLED, in order."""
    number = shown_step(trace, step) or 0
    data = who_saw_what(trace, number)
    said = headline(data)
    title = html.Span(
        rich(f"data.{said.key}", view.lang, **said.values), **evidence(said.proof, said.source)
    )
    if not data.taken:
        nothing = html.P(t("data.nothing_taken", view.lang))
        return title, nothing, refusal(data.refused), nothing, nothing, nothing
    return (title, *_cards(trace, data, number, view))


def _cards(trace: Trace, data: Data, step: int, view: View) -> tuple[Any, ...]:
    told = [sentence(each, view) for each in sentences(data, step)]
    return (
        html.Div(told, className="sentences"),
        grid_of(example_grid(data, step), view),
        policies(data, view),
        cuts(data, step, view),
        means_of(mean_of_means(trace, data, step), view),
    )


def _words(lang: Lang) -> dict[str, str]:
    step = t("shell.header.step", lang, step="{step}")
    return {"step": step, "examples": t("data.means.examples", lang)}


def register(app: Dash, library: Library) -> None:
    filled = [Output(f"data-{name}", "children") for name in FILLED]

    now = [Input("step", "data"), Input("live", "data"), State("route", "data")]

    @callback(app, *filled, *now)
    def show_step(step: int | None, _live: Live | None, route: Route) -> tuple[Any, ...]:
        view = view_of(route)
        return _filled(library.open(view.trace), step, view)

    @callback(app, Output("data-sizes", "figure"), *now, Input("theme", "data"))
    def show_sizes(step: int | None, _live: Live | None, route: Route, theme: str) -> Any:
        view = view_of(route)
        trace = library.open(view.trace)
        number = shown_step(trace, step) or 0
        sizes = batch_sizes(who_saw_what(trace, number))
        return batch_sizes_figure(sizes, number, as_theme(theme), _words(view.lang))

    picked = Output("step", "data", allow_duplicate=True)
    click = Input("data-sizes", "clickData")
    clientside(app, "shell.mjs", "pickStep", picked, click, prevent_initial_call=True)
