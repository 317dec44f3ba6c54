"""The sign of a run where several stand side by side: a letter on a shape of ink."""

from dash import html
from dash.development.base_component import Component


def run_badge(letter: str) -> Component:
    return html.Span(html.Span(letter), className=f"run-badge run-{letter}")
