"""Summary: what happened, in sentences with numbers; every one links to its proof."""

from collections.abc import Sequence
from typing import Any

from dash import Dash, Input, Output, State, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from vizdist.analysis.bytes_moved import BytesMoved
from vizdist.analysis.look_next import Finding
from vizdist.analysis.loss_curve import LossCurve, loss_curve
from vizdist.analysis.op_totals import OpTotal, totals
from vizdist.analysis.report import finding_texts, problem_text, sentence_values
from vizdist.analysis.sentence import Sentence
from vizdist.analysis.step_split import TaskSplit, split_step
from vizdist.analysis.steps import shown_step, splits_of, steps_around
from vizdist.analysis.summary import Summary, in_progress, summarise
from vizdist.components.bytes_matrix import bytes_matrix
from vizdist.components.callbacks import callback, clientside
from vizdist.components.cards import Children, card, icon, link, rich, swatch
from vizdist.components.charts import chart
from vizdist.components.proof import evidence, proof, span_id
from vizdist.components.run_pictures import loss_says
from vizdist.components.split_bar import split_bars
from vizdist.components.view import Live, Route, View, view_of
from vizdist.components.what_went_wrong import wrong_card
from vizdist.figures.loss import loss_figure
from vizdist.figures.step_columns import columns_figure
from vizdist.figures.theme import PARTS, as_theme
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration, micros, size, tied
from vizdist.store.library import Library
from vizdist.store.liveness import RUNNING
from vizdist.store.trace import Trace

NAME = "summary"
PATH = "/t/{trace}/summary"
SAID_ELSEWHERE = ("closed_form",)  #: under the bytes
NAME_COLUMNS = ("name", "task", "count", "total", "share")
REMARK = "sentence remark"
REMARKS = 4  #: on a trace's files; the report has all
NAMES = 12  #: in the table of a trace without steps
HINTS = 3  #: what a reader looks at next; more would be a list


def layout(library: Library, view: View) -> Component:
    trace = library.open(view.trace)
    seen = _seen(library, view)
    parts = _told(trace, seen, view)
    waits: dict[str, Any] = {"data-bare": "step"} if len(trace.steps) < 2 else {}
    if not seen.times.steps:
        names = [_names_card(trace, view)] if len(trace) else []
        return html.Div([*parts, *names], className="reading summary plain", **waits)
    told = html.Div(parts, id="summary-told", className="as-one")
    side = [_bytes_card(seen.moved, view.lang)]
    if seen.loss.mean:
        side.append(_loss_card(seen.loss, view.lang))
    return html.Div(
        [told, _step_card(trace, view.lang), html.Div(side, className="side")],
        className="reading summary",
        **waits,
    )


def _seen(library: Library, view: View) -> Summary:
    trace = library.open(view.trace)
    goes_on = library.outcome(view.trace) == RUNNING
    return in_progress(trace) if goes_on else summarise(trace)


def _told(trace: Trace, seen: Summary, view: View) -> list[Component]:
    """What is said of the run in words, which grows with it."""
    wrong = [wrong_card(seen.wrong, view)] if seen.wrong else []
    return [_head(trace, seen, view), *wrong, _happened(seen, view), _look_next(seen, view)]


def _head(trace: Trace, seen: Summary, view: View) -> Component:
    """The sentence the page opens with, and the numbers behind it."""
    lines = [_headline(said, view) for said in seen.headline]
    facts = _step_facts(seen) if seen.times.steps else _trace_facts(trace)
    facts.append(("spans", f"{len(trace):,}"))
    lang = view.lang
    rows = [
        html.Div([html.Dt(t(f"summary.fact.{key}", lang)), html.Dd(value)]) for key, value in facts
    ]
    return html.Div([html.H1(lines), html.Dl(rows, className="facts-row")], className="head")


def _headline(said: Sentence, view: View) -> Component:
    """A line of the title; what ended the run has a mark, and leads to where it stood."""
    words = rich(f"analysis.{said.key}", view.lang, **sentence_values(said, view.lang))
    attributes = evidence(said.proof, said.source)
    if not said.key.startswith("cause."):
        return html.Div(words, **attributes)
    line: Children = [icon("warning"), html.Span(words)]
    if said.proof:
        line = link(line, _proof(view, said.page, said.step, said.proof))
    return html.Div(line, className="cause", **attributes)


