"""Small pieces of a reading page: card, sentence, chip, icon, empty state."""

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.i18n import Lang, spans_of, t
from vizdist.i18n.units import tied

Children = str | Component | Sequence[Any] | None

HIDDEN: dict[str, Any] = {"aria-hidden": "true"}  #: decoration: the words stand beside it


def says(label: str, **attributes: Any) -> dict[str, Any]:
    """Attributes of something whose words only a screen reader gets; `_` in a name is `-`."""
    return {"aria-label": label, **{k.replace("_", "-"): v for k, v in attributes.items()}}


def icon(name: str) -> Component:
    """An icon is decoration: whoever uses it writes the word beside it or an aria-label."""
    return html.Span(className=f"icon icon-{name}", **HIDDEN)


def rich(key: str, lang: Lang, **values: object) -> list[Component | str]:
    """A catalogue text with its bold parts; values stay text whatever they hold."""
    parts = [(tied(part), bold) for part, bold in spans_of(key, lang, **values)]
    return [html.B(part) if bold else part for part, bold in parts]


def card(
    title: str, body: Children, *, name: str = "", note: str = "", note_id: str = ""
) -> Component:
    """A titled panel; `name` is its class. A note with an id may be filled in later."""
    beside = html.Small(note, id=note_id) if note_id else html.Small(note) if note else None
    heading = html.H2([title, beside] if beside is not None else title)
    return html.Section([heading, html.Div(body, className="card-body")], className=f"card {name}")


def chip(children: Children, *, kind: str = "", title: str = "") -> Component:
    return html.Span(children, className=f"chip {kind}", title=title or None)


def link(children: Children, path: str, *, kind: str = "", **attributes: Any) -> Component:
    """A link inside the dashboard; assets/shell.mjs adds prefix and query."""
    return html.A(children, href=path, className=kind, **{"data-go": path, **attributes})


def button(action: str, label: str, children: Any, **attributes: Any) -> Component:
    """An icon button; `action` is a name in assets/shell.mjs."""
    data = says(label, data_do=action) | attributes
    return html.Button(children, className="icon-button", title=label, type="button", **data)


def swatch(name: str) -> Component:
    """A legend patch: hue and texture of one meaning."""
    return html.Span(className=f"swatch fill-{name}", **HIDDEN)


def empty(title: str, next_step: Children, *actions: Component) -> Component:
    """What is missing, and what to do about it."""
    return html.Div([html.H2(title), html.P(next_step), *actions], className="empty", role="status")


def bare(heading: str, missing: str, next_step: str) -> Component:
    """A page of a run that has nothing for it; while the run goes on it may yet come."""
    waits: dict[str, Any] = {"data-bare": "step"}
    words = [html.H1(heading, className="unseen"), empty(missing, next_step)]
    return html.Div(words, className="reading alone", **waits)


def not_there(lang: Lang, what: str, **values: object) -> Component:
    """`what` names two texts below `shell`: what is not there, and with `_next` what to do."""
    action = link(t("shell.go_library", lang), "/", kind="button main-action")
    title, next_step = (t(f"shell.{key}", lang, **values) for key in (what, f"{what}_next"))
    return html.Div(empty(title, next_step, action), className="reading alone")
