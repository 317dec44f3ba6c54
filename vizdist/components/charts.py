"""A Plotly chart in its place: as large as its box, with a sentence for who cannot see it."""

from dash import dcc, html
from dash.development.base_component import Component

from vizdist.figures.theme import CONFIG


def chart(chart_id: str, says: str) -> Component:
    """`says` is what a screen reader gets; the figure comes from a callback."""
    return html.Div(
        dcc.Graph(id=chart_id, config=CONFIG, responsive=True, clear_on_unhover=True),
        className="chart",
        role="img",
        **{"aria-label": says},
    )