def _step_facts(seen: Summary) -> list[tuple[str, str]]:
    count = f"{len({step.number for step in seen.times.steps}):,}"
    tasks = len({step.task for step in seen.times.steps})
    return [
        ("step" if count == "1" else "steps", count)
        if tasks == 1
        else ("steps_each", f"{tasks} × {count}"),
        ("run_time", str(duration(seen.times.total))),
        ("moved", str(size(seen.moved.total))),
    ]


def _trace_facts(trace: Trace) -> list[tuple[str, str]]:
    return [
        ("tasks", f"{len(trace.tasks):,}"),
        ("run_time", str(duration(trace.end - trace.start))),
    ]


def _happened(seen: Summary, view: View) -> Component:
    """Sentences with their proof; last what of the trace is missing or was mended."""
    told = [said for said in seen.sentences if not said.key.startswith(SAID_ELSEWHERE)]
    remarks = [
        html.Div([icon("warning"), html.Span(problem_text(problem, view.lang))], className=REMARK)
        for problem in seen.remarks[:REMARKS]
    ]
    body = html.Div([*(_sentence(said, view) for said in told), *remarks], className="sentences")
    return card(t("summary.happened", view.lang), body, name="happened")


def _sentence(said: Sentence, view: View) -> Component:
    """A sentence and the way to its proof: the page that shows it, its step, its span lit."""
    words = html.Span(rich(f"analysis.{said.key}", view.lang, **sentence_values(said, view.lang)))
    parts = [icon(said.page or NAME), words]
    if said.page and said.page != NAME:
        label = [html.Span(t(f"shell.pages.{said.page}", view.lang)), icon("right")]
        parts.append(link(label, _proof(view, said.page, said.step, said.proof), kind="button"))
    return html.Div(parts, className="sentence", **evidence(said.proof, said.source))


def _proof(view: View, page: str, step: int, spans: Sequence[int]) -> str:
    return proof(view, page, step, span_id(spans[0]) if spans else "")


def _look_next(seen: Summary, view: View) -> Component:
    found = [_hint(finding, view) for finding in seen.findings[:HINTS]]
    body = html.Div(found or t("summary.nothing_next", view.lang), className="hints")
    return card(t("summary.next", view.lang), body, name="next")


def _hint(finding: Finding, view: View) -> Component:
    says, remedy = map(tied, finding_texts(finding, view.lang))
    bad = finding.hue == "error"
    words = html.Div([html.B(says), html.Small(remedy)])
    parts = [icon("warning") if bad else swatch(finding.hue), words, icon("right")]
    where = _proof(view, "timeline", finding.step, finding.proof)
    return link(parts, where, **evidence(finding.proof))


def _names_card(trace: Trace, view: View) -> Component:
    """Where nothing is a step: which names the time went to."""
    lang = view.lang
    found = totals(trace, trace.all)[:NAMES]
    head = html.Tr([html.Th(t(f"summary.name.{c}", lang), scope="col") for c in NAME_COLUMNS])
    rows = [
        html.Tr(
            [
                html.Th(_name_link(one, view), scope="row"),
                html.Td(one.task),
                html.Td(f"{one.count:,}"),
                html.Td(str(duration(one.total))),
                html.Td(html.Span(style={"width": f"{100 * one.total / found[0].total:.1f}%"})),
            ]
        )
        for one in found
        if found[0].total
    ]
    table = html.Table([html.Thead(head), html.Tbody(rows)], className="names")
    return card(t("summary.names", lang), table, name="named", note=t("summary.names_note", lang))


def _name_link(one: OpTotal, view: View) -> Component:
    return link(one.name or "–", _proof(view, "timeline", 0, (one.slowest,)), kind="cut")


def _step_card(trace: Trace, lang: Lang) -> Component:
    """One step is told task by task; several also side by side."""
    parts: list[Component] = [html.Div(id="summary-step")]
    if len(trace.steps) > 1:
        parts.append(html.P(id="summary-caption", className="caption"))
        parts.append(chart("summary-columns", t("summary.columns_say", lang)))
    return html.Section(parts, className="card step")


