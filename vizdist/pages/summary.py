"""Summary: what happened, in sentences with numbers; every one links to its proof."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from dash import Dash, Input, Output, State, html, no_update
from dash.development.base_component import Component

from vizdist.analysis.bytes_moved import BytesMoved
from vizdist.analysis.look_next import Finding
from vizdist.analysis.loss_curve import LossCurve, loss_curve
from vizdist.analysis.step_split import TaskSplit
from vizdist.analysis.steps import shown_step, splits_of, steps_around
from vizdist.analysis.summary import Sentence, Summary, summarise
from vizdist.components.bytes_matrix import bytes_matrix
from vizdist.components.callbacks import callback, clientside
from vizdist.components.cards import card, icon, link, rich, swatch
from vizdist.components.charts import chart
from vizdist.components.split_bar import split_bars
from vizdist.components.view import Route, View, view_of
from vizdist.figures.loss import loss_figure
from vizdist.figures.step_columns import columns_figure
from vizdist.figures.theme import PARTS, as_theme
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration, micros, size
from vizdist.store.library import Library
from vizdist.store.trace import Trace

NAME = "summary"
PATH = "/t/{trace}/summary"
SAID_ELSEWHERE = ("closed_form", "ended.")  #: under the bytes, and first of what to look at
HINTS = 3  #: what a reader looks at next; more would be a list


def layout(library: Library, view: View) -> Component:
    trace = library.open(view.trace)
    seen = summarise(trace)
    return html.Div(
        [
            _head(trace, seen, view.lang),
            _happened(seen, view),
            _look_next(seen, view),
            _step_card(view.lang),
            html.Div(
                [_bytes_card(seen.moved, view.lang), _loss_card(seen.loss, view.lang)],
                className="side",
            ),
        ],
        className="reading summary",
    )


def _head(trace: Trace, seen: Summary, lang: Lang) -> Component:
    """The sentence the page opens with, and the numbers behind it."""
    lines = [html.Div(rich(f"analysis.{said.key}", lang, **said.values)) for said in seen.headline]
    steps = len({step.number for step in seen.times.steps})
    facts = [
        ("steps", f"{steps:,}"),
        ("run_time", str(duration(seen.times.total))),
        ("moved", str(size(seen.moved.total))),
        ("spans", f"{len(trace):,}"),
    ]
    rows = [
        html.Div([html.Dt(t(f"summary.fact.{key}", lang)), html.Dd(value)]) for key, value in facts
    ]
    return html.Div([html.H1(lines), html.Dl(rows, className="facts-row")], className="head")


def _happened(seen: Summary, view: View) -> Component:
    told = [said for said in seen.sentences if not said.key.startswith(SAID_ELSEWHERE)]
    body = html.Div([_sentence(said, view) for said in told], className="sentences")
    return card(t("summary.happened", view.lang), body, name="happened")


def _sentence(said: Sentence, view: View) -> Component:
    """A sentence and the way to its proof: the page that shows it, its step, its span lit."""
    words = html.Span(rich(f"analysis.{said.key}", view.lang, **said.values))
    parts = [icon(said.page or NAME), words]
    if said.page and said.page != NAME:
        label = [t(f"shell.pages.{said.page}", view.lang), icon("right")]
        parts.append(link(label, _proof(view, said.page, said.step, said.proof), kind="button"))
    return html.Div(parts, className="sentence")


def _proof(view: View, page: str, step: int, proof: Sequence[int]) -> str:
    query = {"step": str(step)} if step else {}
    if proof and proof[0]:
        query["sel"] = f"span:{proof[0]:016x}"
    return f"/t/{view.trace}/{page}" + (f"?{urlencode(query, safe=':')}" if query else "")


def _look_next(seen: Summary, view: View) -> Component:
    found = [_hint(finding, view) for finding in seen.findings[:HINTS]]
    body = html.Div(found or t("summary.nothing_next", view.lang), className="hints")
    return card(t("summary.next", view.lang), body, name="next")


def _hint(finding: Finding, view: View) -> Component:
    key = f"analysis.look.{finding.key}"
    bad = finding.hue == "error"
    words = html.Div(
        [
            html.B(t(f"{key}.says", view.lang, **finding.values)),
            html.Small(t(f"{key}.remedy", view.lang, **finding.values)),
        ]
    )
    parts = [icon("warning") if bad else swatch(finding.hue), words, icon("right")]
    return link(parts, _proof(view, "timeline", finding.step, finding.proof))


def _step_card(lang: Lang) -> Component:
    return html.Section(
        [
            html.Div(id="summary-step"),
            html.P(id="summary-caption", className="caption"),
            chart("summary-columns", t("summary.columns_say", lang)),
        ],
        className="card step",
    )


def _bytes_card(moved: BytesMoved, lang: Lang) -> Component:
    per_step = {pair: round(count / moved.num_steps) for pair, count in moved.by_task.items()}
    tasks = sorted({task for pair in per_step for task in pair})
    note = t("summary.closed_form", lang, variables=f"{moved.variable_bytes:,}")
    body = [
        bytes_matrix(tasks, per_step) if tasks else html.P(t("summary.no_bytes", lang)),
        *([html.P(note, className="note")] if moved.matches_closed_form else []),
    ]
    return card(t("summary.bytes", lang), body, name="bytes")


def _loss_card(loss: LossCurve, lang: Lang) -> Component:
    points = loss.main
    if not points:
        return card(t("summary.loss", lang), html.P(t("summary.no_loss", lang)), name="loss")
    values = {"first": f"{points[0][1]:.3f}", "last": f"{points[-1][1]:.3f}"}
    body = chart("summary-loss", t("summary.loss_says", lang, **values))
    return card(t("summary.loss", lang), body, name="loss")


def _splits(splits: Sequence[TaskSplit], lang: Lang) -> list[Component]:
    first = splits[0]
    values = {"step": f"{first.step.number:,}", "duration": micros(first.total)}
    if len(splits) > 1:
        title = html.H2(t("summary.where_each", lang, **values))
    else:
        note = html.Small(t("summary.on_task", lang, task=first.task))
        title = html.H2([t("summary.where", lang, **values), note])
    return [title, split_bars(splits, lang)]


def _words(lang: Lang) -> dict[str, str]:
    names = {part: t(f"shell.class.{part}", lang) for part in PARTS}
    names["step"] = t("shell.header.step", lang, step="{step}")
    return names | {"steps": t("shell.header.steps", lang), "loss": t("summary.loss", lang)}


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
        return columns_figure(row.splits, number, as_theme(theme), _words(view.lang))

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
