"""Library: every run that is open here, one row each."""

import re
import time
from collections.abc import Sequence
from functools import lru_cache
from statistics import median_low
from typing import Any

from dash import Dash, Input, Output, State, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from vizdist.analysis.faults_told import asked_text
from vizdist.analysis.overview import Overview, entry_outcome, overview
from vizdist.analysis.report import problem_text, refusal_text
from vizdist.components import start_run, upload
from vizdist.components.callbacks import callback
from vizdist.components.cards import HIDDEN, chip, empty, icon, link
from vizdist.components.run_pictures import loss_line, step_dots, task_squares
from vizdist.components.view import Live, Route, View, view_of
from vizdist.components.what_went_wrong import wrong_chip
from vizdist.figures.spark import Scale, scale_of
from vizdist.i18n import Lang, t
from vizdist.i18n.units import size
from vizdist.store.library import Entry, Library
from vizdist.store.liveness import LOST, RUNNING
from vizdist.store.problems import TraceError

NAME = "library"
PATH = "/"
COLUMNS = ("run", "tasks", "loss", "time", "moved", "faults", "compare")

Row = tuple[Entry, Overview | TraceError]  #: or why the trace cannot be opened


def layout(library: Library, view: View) -> Component:
    told: dict[str, Any] = {"data-seen": 0}  # the number of the state that it shows
    runs = html.Div(_runs(library, view), id="library-runs", className="as-one", **told)
    shelf = html.Div([runs, upload.opener(view.lang)], className="shelf")
    return html.Div([shelf, start_run.panel(view.lang)], className="reading library")


def _runs(library: Library, view: View) -> list[Component]:
    rows = [(entry, _overview(library, entry.id, entry.changed_ns)) for entry in library.entries()]
    if not rows:
        title = html.H1(t("library.no_runs", view.lang))
        return [title, _how_to_begin(view.lang)]
    title = html.H1(t("library.runs", view.lang, count=len(rows)))
    return [title, _table(rows, view.lang)]


@lru_cache(maxsize=1000)
def _overview(library: Library, trace: str, _changed_ns: int) -> Overview | TraceError:
    """Kept until the trace changes: a library keeps fewer traces open than it may list."""
    try:
        return overview(library.open(trace))
    except TraceError as error:
        return error


def _table(rows: Sequence[Row], lang: Lang) -> Component:
    times = [seen.durations_ns for _, seen in rows if isinstance(seen, Overview)]
    scale = scale_of([median_low(durations) for durations in times if durations])
    head = [html.Th(_title(name, scale, lang), scope="col") for name in COLUMNS]
    body = [_row(entry, seen, scale, lang) for entry, seen in rows]
    found: dict[str, Any] = {"data-none": t("library.none_found", lang)}
    return html.Section(
        html.Table([html.Thead(html.Tr(head)), html.Tbody(body, **found)], className="runs"),
        className="card flush",
    )


def _row(entry: Entry, seen: Overview | TraceError, scale: Scale, lang: Lang) -> Component:
    name = _name(entry, lang)
    if isinstance(seen, TraceError):
        why = html.Span(refusal_text(seen, lang))
        words = [html.B(t("library.unreadable", lang)), why]
        broken = html.Div([icon("warning"), html.Div(words)], className="broken")
        row = [
            html.Td(name, className="cell-run"),
            html.Td(broken, colSpan=len(COLUMNS) - 1, className="cell-faults"),
        ]
        return html.Tr(row, className="run")
    cells = [
        name,
        task_squares(seen.tasks, lang),
        *(_measured(seen, scale, lang)),
        _state(entry, seen, lang),
        _compare(entry, lang),
    ]
    return html.Tr(
        [
            html.Td(cell, className=f"cell-{column}", **_label(_title(column, scale, lang)))
            for column, cell in zip(COLUMNS, cells, strict=True)
        ],
        className="run",
    )


def _title(column: str, scale: Scale, lang: Lang) -> str:
    name = "time_by_powers" if column == "time" and scale.low else column
    return t(f"library.columns.{name}", lang)


def _label(title: str) -> dict[str, Any]:
    """On a phone, which has no line of heads, a picture has its own."""
    return {"data-label": title}


