"""The header: which run this is, which step, and the switches of theme and language."""

from dash import html
from dash.development.base_component import Component

from vizdist.components.cards import icon, link
from vizdist.i18n import Lang, t


def button(action: str, says: str, children: object, **attributes: str) -> Component:
    """An icon button; `action` is a name in assets/shell.mjs."""
    data = {"data-do": action, "aria-label": says, **attributes}
    return html.Button(children, className="icon-button", title=says, type="button", **data)


def mark(lang: Lang) -> Component:
    return link(
        html.Span(className="mark", **{"aria-hidden": "true"}),
        "/",
        kind="mark-link",
        **{"aria-label": t("shell.pages.library", lang)},
    )


def switches(lang: Lang) -> Component:
    words = html.Span(t("shell.header.lang", lang), className="lang-word")
    return html.Div(
        [
            button("theme", t("shell.header.theme", lang), icon("theme")),
            button("lang", t("shell.header.lang_says", lang), words),
            button("copy", t("shell.header.copy", lang), [icon("link"), icon("check done")]),
        ],
        className="switches",
    )


def header(lang: Lang, run: list[Component], facts: list[Component]) -> list[Component]:
    """`run` names it (left), `facts` are chips (right); both empty on the Library."""
    name = run or [html.Span("vizdist", className="run-name")]
    return [mark(lang), *name, html.Div(className="space"), *facts, switches(lang)]
