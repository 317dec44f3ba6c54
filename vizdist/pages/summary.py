"""Summary: what happened, in sentences with numbers; every one links to its proof."""

from collections.abc import Sequence
from typing import Any

from dash import Dash, Input, Output, State, html, no_update
from dash.development.base_component import Component

from vizdist.analysis.bytes_moved import bytes_moved
from vizdist.analysis.loss_curve import loss_curve
from vizdist.analysis.step_split import TaskSplit
from vizdist.analysis.steps import shown_step, splits_of, steps_around
from vizdist.components.bytes_matrix import bytes_matrix
from vizdist.components.callbacks import callback, clientside
from vizdist.components.cards import card
from vizdist.components.charts import chart
from vizdist.components.split_bar import split_bar
from vizdist.components.view import Route, View, view_of
from vizdist.figures.loss import loss_figure
from vizdist.figures.step_columns import columns_figure
from vizdist.figures.theme import PARTS, as_theme
from vizdist.i18n import Lang, t
from vizdist.i18n.units import micros
from vizdist.store.library import Library
from vizdist.store.trace import Trace

NAME = "summary"
PATH = "/t/{trace}/summary"


def layout(library: Library, view: View) -> Component:
    trace = library.open(view.trace)
    side = [_bytes_card(trace, view.lang), _loss_card(trace, view.lang)]
    return html.Div(
        [_step_card(view.lang), html.Div(side, className="side")], className="reading summary"
    )


def _step_card(lang: Lang) -> Component:
    return html.Section(
        [
            html.Div(id="summary-step"),
            html.P(id="summary-caption", className="caption"),
            chart("summary-columns", t("summary.columns_say", lang)),
        ],
        className="card step",
    )


def _bytes_card(trace: Trace, lang: Lang) -> Component:
    moved = bytes_moved(trace)
    per_step = {pair: round(count / moved.num_steps) for pair, count in moved.by_task.items()}
    tasks = sorted({task for pair in per_step for task in pair})
    note = t("summary.closed_form", lang, variables=f"{moved.variable_bytes:,}")
    body = [
        bytes_matrix(tasks, per_step) if tasks else html.P(t("summary.no_bytes", lang)),
        *([html.P(note, className="note")] if moved.matches_closed_form else []),
    ]
    return card(t("summary.bytes", lang), body, name="bytes")


def _loss_card(trace: Trace, lang: Lang) -> Component:
    points = loss_curve(trace).main
    if not points:
        return card(t("summary.loss", lang), html.P(t("summary.no_loss", lang)), name="loss")
    values = {"first": f"{points[0][1]:.3f}", "last": f"{points[-1][1]:.3f}"}
    body = chart("summary-loss", t("summary.loss_says", lang, **values))
    return card(t("summary.loss", lang), body, name="loss")


def _splits(splits: Sequence[TaskSplit], lang: Lang) -> list[Component]:
    """A bar a worker that runs the step; asynchronous workers each run one of the same number."""
    return [
        part for split in splits for part in (_title(split, lang), split_bar(split.parts, lang))
    ]


def _title(split: TaskSplit, lang: Lang) -> Component:
    values = {"step": f"{split.step.number:,}", "duration": micros(split.total)}
    note = html.Small(t("summary.on_task", lang, task=split.task))
    return html.H2([t("summary.where", lang, **values), note])


def _words(lang: Lang) -> dict[str, str]:
    names = {part: t(f"shell.class.{part}", lang) for part in PARTS}
    return names | {"step": t("shell.header.steps", lang), "loss": t("summary.loss", lang)}


def register(app: Dash, library: Library) -> None:
    now = [Input("step", "data"), State("route", "data")]
    drawn = [*now, Input("theme", "data")]

    @callback(app, Output("summary-step", "children"), *now)
    def show_split(step: int | None, route: Route) -> list[Component]:
        view = view_of(route)
        trace = library.open(view.trace)
        number = shown_step(trace, step)
        return _splits(splits_of(trace, number), view.lang) if number is not None else []

    @callback(app, Output("summary-columns", "figure"), *drawn)
    def show_columns(step: int | None, route: Route, theme: str) -> Any:
        view = view_of(route)
        trace = library.open(view.trace)
        number = shown_step(trace, step)
        if number is None:
            return no_update
        row = steps_around(trace, number)
        return columns_figure(row.splits, number, as_theme(theme), _words(view.lang), {})

    @callback(app, Output("summary-loss", "figure"), *drawn)
    def show_loss(step: int | None, route: Route, theme: str) -> Any:
        view = view_of(route)
        trace = library.open(view.trace)
        lines = loss_curve(trace).lines
        return loss_figure(lines, shown_step(trace, step), as_theme(theme), _words(view.lang))

    @callback(app, Output("summary-caption", "children"), *now)
    def show_caption(step: int | None, route: Route) -> str:
        view = view_of(route)
        trace = library.open(view.trace)
        number = shown_step(trace, step)
        if number is None:
            return t("summary.no_steps", view.lang)
        row = steps_around(trace, number)
        return t("summary.caption", view.lang, task=row.task, count=f"{row.count:,}")

    picked = Output("step", "data", allow_duplicate=True)
    for name in ("summary-columns", "summary-loss"):
        click = Input(name, "clickData")
        clientside(app, "shell.mjs", "pickStep", picked, click, prevent_initial_call=True)