def _bytes_card(moved: BytesMoved, lang: Lang) -> Component:
    matrix = html.Div(_bytes(moved, lang), id="summary-bytes", className="as-one")
    return card(t("summary.bytes", lang), matrix, name="bytes")


def _bytes(moved: BytesMoved, lang: Lang) -> list[Component]:
    per_step = moved.per_step_of_tasks
    tasks = sorted({task for pair in per_step for task in pair})
    if not tasks:
        return [html.P(t("summary.no_bytes", lang))]
    notes = [t("summary.bytes_note", lang)]
    if moved.matches_closed_form:
        notes.append(t("summary.closed_form", lang, variables=f"{moved.variable_bytes:,}"))
    lines = (html.P(tied(note), className="note") for note in notes)
    return [bytes_matrix(tasks, per_step), *lines]


def _loss_card(loss: LossCurve, lang: Lang) -> Component:
    body = chart("summary-loss", loss_says(loss, lang))
    return card(t("summary.loss", lang), body, name="loss")


def split_words(splits: Sequence[TaskSplit], lang: Lang) -> list[Component]:
    first = splits[0]
    values = {"step": f"{first.step.number:,}", "duration": micros(first.total)}
    if len(splits) > 1:
        title = html.H2(t("summary.where_each", lang, step=values["step"]))
    else:
        note = html.Small(t("summary.on_task", lang, task=first.task))
        title = html.H2([t("summary.where", lang, **values), note])
    return [title, split_bars(splits, lang, is_explained=True)]


def _words(lang: Lang) -> dict[str, str]:
    names = {part: t(f"shell.class.{part}", lang) for part in PARTS}
    names["step"] = t("shell.header.step", lang, step="{step}")
    return names | {"steps": t("shell.header.steps", lang), "loss": t("summary.loss", lang)}


def register(app: Dash, library: Library) -> None:
    live = Input("live", "data")
    told = Output("summary-told", "children"), Output("summary-bytes", "children")

    @callback(app, *told, live, State("route", "data"))
    def show_told(live: Live | None, route: Route) -> Any:
        if live is None:
            raise PreventUpdate
        view = view_of(route)
        trace = library.open(view.trace)
        seen = _seen(library, view)
        return _told(trace, seen, view), _bytes(seen.moved, view.lang)

    now = [Input("step", "data"), State("route", "data")]
    drawn = [*now, Input("theme", "data"), live]

    @callback(app, Output("summary-step", "children"), *now)
    def show_split(step: int | None, route: Route) -> list[Component]:
        view = view_of(route)
        trace = library.open(view.trace)
        number = shown_step(trace, step)
        if number is None:
            return []
        is_alone = len(trace.steps) == 1
        splits = split_step(trace, trace.steps[0]) if is_alone else splits_of(trace, number)
        return split_words(splits, view.lang)

    columns = Output("summary-columns", "figure"), Output("summary-caption", "children")

    @callback(app, *columns, *drawn)
    def show_columns(step: int | None, route: Route, theme: str, _live: Live | None) -> Any:
        view = view_of(route)
        trace = library.open(view.trace)
        number = shown_step(trace, step)
        if number is None:
            return no_update, no_update
        row = steps_around(trace, number)
        caption = t("summary.caption", view.lang, task=row.task, count=row.count)
        return columns_figure(row.splits, number, as_theme(theme), _words(view.lang)), caption

    @callback(app, Output("summary-loss", "figure"), *drawn)
    def show_loss(step: int | None, route: Route, theme: str, _live: Live | None) -> Any:
        view = view_of(route)
        trace = library.open(view.trace)
        lines = loss_curve(trace).lines
        return loss_figure(lines, shown_step(trace, step), as_theme(theme), _words(view.lang))

    picked = Output("step", "data", allow_duplicate=True)
    for name in ("summary-columns", "summary-loss"):
        click = Input(name, "clickData")
        clientside(app, "shell.mjs", "pickStep", picked, click, prevent_initial_call=True)
