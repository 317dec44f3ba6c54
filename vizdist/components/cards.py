"""Small pieces of a reading page: card, sentence, chip, icon, empty state."""

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.i18n import Lang, spans_of, t

Children = str | Component | Sequence[Any] | None


def icon(name: str) -> Component:
    """An icon is decoration: whoever uses it writes the word beside it or an aria-label."""
    return html.Span(className=f"icon icon-{name}", **{"aria-hidden": "true"})


def rich(key: str, lang: Lang, **values: object) -> list[Component | str]:
    """A catalogue text with its bold parts; values stay text whatever they hold."""
    parts = spans_of(key, lang, **values)
    return [html.B(part) if bold else part for part, bold in parts]


def card(title: Children, body: Children, *, name: str = "", note: str = "") -> Component:
    """A titled panel; `name` is its class, and its id for tests and styles."""
    heading = html.H2([title, html.Small(note)] if note else title)
    return html.Section([heading, html.Div(body, className="card-body")], className=f"card {name}")


def chip(children: Children, *, kind: str = "", says: str = "") -> Component:
    return html.Span(children, className=f"chip {kind}", title=says or None)


def link(children: Children, path: str, *, kind: str = "", **attributes: str) -> Component:
    """A link inside the dashboard; assets/shell.mjs adds prefix and query."""
    return html.A(children, href=path, className=kind, **{"data-go": path, **attributes})


def button(action: str, says: str, children: object, **attributes: str) -> Component:
    """An icon button; `action` is a name in assets/shell.mjs."""
    data = {"data-do": action, "aria-label": says, **attributes}
    return html.Button(children, className="icon-button", title=says, type="button", **data)


def swatch(name: str) -> Component:
    """A legend patch: hue and texture of one meaning."""
    return html.Span(className=f"swatch fill-{name}", **{"aria-hidden": "true"})


def empty(title: str, next_step: Children, *actions: Component) -> Component:
    """What is missing, and what to do about it."""
    return html.Div([html.H2(title), html.P(next_step), *actions], className="empty", role="status")


def not_there(lang: Lang, title: str, next_step: str) -> Component:
    action = link(t("shell.go_library", lang), "/", kind="button main-action")
    return html.Div(empty(t(title, lang), t(next_step, lang), action), className="reading alone")
