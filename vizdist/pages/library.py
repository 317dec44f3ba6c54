"""Library: every run that is open here, one row each."""

from typing import Any

from dash import Dash, html
from dash.development.base_component import Component

from vizdist.components.cards import empty
from vizdist.components.view import View
from vizdist.i18n import t

NAME = "library"
PATH = "/"


def layout(_library: Any, view: View) -> Component:
    return html.Div(
        [html.H1(t("library.no_runs", view.lang)), _how_to_begin(view)],
        className="reading library",
    )


def _how_to_begin(view: View) -> Component:
    commands = [
        html.Div([html.Code(command), html.Span(t(f"library.{name}", view.lang))])
        for name, command in (
            ("demo", "vizdist demo"),
            ("run", "tracer run digits-mlp --strategy parameter_server_v1 --ps 1 --workers 2"),
            ("serve", "vizdist serve NAME.trace"),
        )
    ]
    return empty(t("library.empty_title", view.lang), html.Div(commands, className="commands"))


def register(_app: Dash, _library: Any) -> None:
    """Nothing on this page depends on a click yet."""
