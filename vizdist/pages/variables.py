"""Variables: where copies lie, whether they agree, what policies do, which versions were read."""

from collections.abc import Sequence
from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from vizdist.analysis.bytes_moved import bytes_moved
from vizdist.analysis.steps import shown_step
from vizdist.analysis.variables import Variable, accesses, variables
from vizdist.components.callbacks import callback, clientside
from vizdist.components.cards import Children, bare, card, says
from vizdist.components.placement import placement
from vizdist.components.variable_cards import (
    copies_table,
    headline,
    policy_table,
    stairs_sentence,
    staleness_bars,
)
from vizdist.components.view import Live, Route, View, view_of
from vizdist.figures.versions import staircase
from vizdist.i18n import Lang, t
from vizdist.store.library import Library
from vizdist.store.trace import Trace

NAME = "variables"
PATH = "/t/{trace}/variables"


def layout(library: Library, view: View) -> Component:
    trace, lang = library.open(view.trace), view.lang
    number = shown_step(trace, None)
    if number is None or not variables(trace, number):
        return bare(
            t("variables.title", lang, trace=trace.title),
            t("variables.none", lang),
            t("variables.none_next", lang),
        )
    stairs = says(t("variables.stairs.picture", lang), role="group")
    scrolls: dict[str, Any] = {"data-scrolls": ""}
    missed = says(t("variables.missed.picture", lang), role="img")
    picture = [html.Div(id="variables-stairs", className="drawing", **stairs),
               html.Div(id="variables-missed", className="missed", **missed)]  # fmt: skip
    parts = [
        html.Div(html.H1(id="variables-head"), className="head"),
        _card("copies", html.Div(id="variables-copies", className="scrolls", **scrolls), lang),
        html.Div(id="variables-side", className="as-one"),
        _card("stairs", [html.P(id="variables-stairs-says", className="says"),
                         html.Div(picture, className="pictures")], lang),
        *(dcc.Store(id=f"variables-{name}") for name in ("which", "picture", "drawn")),
    ]  # fmt: skip
    return html.Div(parts, id="variables-page", className="reading variables")


def _card(name: str, body: Children, lang: Lang, *, kind: str = "") -> Component:
    title, note = (t(f"variables.{name}.{part}", lang) for part in ("title", "note"))
    return card(title, body, name=kind or name, note=note)


def _meant(found: tuple[Variable, ...], wanted: str | None) -> Variable:
    """The wanted one, by the handle of its first copy, or the largest."""
    return next((one for one in found if one.copies[0].name == wanted), found[0])


def register(app: Dash, library: Library) -> None:
    now = [Input("step", "data"), Input("variables-which", "data"), Input("live", "data")]
    names = ("head", "copies", "side", "stairs-says", "missed")
    filled = [Output(f"variables-{name}", "children") for name in names]
    picture = Output("variables-picture", "data")

    @callback(app, *filled, picture, *now, State("route", "data"))
    def show_step(
        step: int | None, wanted: str | None, _live: Live | None, route: Route
    ) -> tuple[Any, ...]:
        view = view_of(route)
        trace, lang = library.open(view.trace), view.lang
        number = shown_step(trace, step)
        found = variables(trace, number) if number is not None else ()
        if not found:
            return t("variables.not_here", lang, step=f"{number or 0:,}"), [], [], [], [], None
        one = _meant(found, wanted)
        used = accesses(trace, one.copies[0])
        return (
            headline(found, lang),
            copies_table(found, one.copies[0].name, lang),
            _side(trace, found, one, lang),
            stairs_sentence(used, one, lang),
            staleness_bars(used, lang),
            staircase(used, number or 0, lang),
        )

    drawn = Output("variables-drawn", "data")  # so that Dash asks only where the page is
    seen = [Input("variables-picture", "data"), Input("variables-copies", "children")]
    clientside(app, "variables.mjs", "show", drawn, *seen, Input("sel", "data"))


def _side(trace: Trace, found: Sequence[Variable], one: Variable, lang: Lang) -> Component:
    """What policies do to copies; of variables with one copy each, where they lie."""
    if not any(each.is_copied for each in found):
        moved = bytes_moved(trace).traffic
        body = placement(found, moved, one.copies[0].name, lang)
        return _card("placement", body, lang, kind="held")
    scrolls: dict[str, Any] = {"data-scrolls": ""}
    table = html.Div(policy_table(lang), className="scrolls", tabIndex=0, **scrolls)
    note = html.P(policy_sentence(one, lang), className="says")
    return _card("policy", [table, note], lang)


def policy_sentence(one: Variable, lang: Lang) -> Children:
    """What the policy of the chosen variable means for it."""
    if not one.synchronization or len(one.copies) == 1:
        return t("variables.policy.one_copy", lang, variable=one.name)
    key = f"variables.policy.{one.synchronization.lower()}"
    return t(key, lang, variable=one.name, copies=len(one.copies), aggregation=one.aggregation)
