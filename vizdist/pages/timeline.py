"""Timeline: tasks and lanes over time at any zoom; below, where the step went and a span whole."""

import json
from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from vizdist.analysis.asked_faults import asked_faults
from vizdist.analysis.collectives import has_collectives
from vizdist.analysis.lit import lit_by
from vizdist.analysis.selection import Selection
from vizdist.analysis.slow_step import MEASURES
from vizdist.analysis.stands_out import stands_out
from vizdist.analysis.steps import shown_step, split_of_path, splits_of
from vizdist.components.callbacks import callback, clientside
from vizdist.components.cards import HIDDEN, empty, icon, says, swatch
from vizdist.components.span_card import span_card
from vizdist.components.split_bar import split_bars
from vizdist.components.stands_out import slow_step, stands_out_list
from vizdist.components.toolbar import choice, picture_buttons, table_button
from vizdist.components.view import Route, View, view_of
from vizdist.components.what_if import what_if_of_path
from vizdist.figures.timeline import has_failed
from vizdist.i18n import Lang, catalogue, t
from vizdist.i18n.units import duration, micros, percentages
from vizdist.store.library import Library
from vizdist.store.trace import Trace

NAME = "timeline"
PATH = "/t/{trace}/timeline"
MODES = ("step", "window", "run")
LEGEND = (
    "compute", "update", "send", "transfer", "collective", "failed", "wait", "queueing", "runtime",
)  # fmt: skip
MARKS = ("path", "stalls")
STRUCK = "struck"  #: where a fault did that was asked for, of a run that had one
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
            _toolbar(trace, view.lang),
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


def _toolbar(trace: Trace, lang: Lang) -> Component:
    group: dict[str, Any] = {"role": "radiogroup", "aria-label": t("timeline.modes", lang)}
    key: dict[str, Any] = {"data-key": "l"}
    modes = [choice(name, t(f"timeline.{name}", lang), chosen=name == "step") for name in MODES]
    return html.Div(
        [
            html.Div(modes, id="timeline-mode", className="segments", **group),
            _walk(lang),
            _legend(trace, lang),
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


def _walk(lang: Lang) -> Component:
    """To what stands out, one after another; the script says which of how many."""
    label = t("timeline.stands_out.title", lang)
    buttons = [
        _button_to(way, key, t(f"timeline.stands_out.{name}", lang), icon(sign))
        for way, key, name, sign in ((-1, "p", "previous", "left"), (1, "n", "next", "right"))
    ]
    count = html.Span(id="timeline-walk", className="walk-count")
    words = [html.Span(className="flag", **HIDDEN), count]
    return html.Div(
        [buttons[0], *words, buttons[1]], className="segments walk", role="group", **says(label)
    )


def _button_to(way: int, key: str, label: str, sign: Component) -> Component:
    data: dict[str, Any] = {"data-walk": str(way), "data-key": key, "aria-label": label}
    return html.Button(sign, type="button", className="choice", title=label, disabled=True, **data)


def _legend(trace: Trace, lang: Lang) -> Component:
    entries = [
        html.Span([_sign(name), t(f"timeline.legend_of.{name}", lang)], className=f"is-{name}")
        for name in (*_drawn(trace), *_struck(trace))
    ]
    marks = [_mark(name, lang) for name in MARKS]
    return html.Div(
        [*entries, *marks],
        className="timeline-legend",
        role="group",
        **says(t("timeline.legend", lang)),
    )


def _drawn(trace: Trace) -> list[str]:
    """What is in no run but some is named in those alone."""
    some = {"collective": has_collectives(trace), "failed": has_failed(trace)}
    return [name for name in LEGEND if some.get(name, True)]


def _struck(trace: Trace) -> list[str]:
    return [STRUCK] if any(one.strike for one in asked_faults(trace)) else []


def _sign(name: str) -> Component:
    if name in (STRUCK, "send"):
        return html.Span(className="mark-struck" if name == STRUCK else "tag tag-send", **HIDDEN)
    return swatch(_FILL.get(name, name))


def _mark(name: str, lang: Lang) -> Component:
    """Drawn over the bars, or not."""
    data: dict[str, Any] = {"data-shows": name, "aria-pressed": "true"}
    sign = html.Span(className=f"mark-{name}", **HIDDEN)
    title = t(f"timeline.marks.{name}", lang)
    words: list[Any] = [sign, t(f"timeline.legend_of.{name}", lang)]
    return html.Button(words, type="button", className="legend-mark", title=title, **data)


def _card(name: str, says: str) -> Component:
    label: dict[str, Any] = {"aria-label": says}
    return html.Section(id=name, className="card", tabIndex=0, **label)


def _canvas_words(lang: Lang) -> str:
    legend = {name: t(f"timeline.legend_of.{name}", lang) for name in (*LEGEND, STRUCK, *MARKS)}
    slow = {f"slow_{name}": slow_step(f"slow_{name}", lang) for name in (*MEASURES, "unknown")}
    words: dict[str, Any] = {"legend": legend, "slow": slow}
    for key, text in catalogue(lang).items():
        area, _, name = key.removeprefix("timeline.canvas.").rpartition(".")
        if key.startswith("timeline.canvas."):
            (words.setdefault(area, {}) if area else words)[name] = text
    return json.dumps(words, ensure_ascii=False)


def split_words(trace: Trace, number: int, lang: Lang) -> list[Component]:
    """Of each worker's step; where one alone has this number, along its critical path too."""
    splits = splits_of(trace, number)
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
    on_path = split_of_path(trace, first.step, t("timeline.legend_of.path", lang))
    rows = [first, on_path] if len(splits) == 1 and on_path else splits
    if len(rows) > 1:
        note = t("timeline.took.note_each", lang)
    else:
        note = t("timeline.took.note", lang, task=first.task, total=micros(first.total))
    tried = what_if_of_path(trace, first.step, lang) if on_path and rows[-1] is on_path else []
    return [html.H2([title, html.Small(note)]), split_bars(rows, lang), *tried]


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
        return split_words(trace, number, view.lang)

    @callback(app, Output("timeline-span", "children"), sel, step, route)
    def show_span(sel: Selection | None, step: int | None, route: Route) -> list[Component]:
        view = view_of(route)
        trace = library.open(view.trace)
        number = shown_step(trace, step)
        lit = lit_by(trace, sel, number)
        first = [] if len(lit.selected) else stands_out_list(stands_out(trace), view.lang)
        return [*first, *span_card(trace, lit, number, view.lang)]

    drawn = Output("timeline-drawn", "data")  # so that Dash asks only where the canvas is
    clientside(app, "timeline.mjs", "show", drawn, step, sel, State("timeline-usual", "data"))
