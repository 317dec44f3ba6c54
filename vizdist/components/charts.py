"""A Plotly chart in its place: as large as its box, with a sentence for who cannot see it."""

from typing import Any, cast

from dash import dcc, html
from dash.development.base_component import Component

from vizdist.components.cards import says
from vizdist.figures.theme import CONFIG


def chart(chart_id: str, label: str) -> Component:
    """`label` is what a screen reader gets; the figure comes from a callback."""
    graph = dcc.Graph(
        id=chart_id, config=cast("Any", CONFIG), responsive=True, clear_on_unhover=True
    )
    return html.Div(graph, className="chart", role="img", **says(label))
