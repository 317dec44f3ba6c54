"""Compare: up to four runs side by side, their steps on one clock."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, html
from dash.development.base_component import Component

from vizdist.analysis.compare import LETTERS, Comparison, compare, largest_gap
from vizdist.analysis.compare_told import told
from vizdist.analysis.loss_curve import Point
from vizdist.analysis.mechanisms.text_table import listed
from vizdist.analysis.report import refusal_text
from vizdist.components.callbacks import callback, clientside
from vizdist.components.cards import card, empty, link
from vizdist.components.charts import chart
from vizdist.components.compare_cards import bytes_card, facts_card, path_card, split_card
from vizdist.components.compare_words import sentence
from vizdist.components.graph_diff_card import graph_diff_card
from vizdist.components.one_clock import clock_card
from vizdist.components.run_badge import run_badge
from vizdist.components.view import Route, View, view_of
from vizdist.figures.loss_compared import compared_losses
from vizdist.figures.theme import as_theme
from vizdist.i18n import Lang, t
from vizdist.store.library import Entry, Library
from vizdist.store.problems import TraceError
from vizdist.store.trace import Trace

NAME = "compare"
PATH = "/compare"
OFFERED = 8  #: runs that are named where one is to be chosen; the field has all


def layout(library: Library, view: View) -> Component:
    entries = library.entries()
    refused = _refusal(library, view, entries)
    picks = _picks(entries, view)
    if refused is not None:
        title = html.H1(t("shell.pages.compare", view.lang), className="unseen")
        return html.Div([title, picks, refused], className="reading compare plain")
    cards = [html.Div(id=f"compare-{name}", className="as-one") for name in CARDS]
    loss = html.Div(_loss_card(_compared(library, view), view.lang), className="as-one")
    told = html.Div(id="compare-told", className="head")
    kind = "reading compare many" if len(view.runs) > 2 else "reading compare"
    return html.Div([told, picks, *cards, loss], className=kind)


def _compared(library: Library, view: View, step: int | None = None) -> Comparison:
    return _kept(tuple(library.open(trace) for trace in view.runs), step)


@lru_cache(maxsize=4)
def _kept(traces: tuple[Trace, ...], step: int | None) -> Comparison:
    """A trace never changes; one that grew is another."""
    return compare(traces, step)


def _refusal(library: Library, view: View, entries: Sequence[Entry]) -> Component | None:
    """Why there is nothing to compare yet, and what to do about it."""
    lang, known = view.lang, {entry.id: entry for entry in entries}
    if len(view.runs) > len(LETTERS):
        return _teach("too_many", lang, count=len(view.runs))
    for trace in view.runs:
        if trace not in known:
            return _teach("unknown", lang, id=trace)
        try:
            library.open(trace)
        except TraceError as error:
            return _teach(
                "unreadable", lang, name=known[trace].title, reason=refusal_text(error, lang)
            )
    if len(view.runs) < 2:
        return _offer(view, entries)
    return None


def _teach(what: str, lang: Lang, **values: object) -> Component:
    action = link(t("shell.go_library", lang), "/", kind="button main-action")
    title, next_step = (t(f"compare.{key}", lang, **values) for key in (what, f"{what}_next"))
    return empty(title, next_step, action)


def _offer(view: View, entries: Sequence[Entry]) -> Component:
    """Runs to choose from; those of the same workload first, as they tell the most."""
    lang = view.lang
    first = next((entry for entry in entries if entry.id in view.runs), None)
    workload = first.manifest.workload if first else ""
    others = [entry for entry in entries if entry.id not in view.runs]
    ordered = sorted(others, key=lambda entry: entry.manifest.workload != workload)
    ways = [
        link(_label(entry), f"{PATH}?runs={','.join((*view.runs, entry.id))}", kind="button")
        for entry in ordered[:OFFERED]
    ]
    which = "choose_other" if first else "choose"
    title = t(f"compare.{which}", lang, name=first.title if first else "")
    text = t("compare.choose_next" if ways else "compare.nothing_else", lang)
    return empty(title, text, html.Div(ways, className="offered"))


def _label(entry: Entry) -> str:
    return " · ".join(word for word in (entry.title, entry.manifest.strategy) if word)


def _picks(entries: Sequence[Entry], view: View) -> Component:
    """A field a run, and one for a further run."""
    options = [{"value": entry.id, "label": _label(entry)} for entry in entries]
    picks = [_pick(place, options, view) for place in range(len(LETTERS))]
    return html.Div(picks, className="picks")


def _pick(place: int, options: Sequence[Mapping[str, str]], view: View) -> Component:
    letter = LETTERS[place]
    is_open = place <= max(1, len(view.runs))
    field: Component = dmc.Select(
        id=f"compare-run-{letter}",
        data=options,
        value=view.runs[place] if place < len(view.runs) else None,
        placeholder=t("compare.add", view.lang),
        searchable=True,
        clearable=place > 1,
        leftSection=run_badge(letter),
        comboboxProps={"width": 320, "position": "bottom-start"},
        className="run-pick",
        attributes={"input": {"aria-label": t("compare.pick", view.lang, letter=letter)}},
    )
    return html.Div(field, hidden=not is_open)


def _loss_card(found: Comparison, lang: Lang) -> Component:
    title = t("compare.loss.title", lang)
    lines = [run.loss.mean for run in found.runs if run.loss.mean]
    if not lines:
        return card(title, html.P(t("compare.none.loss", lang)), name="loss")
    body = chart("compare-loss", t("compare.loss.says", lang))
    return card(title, body, name="loss", note=_loss_note(found, lines, lang))


def _loss_note(found: Comparison, lines: Sequence[Sequence[Point]], lang: Lang) -> str:
    """How far apart the losses are; which runs have none."""
    without = [run.letter for run in found.runs if not run.loss.mean]
    missing = [t("compare.loss.missing", lang, runs=listed(without, lang))] if without else []
    gap = largest_gap(lines) if len(lines) > 1 else None
    if gap is None:
        apart = [t("compare.loss.no_step", lang)] if len(lines) > 1 else []
    elif gap[1]:
        apart = [t("compare.loss.gap", lang, gap=f"{gap[1]:.2g}", step=f"{gap[0]:,}")]
    else:
        apart = [t("compare.loss.equal", lang)]
    several = any(len(run.loss.lines) > 1 for run in found.runs)
    means = [t("compare.loss.mean", lang)] if several else []
    return listed([*means, *apart, *missing], lang)


def _told(found: Comparison, lang: Lang) -> Component:
    first, *rest = (sentence(said, lang) for said in told(found))
    space = "" if lang == "zh" else " "
    second = [part for one in rest for part in (*one, space)]
    return html.H1([html.Div(first), html.Div(second)])


#: What depends on the step that is shown, in the order of the page.
CARDS: Mapping[str, Callable[[Comparison, Lang], Component]] = {
    "clock": clock_card,
    "split": split_card,
    "bytes": bytes_card,
    "path": path_card,
    "graphs": graph_diff_card,
    "facts": facts_card,
}


def register(app: Dash, library: Library) -> None:
    cards = [Output(f"compare-{name}", "children") for name in ("told", *CARDS)]
    step, route = Input("step", "data"), State("route", "data")

    @callback(app, *cards, step, route)
    def show_cards(step: int | None, route: Route) -> list[Component]:
        view = view_of(route)
        found = _compared(library, view, step)
        return [_told(found, view.lang), *(make(found, view.lang) for make in CARDS.values())]

    @callback(app, Output("compare-loss", "figure"), step, route, Input("theme", "data"))
    def show_loss(step: int | None, route: Route, theme: str) -> Any:
        view = view_of(route)
        runs = _compared(library, view).runs
        lines = {run.letter: run.loss.mean for run in runs if run.loss.mean}
        words = {"steps": t("shell.header.steps", view.lang), "loss": t("summary.loss", view.lang)}
        return compared_losses(lines, step, as_theme(theme), words)

    fields = [Input(f"compare-run-{letter}", "value") for letter in LETTERS]
    clientside(app, "compare.mjs", "pick", *fields, prevent_initial_call=True)
    picked, click = Output("step", "data", allow_duplicate=True), Input("compare-loss", "clickData")
    clientside(app, "shell.mjs", "pickStep", picked, click, prevent_initial_call=True)
