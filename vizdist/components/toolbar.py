"""Pieces of the bar over a canvas: one choice of several, table, and picture."""

from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.components.cards import HIDDEN, icon
from vizdist.i18n import Lang, t


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


def picture_buttons(lang: Lang) -> Component:
    """Save what the canvas shows; assets/picture.mjs does it."""
    buttons = [_picture_button(kind, lang) for kind in ("png", "svg")]
    label: dict[str, Any] = {"aria-label": t("shell.picture.says", lang)}
    sign = icon("picture")
    return html.Div([sign, *buttons], className="segments pictures", role="group", **label)


def _picture_button(kind: str, lang: Lang) -> Component:
    title = t("shell.picture.save", lang, kind=kind.upper())
    data: dict[str, Any] = {"data-picture": kind, "aria-label": title}
    return html.Button(kind.upper(), type="button", className="choice", title=title, **data)
