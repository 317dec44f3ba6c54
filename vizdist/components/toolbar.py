"""Pieces of the bar over a canvas: one choice of several, and the button of the table."""

from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.components.cards import HIDDEN


def choice(value: str, children: Any, *, chosen: bool) -> Component:
    """One of a radio group."""
    attributes: dict[str, Any] = {
        "role": "radio",
        "aria-checked": str(chosen).lower(),
        "data-value": value,
    }
    return html.Button(
        children, type="button", className="choice", tabIndex=0 if chosen else -1, **attributes
    )


def table_button(name: str, word: str, title: str, **attributes: Any) -> Component:
    """Shows what the canvas shows as a table; the key L does the same."""
    return html.Button(
        [word, html.Kbd("L", **HIDDEN)],
        id=name,
        type="button",
        className="button",
        title=title,
        **attributes,
    )
