"""Library: every run that is open here, one row each."""

import time
from collections.abc import Sequence
from statistics import median_low

from dash import Dash, html
from dash.development.base_component import Component

from vizdist.analysis.overview import Overview, overview
from vizdist.components.cards import chip, empty, icon, link
from vizdist.components.run_pictures import loss_line, step_dots, task_squares
from vizdist.components.view import View
from vizdist.i18n import Lang, t
from vizdist.i18n.units import size
from vizdist.store.library import Entry, Library
from vizdist.store.problems import TraceError

NAME = "library"
PATH = "/"
COLUMNS = ("run", "tasks", "loss", "time", "moved", "faults")

Row = tuple[Entry, Overview | None]


def layout(library: Library, view: View) -> Component:
    rows = [(entry, _overview(library, entry)) for entry in library.entries()]
    if not rows:
        title = html.H1(t("library.no_runs", view.lang))
        return html.Div([title, _how_to_begin(view.lang)], className="reading library")
    title = html.H1(t("library.runs", view.lang, count=len(rows)))
    return html.Div([title, _table(rows, view.lang)], className="reading library")


def _overview(library: Library, entry: Entry) -> Overview | None:
    """None: the trace cannot be opened; its row says so."""
    try:
        return overview(library.open(entry.id))
    except TraceError:
        return None


def _table(rows: Sequence[Row], lang: Lang) -> Component:
    head = [html.Th(t(f"library.columns.{name}", lang), scope="col") for name in COLUMNS]
    medians = [median_low(seen.durations_ns) for _, seen in rows if seen and seen.durations_ns]
    scale_ns = 3 * max(medians, default=0)  # one scale for all runs; slower steps lie at its end
    body = [_row(entry, seen, scale_ns, lang) for entry, seen in rows]
    return html.Section(
        html.Table([html.Thead(html.Tr(head)), html.Tbody(body)], className="runs"),
        className="card flush",
    )


def _row(entry: Entry, seen: Overview | None, scale_ns: int, lang: Lang) -> Component:
    name = _name(entry, lang)
    if seen is None:
        broken = chip([icon("warning"), t("library.unreadable", lang)], kind="error")
        return html.Tr([html.Td(name), html.Td(broken, colSpan=len(COLUMNS) - 1)], className="run")
    cells = [
        name,
        task_squares(seen.tasks, lang),
        loss_line(seen.losses, lang),
        step_dots(seen.durations_ns, scale_ns, lang),
        str(size(seen.step_bytes)),
        _faults(seen, lang),
    ]
    return html.Tr(
        [
            html.Td(cell, className=f"cell-{column}")
            for column, cell in zip(COLUMNS, cells, strict=True)
        ],
        className="run",
    )


def _name(entry: Entry, lang: Lang) -> Component:
    manifest = entry.manifest
    strategy = manifest.strategy or t("library.foreign", lang)
    kind = " · ".join(part for part in (manifest.workload, _age(entry.changed_ns, lang)) if part)
    return html.Div(
        [
            link(entry.title, f"/t/{entry.id}/summary", kind="run-link"),
            html.Span(strategy, className="run-strategy"),
            html.Span(kind, className="run-kind"),
        ],
        className="run-words",
    )


def _age(changed_ns: int, lang: Lang) -> str:
    minutes = int(time.time() - changed_ns / 1e9) // 60
    for unit, length in (("days", 1440), ("hours", 60), ("minutes", 1)):
        if minutes >= length:
            return t(f"library.{unit}", lang, count=minutes // length)
    return t("library.now", lang)


def _faults(seen: Overview, lang: Lang) -> Component:
    chips = [
        chip([icon("warning"), t(f"library.faults.{key}", lang, **values)], kind="error")
        for key, values in seen.faults
    ]
    return html.Div(chips or t("library.no_faults", lang), className="faults")


def _how_to_begin(lang: Lang) -> Component:
    commands = [
        html.Div([html.Code(command), html.Span(t(f"library.{name}", lang))])
        for name, command in (
            ("demo", "vizdist demo"),
            ("run", "tracer run digits-mlp --strategy parameter_server_v1 --ps 1 --workers 2"),
            ("serve", "vizdist serve NAME.trace"),
        )
    ]
    return empty(t("library.empty_title", lang), html.Div(commands, className="commands"))


def register(_app: Dash, _library: Library) -> None:
    """Rows are links; finding is done in the browser."""