def _measured(seen: Overview, scale: Scale, lang: Lang) -> list[Component | str]:
    """Loss, times and bytes of steps; a trace without steps has none of them."""
    if not seen.durations_ns:
        return [html.Span("–", className="hint"), step_dots((), scale, lang), "–"]
    loss, times = loss_line(seen.loss, lang), step_dots(seen.durations_ns, scale, lang)
    return [loss, times, str(size(seen.step_bytes))]


def _name(entry: Entry, lang: Lang) -> Component:
    manifest = entry.manifest
    is_ours = bool(manifest.run_id)
    strategy = manifest.strategy or t("library.graph_run" if is_ours else "library.foreign", lang)
    kind = " · ".join(part for part in (manifest.workload, _age(entry.changed_ns, lang)) if part)
    return html.Div(
        [
            link(entry.title, f"/t/{entry.id}/summary", kind="run-link"),
            html.Span(strategy, className="run-strategy"),
            html.Span(kind, className="run-kind"),
        ],
        className="run-words",
    )


def _compare(entry: Entry, lang: Lang) -> Component:
    """The way to put another run beside this one."""
    label = t("compare.library_says", lang, name=entry.title)
    attributes: dict[str, Any] = {"title": label, "aria-label": label}
    path = f"/compare?runs={entry.id}"
    return link(icon("compare"), path, kind="icon-button compare-link", **attributes)


def _age(changed_ns: int, lang: Lang) -> str:
    minutes = int(time.time() - changed_ns / 1e9) // 60
    for unit, length in (("days", 1440), ("hours", 60), ("minutes", 1)):
        if minutes >= length:
            return t(f"library.{unit}", lang, count=minutes // length)
    return t("library.now", lang)


def _state(entry: Entry, seen: Overview, lang: Lang) -> Component:
    """How far a run is that goes on; of one that is over, what went wrong."""
    outcome = entry_outcome(entry, time.time_ns())
    if outcome == LOST:
        words = [icon("warning"), html.Span(t("library.lost", lang))]
        return html.Div(chip(words, kind="error"), className="faults")
    if outcome != RUNNING:
        return _faults(seen, lang)
    steps = "steps_of" if seen.of_steps else "steps_so_far"
    far = t(f"library.{steps}", lang, step=f"{seen.step:,}", of=f"{seen.of_steps:,}")
    spans = t("library.spans_so_far", lang, count=seen.spans)
    pulse = html.Span(className="pulse", **HIDDEN)
    words = [chip([pulse, t("library.running", lang)], kind="strong running")]
    return html.Div([*words, html.Span(f"{far} · {spans}")], className="faults")


def _faults(seen: Overview, lang: Lang) -> Component:
    """What was asked for, then the root cause; what follows from it is counted."""
    counts = [t(f"library.faults.{key}", lang, count=count) for key, count in seen.counts.items()]
    chips: list[Component] = [chip(_breaking(asked_text(one, lang))) for one in seen.asked]
    chips += wrong_chip(seen.wrong, lang) if seen.wrong else []
    if counts and seen.wrong is None:
        chips.append(chip([icon("warning"), html.Span(" · ".join(counts))], kind="error"))
    elif counts:
        chips.append(chip(" · ".join(counts)))
    if seen.remarks:
        words = t("library.faults.remarks", lang, count=len(seen.remarks))
        chips.append(chip(words, title="\n".join(problem_text(p, lang) for p in seen.remarks)))
    return html.Div(chips or t("library.no_faults", lang), className="faults")


def _breaking(words: str) -> list[Component | str]:
    """A line may end after a part of a fault: `kill:ps:1@`."""
    first, *rest = re.split("(?<=[:@])", words)
    return [first, *(piece for part in rest for piece in (html.Wbr(), part))]


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


def register(app: Dash, library: Library) -> None:
    """Rows are links; finding is done in the browser. What came, grew or ended is shown at once."""
    upload.register(app)
    start_run.register(app)

    told = [Output("library-runs", name) for name in ("children", "data-seen")]

    @callback(app, *told, Input("live", "data"), State("route", "data"))
    def show_runs(live: Live | None, route: Route) -> tuple[list[Component], int]:
        if live is None:
            raise PreventUpdate
        return _runs(library, view_of(route)), live["seen"]
