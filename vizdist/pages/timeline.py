"""Timeline: tasks and lanes over time at any zoom; below, where the step went and a span whole."""

import json
from collections.abc import Sequence
from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from vizdist.analysis.lit import lit_by
from vizdist.analysis.selection import Selection
from vizdist.analysis.step_split import TaskSplit
from vizdist.analysis.steps import shown_step, splits_of
from vizdist.components.callbacks import callback, clientside
from vizdist.components.cards import empty, swatch
from vizdist.components.span_card import span_card
from vizdist.components.split_bar import split_bars
from vizdist.components.toolbar import choice, picture_buttons, table_button
from vizdist.components.view import Route, View, view_of
from vizdist.i18n import Lang, catalogue, t
from vizdist.i18n.units import duration, micros, percentages
from vizdist.store.library import Library

NAME = "timeline"
PATH = "/t/{trace}/timeline"
MODES = ("step", "window", "run")
LEGEND = ("compute", "update", "send", "transfer", "wait", "queueing", "runtime")
_FILL = {"runtime": "rpc"}


def layout(library: Library, view: View) -> Component:
    trace = library.open(view.trace)
    if not len(trace):
        words = empty(t("timeline.no_spans", view.lang), t("timeline.no_spans_next", view.lang))
        waits: dict[str, Any] = {"data-bare": "rows"}
        return html.Div(words, className="reading alone", **waits)
    canvas: dict[str, Any] = {"data-trace": view.trace, "data-words": _canvas_words(view.lang)}
    canvas["data-title"] = trace.title
    return html.Div(
        [
            html.H1(t("timeline.title", view.lang, trace=trace.title), className="unseen"),
            _toolbar(view.lang),
            html.Div(id="timeline-canvas", className="canvas timeline-canvas", **canvas),
            html.Div(
                [
                    _card("timeline-split", t("timeline.split", view.lang)),
                    _card("timeline-span", t("timeline.span", view.lang)),
                ],
                className="timeline-cards",
            ),
            dcc.Store(id="timeline-drawn"),
            dcc.Store(id="timeline-usual", data=shown_step(trace, None)),
        ],
        className="timeline-page",
    )


def _toolbar(lang: Lang) -> Component:
    group: dict[str, Any] = {"role": "radiogroup", "aria-label": t("timeline.modes", lang)}
    key: dict[str, Any] = {"data-key": "l"}
    modes = [choice(name, t(f"timeline.{name}", lang), chosen=name == "step") for name in MODES]
    return html.Div(
        [
            html.Div(modes, id="timeline-mode", className="segments", **group),
            _legend(lang),
            picture_buttons(lang),
            table_button(
                "timeline-list",
                t("timeline.table_button", lang),
                t("timeline.table_says", lang),
                **key,
            ),
        ],
        className="toolbar",
    )


def _legend(lang: Lang) -> Component:
    entries = [
        html.Span(
            [
                html.Span(className="tag tag-send")
                if name == "send"
                else swatch(_FILL.get(name, name)),
                t(f"timeline.legend_of.{name}", lang),
            ]
        )
        for name in LEGEND
    ]
    says: dict[str, Any] = {"role": "group", "aria-label": t("timeline.legend", lang)}
    return html.Div(entries, className="timeline-legend", **says)


def _card(name: str, says: str) -> Component:
    label: dict[str, Any] = {"aria-label": says}
    return html.Section(id=name, className="card", tabIndex=0, **label)


def _canvas_words(lang: Lang) -> str:
    legend = {name: t(f"timeline.legend_of.{name}", lang) for name in LEGEND}
    words: dict[str, Any] = {"table": {}, "legend": legend}
    for key, text in catalogue(lang).items():
        area, _, name = key.removeprefix("timeline.canvas.").rpartition(".")
        if key.startswith("timeline.canvas."):
            (words["table"] if area else words)[name] = text
    return json.dumps(words, ensure_ascii=False)


def split_words(splits: Sequence[TaskSplit], lang: Lang) -> list[Component]:
    first = splits[0]
    largest = max(first.parts, key=lambda part: first.parts[part])
    shares = dict(zip(first.parts, percentages([*map(float, first.parts.values())]), strict=True))
    title = t(
        "timeline.took.says",
        lang,
        step=f"{first.step.number:,}",
        duration=duration(first.total),
        share=f"{shares[largest]:.0f} %",
        doing=t(f"timeline.doing.{largest}", lang),
    )
    if len(splits) > 1:
        note = t("timeline.took.note_each", lang)
    else:
        note = t("timeline.took.note", lang, task=first.task, total=micros(first.total))
    return [html.H2([title, html.Small(note)]), split_bars(splits, lang)]


def register(app: Dash, library: Library) -> None:
    step, sel, route = Input("step", "data"), Input("sel", "data"), State("route", "data")

    @callback(app, Output("timeline-split", "children"), step, route)
    def show_split(step: int | None, route: Route) -> list[Component]:
        view = view_of(route)
        trace = library.open(view.trace)
        number = shown_step(trace, step)
        if number is None:
            words = ("none", "none_next")
            title, says = (t(f"timeline.took.{word}", view.lang) for word in words)
            return [html.H2(title), html.P(says)]
        return split_words(splits_of(trace, number), view.lang)

    @callback(app, Output("timeline-span", "children"), sel, step, route)
    def show_span(sel: Selection | None, step: int | None, route: Route) -> list[Component]:
        view = view_of(route)
        trace = library.open(view.trace)
        number = shown_step(trace, step)
        return span_card(trace, lit_by(trace, sel, number), number, view.lang)

    drawn = Output("timeline-drawn", "data")  # so that Dash asks only where the canvas is
    clientside(app, "timeline.mjs", "show", drawn, step, sel, State("timeline-usual", "data"))
