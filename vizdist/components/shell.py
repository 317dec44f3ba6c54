"""The frame over every page: header, rail, main, selection strip, tab bar.

What a viewer looks at is in the address bar and nowhere else; assets/selection.mjs reads it into
the stores below, and every view depends on those.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from vizdist.analysis.collectives import has_collectives
from vizdist.analysis.mailbox import crosses
from vizdist.analysis.reduced_to_one import has_sums
from vizdist.analysis.who_saw_what import has_data
from vizdist.components.callbacks import clientside
from vizdist.components.cards import icon, link
from vizdist.components.view import Page, View
from vizdist.i18n import t
from vizdist.store.trace import Trace

STORES = ("route", "title", "sel", "step", "stage", "theme", "steps", "live", "follow")
FILLED = ("filled-main", "filled-rail")  #: stores that make a place anew which had nothing to show
_GROUP_ENDS = ("library", "replay", "data")  #: pages after which the rail has a rule
_POLITE: dict[str, Any] = {"aria-live": "polite"}
_TABS = ("summary", "graph", "timeline", "replay")  #: what a phone has room for, beside More
#: Single keys that go to a page.
_KEYS = {
    "graph": "g",
    "timeline": "t",
    "replay": "r",
    "rendezvous": "v",
    "strategy": "y",
    "collectives": "c",
    "variables": "b",
    "data": "x",
}

_INK = ["#F5F4F0", "#ECEAE4", "#DEDBD2", "#C6C8CB", "#8C897F", "#62686F", "#454B53", "#2C323A"]
_MANTINE = {
    "primaryColor": "ink",
    "primaryShade": {"light": 9, "dark": 0},
    "autoContrast": True,
    "colors": {"ink": [*_INK, "#1A1E24", "#16191D"]},
    "defaultRadius": 6,
    "fontFamily": "var(--font)",
    "fontFamilyMonospace": "var(--mono)",
    "focusRing": "never",
}


def skeleton(parts: Mapping[str, Any] = {}, data: Mapping[str, Any] = {}) -> Component:
    """The layout that never changes; pages and words are put into it, at first `parts`.

    `data` is what the stores hold at first.
    """
    layout: Component = dmc.MantineProvider(
        [
            dcc.Location(id="url", refresh=False),
            *(_store(name, data.get(name)) for name in (*STORES, *FILLED)),
            html.A(parts.get("skip"), id="skip", href="#main", className="skip"),
            html.Header(parts.get("header"), id="header", className="header"),
            html.Nav(parts.get("rail"), id="rail", className="rail"),
            html.Main(parts.get("main"), id="main", className="main", tabIndex=-1),
            html.Footer(parts.get("strip"), id="strip", className="strip", **_POLITE),
            html.Nav(parts.get("tabs"), id="tabs", className="tabs"),
            html.Div(parts.get("overlay"), id="overlay"),
        ],
        id="mantine",
        theme=_MANTINE,
    )
    return layout


def _store(name: str, data: Any) -> Component:
    """A store that is told of None takes it for a change, and wakes whoever reads it."""
    return dcc.Store(id=name) if data is None else dcc.Store(id=name, data=data)


def rail(pages: Sequence[Page], view: View, trace: Trace | None) -> list[Component]:
    """One entry a built page. Pages of a run are there only when a run is open."""
    return [_entry(page, view, trace) for page in _shown(pages, view)]


def tabs(pages: Sequence[Page], view: View, trace: Trace | None) -> list[Component]:
    """The rail of a phone: of a run what is looked at most, and the rest behind More."""
    shown = _shown(pages, view)
    first = [page for page in shown if page.NAME in _TABS] or shown
    rest = [page for page in shown if page not in first]
    entries = [_entry(page, view, trace) for page in first]
    if not rest:
        return entries
    here: dict[str, Any] = {}
    if view.page in [page.NAME for page in rest]:
        here["aria-current"] = "true"
    words = [icon("menu"), html.Span(t("shell.more_pages", view.lang))]
    others = html.Div([_entry(page, view, trace) for page in rest], className="tabs-rest")
    return [*entries, html.Details([html.Summary(words, className="rail-item", **here), others])]


def _shown(pages: Sequence[Page], view: View) -> list[Page]:
    return [page for page in pages if "{trace}" not in page.PATH or view.trace]


def title(view: View, trace: Trace | None) -> str:
    """The tab says run, page and product."""
    page = [t(f"shell.pages.{view.page}", view.lang)] if view.page else []
    return " · ".join([*([trace.title] if trace else []), *page, "vizdist"])


def _entry(page: Page, view: View, trace: Trace | None) -> Component:
    """A page the run has nothing for stays in its place, pale, and says why."""
    name = page.NAME
    attributes = {"aria-current": "page"} if view.page == name else {}
    if name in _KEYS:
        attributes["data-key"] = _KEYS[name]
    kind = "rail-item ends-group" if name in _GROUP_ENDS else "rail-item"
    if trace is not None and (key := missing(name, trace)):
        attributes |= {"title": t(key, view.lang), "aria-disabled": "true"}
        attributes["data-bare"] = "step"  # while the run goes on it may yet come
    children = [icon(name), html.Span(t(f"shell.pages.{name}", view.lang))]
    chosen = f"?runs={view.trace}" if name == "compare" and view.trace else ""
    return link(children, view.href(page.PATH) + chosen, kind=kind, **attributes)


def missing(name: str, trace: Trace) -> str:
    """The text that says what a run lacks for a page; "" where it has what is shown there."""
    if name in ("graph", "replay") and not trace.graphs:
        return "graph.no_graph"
    if name == "collectives" and not (has_collectives(trace) or has_sums(trace)):
        return "collectives.none"
    if name == "data" and not has_data(trace):
        return "data.none"
    return "rendezvous.nothing_crossed" if name == "rendezvous" and not crosses(trace) else ""


def register(app: Dash) -> None:
    """Address bar ↔ stores, theme and keys; all of it runs in the browser."""
    here = [Input("url", "pathname"), Input("url", "search")]
    read = [Output(name, "data") for name in ("route", "sel", "step", "stage", "theme")]
    now = [State(name, "data") for name in ("route", "sel", "step", "stage", "theme")]
    clientside(app, "selection.mjs", "readAddress", read, here, now)
    kept = [Input(name, "data") for name in ("sel", "step", "stage")]
    clientside(app, "selection.mjs", "writeAddress", kept, prevent_initial_call=True)
    mantine = Output("mantine", "forceColorScheme")
    clientside(app, "shell.mjs", "applyTheme", mantine, Input("theme", "data"))
    clientside(app, "shell.mjs", "start", Input("title", "data"))
