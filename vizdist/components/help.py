"""The list of keys, on `?`."""

from dash import html
from dash.development.base_component import Component

from vizdist.components.cards import button, icon, link, says
from vizdist.components.view import View
from vizdist.i18n import t

Keys = tuple[tuple[tuple[str, ...], str], ...]  #: (keys, name of their text below shell.help)

RUN: Keys = (
    (("/",), "find_in_run"),
    (("[", "]"), "step"),
    (("G",), "graph"),
    (("T",), "timeline"),
    (("R",), "replay"),
    (("V",), "rendezvous"),
    (("Y",), "strategy"),
    (("C",), "collectives"),
    (("B",), "variables"),
    (("X",), "data"),
    (("Esc",), "clear"),
)
CANVAS: Keys = (
    (("←", "↑", "→", "↓"), "walk"),
    (("Enter",), "choose"),
    (("F",), "fit"),
    (("L",), "table"),
)
#: What a page adds to the keys of every page of a run.
OF_PAGE: dict[str, Keys] = {
    "library": ((("/",), "find"),),
    "reference": ((("/",), "find_entry"),),
    "compare": ((("[", "]"), "step"),),
    "rendezvous": ((("↑", "↓"), "row"), (("Enter",), "choose")),
    "collectives": ((("Enter",), "choose"),),
    "graph": (*CANVAS, (("W", "A", "S", "D"), "pan"), (("E",), "fold"), (("+", "−"), "zoom")),
    "timeline": (
        *CANVAS,
        (("W", "S"), "zoom"),
        (("A", "D"), "pan_time"),
        (("0",), "whole_step"),
        (("PgUp", "PgDn"), "rows"),
        (("N", "P"), "stands_out"),
    ),
    "replay": (
        *CANVAS,
        (("Space",), "play"),
        (("[", "]"), "event"),
        (("Home", "End"), "ends"),
        (("W", "A", "S", "D"), "pan"),
    ),
}
ALWAYS: Keys = ((("Tab",), "order"), (("?",), "help"))


def help_dialog(view: View) -> Component:
    """The keys of the page that is shown, its own ones first."""
    lang = view.lang
    keys = (*OF_PAGE.get(view.page, ()), *(RUN if view.trace else ()), *ALWAYS)
    rows = [
        html.Div([html.Dt([html.Kbd(key) for key in one]), html.Dd(t(f"shell.help.{name}", lang))])
        for one, name in keys
    ]
    title = html.H2(t("shell.help.title", lang))
    all_of_it = link(t("shell.help.all", lang), "/reference#keys", kind="more")
    close = button("close", t("shell.help.close", lang), icon("close"))
    return html.Dialog(
        [html.Div([title, close], className="dialog-head"), html.Dl(rows), all_of_it],
        id="help",
        className="dialog",
        **says(t("shell.help.title", lang)),
    )
