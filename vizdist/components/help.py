"""The list of keys, on `?`."""

from dash import html
from dash.development.base_component import Component

from vizdist.components.cards import button, icon
from vizdist.i18n import Lang, t

KEYS = (
    (("?",), "help"),
    (("[", "]"), "step"),
    (("G",), "graph"),
    (("T",), "timeline"),
    (("Esc",), "clear"),
    (("Tab",), "order"),
)


def help_dialog(lang: Lang) -> Component:
    rows = [
        html.Div([html.Dt([html.Kbd(key) for key in keys]), html.Dd(t(f"shell.help.{name}", lang))])
        for keys, name in KEYS
    ]
    title = html.H2(t("shell.help.title", lang))
    close = button("close", t("shell.help.close", lang), icon("close"))
    return html.Dialog(
        [html.Div([title, close], className="dialog-head"), html.Dl(rows)],
        id="help",
        className="dialog",
        **{"aria-label": t("shell.help.title", lang)},
    )
