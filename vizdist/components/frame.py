"""What the address puts into the shell: page, rail, header, strip."""

import logging
from collections.abc import Sequence
from typing import Any

from dash import Dash, Input, Output, State
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from vizdist.analysis.report import refusal_text
from vizdist.analysis.selection import Selection
from vizdist.analysis.steps import shown_step
from vizdist.components import shell
from vizdist.components.callbacks import callback
from vizdist.components.cards import not_there
from vizdist.components.header import (
    Moving,
    compare_header,
    library_header,
    moving,
    reference_header,
    run_header,
    run_state,
)
from vizdist.components.help import help_dialog
from vizdist.components.strip import strip
from vizdist.components.view import Live, Page, Route, View, page_of, view_of
from vizdist.i18n import t
from vizdist.store.library import Library
from vizdist.store.problems import TraceError
from vizdist.store.trace import Trace

logger = logging.getLogger(__name__)


def register(app: Dash, library: Library, pages: Sequence[Page]) -> None:
    """The address decides what stands in rail and main, the step what header and strip say."""
    parts = [Output(part, "children") for part in ("main", "skip", "overlay")]
    address = Input("route", "data")
    main_filled, rail_filled = (Input(name, "data") for name in shell.FILLED)

    @callback(app, *parts, Output("title", "data"), address, main_filled)
    def show_page(route: Route, _filled: str | None) -> tuple[Any, ...]:
        page, view, trace = _resolve(library, pages, route)
        body = page.layout(library, view) if page else _lost(library, route)
        skip, keys = t("shell.skip", view.lang), help_dialog(view)
        return body, skip, keys, shell.title(view, trace)

    entries = [Output(place, "children") for place in ("rail", "tabs")]

    @callback(app, *entries, address, rail_filled)
    def show_rail(route: Route, _filled: str | None) -> tuple[list[Component], ...]:
        _, view, trace = _resolve(library, pages, route)
        return shell.rail(pages, view, trace), shell.tabs(pages, view, trace)

    _register_header(app, library, pages)
    seen = [Input(name, "data") for name in ("route", "sel", "step")]

    @callback(app, Output("strip", "children"), *seen)
    def show_strip(route: Route, sel: Selection | None, step: int | None) -> list[Component]:
        _, view, trace = _resolve(library, pages, route)
        return strip(trace, sel, shown_step(trace, step) if trace else None, view, pages)


def _register_header(app: Dash, library: Library, pages: Sequence[Page]) -> None:
    """The address alone makes it, as a viewer may be typing in it; what moves comes into it."""
    changing, follow = [State(name, "data") for name in ("step", "live")], State("follow", "data")

    @callback(app, Output("header", "children"), Input("route", "data"), *changing, follow)
    def show_header(
        route: Route, step: int | None, live: Live | None, follow: bool | None
    ) -> list[Component]:
        _, view, trace = _resolve(library, pages, route)
        if view.page == "reference":
            return reference_header(view.lang)
        if view.page == "compare":
            return compare_header(len(view.runs), view.lang)
        if trace is None:
            return library_header(view.lang)
        running = run_state(live, view, library.outcome(view.trace), is_followed=bool(follow))
        return run_header(trace, shown_step(trace, step), running, view.lang)

    places = [Output(name, "children") for name in ("header-facts", "header-counts")]
    now = [Input(name, "data") for name in ("step", "live")]

    @callback(app, *places, *now, State("route", "data"), follow)
    def show_moving(
        step: int | None, live: Live | None, route: Route, follow: bool | None
    ) -> Moving:
        _, view, trace = _resolve(library, pages, route)
        if trace is None:
            raise PreventUpdate
        running = run_state(live, view, library.outcome(view.trace), is_followed=bool(follow))
        return moving(trace, shown_step(trace, step), running, view.lang)


def _resolve(
    library: Library, pages: Sequence[Page], route: Route
) -> tuple[Page | None, View, Trace | None]:
    """Page, view and run of an address; no page when the address or its run is not there."""
    view = view_of(route)
    try:
        return page_of(pages, view), view, library.open(view.trace) if view.trace else None
    except TraceError as error:
        logger.warning("%s", error)
        return None, View("", "", view.lang), None


def _lost(library: Library, route: Route) -> Component:
    """No such page, no such run, or a run that is there and cannot be read: then why."""
    view = view_of(route)
    if not view.trace:
        return not_there(view.lang, "not_there")
    known = next((entry for entry in library.entries() if entry.id == view.trace), None)
    if known is None:
        return not_there(view.lang, "no_trace")
    try:
        library.open(view.trace)
    except TraceError as error:
        return not_there(
            view.lang, "unreadable", name=known.title, reason=refusal_text(error, view.lang)
        )
    return not_there(view.lang, "not_there")
