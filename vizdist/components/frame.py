"""What the address puts into the shell: page, rail, header, strip.

Whoever opens an address is answered with all of it; afterwards the address decides what stands in
rail and main, the step what header and strip say.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dash import Dash, Input, Output, State
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from vizdist.analysis.report import refusal_text
from vizdist.analysis.selection import Selection
from vizdist.analysis.steps import shown_step
from vizdist.components import shell
from vizdist.components.callbacks import TIED, callback
from vizdist.components.cards import not_there
from vizdist.components.header import (
    Moving,
    Running,
    compare_header,
    library_header,
    moving,
    reference_header,
    run_header,
    run_state,
)
from vizdist.components.help import help_dialog
from vizdist.components.plain import folded
from vizdist.components.strip import strip
from vizdist.components.view import (
    Address,
    Live,
    Page,
    Route,
    View,
    page_of,
    read_address,
    view_of,
)
from vizdist.i18n import t
from vizdist.store.library import Library
from vizdist.store.problems import TraceError
from vizdist.store.trace import Trace

logger = logging.getLogger(__name__)

LANG_COOKIE = "vizdist_lang"  #: what assets/boot.js chose, for the answer to its page


@dataclass(frozen=True)
class Frame:
    """What each part of the shell holds, of the address and the stores."""

    library: Library
    pages: Sequence[Page]

    def opened(self, address: Address) -> Component:
        """The whole shell at an address, so that a browser's first answer is the page itself."""
        route, sel, step, stage = address
        main, skip, overlay, title = self.page(route)
        rail, tabs = self.rail(route)
        parts = {"main": main, "skip": skip, "overlay": overlay, "rail": rail, "tabs": tabs}
        parts["header"] = self.header(route, step, None, None)
        parts["strip"] = self.strip(route, sel, step)
        data = {"route": route, "title": title, "sel": sel, "step": step, "stage": stage}
        layout: Component = folded(shell.skeleton(parts, data), TIED)
        return layout

    def page(self, route: Route, _filled: str | None = None) -> tuple[Any, ...]:
        page, view, trace = self._resolve(route)
        body = page.layout(self.library, view) if page else self._lost(route)
        skip, keys = t("shell.skip", view.lang), help_dialog(view)
        named = view if page else replace(view, page="")
        return body, skip, keys, shell.title(named, trace)

    def rail(self, route: Route, _filled: str | None = None) -> tuple[list[Component], ...]:
        _, view, trace = self._resolve(route)
        return shell.rail(self.pages, view, trace), shell.tabs(self.pages, view, trace)

    def strip(self, route: Route, sel: Selection | None, step: int | None) -> list[Component]:
        _, view, trace = self._resolve(route)
        number = shown_step(trace, step) if trace else None
        return strip(trace, sel, number, view, self.pages)

    def header(
        self, route: Route, step: int | None, live: Live | None, follow: bool | None
    ) -> list[Component]:
        _, view, trace = self._resolve(route)
        if view.page == "reference":
            return reference_header(view.lang)
        if view.page == "compare":
            return compare_header(len(view.runs), view.lang)
        if trace is None:
            return library_header(view.lang)
        running = self._running(view, live, follow)
        return run_header(trace, shown_step(trace, step), running, view.lang)

    def moving(
        self, step: int | None, live: Live | None, route: Route, follow: bool | None
    ) -> Moving:
        """What comes into the header, as a viewer may be typing in what stands there."""
        _, view, trace = self._resolve(route)
        if trace is None:
            raise PreventUpdate
        running = self._running(view, live, follow)
        return moving(trace, shown_step(trace, step), running, view.lang)

    def _running(self, view: View, live: Live | None, follow: bool | None) -> Running:
        return run_state(live, view, self.library.outcome(view.trace), is_followed=bool(follow))

    def _resolve(self, route: Route) -> tuple[Page | None, View, Trace | None]:
        """Page, view and run of an address; no page when the address or its run is not there."""
        view = view_of(route)
        try:
            trace = self.library.open(view.trace) if view.trace else None
        except TraceError as error:
            logger.warning("%s", error)
            return None, View("", "", view.lang), None
        return page_of(self.pages, view), view, trace

    def _lost(self, route: Route) -> Component:
        """No such page, no such run, or a run that is there and cannot be read: then why."""
        view = view_of(route)
        if not view.trace:
            return not_there(view.lang, "not_there")
        known = next((entry for entry in self.library.entries() if entry.id == view.trace), None)
        if known is None:
            return not_there(view.lang, "no_trace")
        try:
            self.library.open(view.trace)
        except TraceError as error:
            return not_there(
                view.lang, "unreadable", name=known.title, reason=refusal_text(error, view.lang)
            )
        return not_there(view.lang, "not_there")


def register(app: Dash, frame: Frame) -> None:
    """What changes after the page was opened; `Frame.opened` is what stood there at first."""
    route, step, live = (Input(name, "data") for name in ("route", "step", "live"))
    main_filled, rail_filled = (Input(name, "data") for name in shell.FILLED)
    parts = [Output(part, "children") for part in ("main", "skip", "overlay")]
    later = {"prevent_initial_call": True}
    callback(app, *parts, Output("title", "data"), route, main_filled, **later)(frame.page)
    entries = [Output(place, "children") for place in ("rail", "tabs")]
    callback(app, *entries, route, rail_filled, **later)(frame.rail)
    sel = Input("sel", "data")
    callback(app, Output("strip", "children"), route, sel, step, **later)(frame.strip)
    now = [State(name, "data") for name in ("step", "live", "follow")]
    callback(app, Output("header", "children"), route, *now, **later)(frame.header)
    places = [Output(name, "children") for name in ("header-facts", "header-counts")]
    known = [State(name, "data") for name in ("route", "follow")]
    callback(app, *places, step, live, *known)(frame.moving)


def layout(app: Dash, frame: Frame) -> Component:
    """The page that the browser is at, which it says as it asks; else the shell without one."""
    try:
        asked: Any = app.backend.request_adapter()
        lang = asked.cookies.get(LANG_COOKIE, "")
        url = asked.headers.get("referer", "")
        address = read_address(url, app.config.requests_pathname_prefix, lang)
        if address and lang:
            return frame.opened(address)
    except Exception:  # the browser will ask for the page once more
        logger.exception("the page could not be opened at once")
    return shell.skeleton()
