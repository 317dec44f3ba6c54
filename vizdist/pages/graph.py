"""Graph: the graph of a step at five stages, its pairs as wires, heat by what it cost."""

import json
from typing import Any

import numpy as np
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from vizdist.analysis.lit import places_of
from vizdist.analysis.selection import BY_SPANS, Selection
from vizdist.components.callbacks import callback, clientside
from vizdist.components.cards import empty
from vizdist.components.graph_aside import aside, gone, optimizations
from vizdist.components.graph_toolbar import clients, legend, stops, toolbar
from vizdist.components.stall_card import stall_card
from vizdist.components.view import Route, View, view_of
from vizdist.components.what_if import what_if_of_selection
from vizdist.figures.graph_facts import GraphFacts, facts_of
from vizdist.figures.graph_stage import read_stage
from vizdist.figures.partitioned_graph import stage_counts
from vizdist.figures.step_graph import StepGraph, step_graph
from vizdist.i18n import Lang, catalogue, t
from vizdist.store.library import Library
from vizdist.store.trace import Trace

NAME = "graph"
PATH = "/t/{trace}/graph"
NO_NODES = ("step", "link", "device")  #: kinds of selections that are no node: the whole is told


def layout(library: Library, view: View) -> Component:
    trace = library.open(view.trace)
    if not trace.graphs:
        words = empty(t("graph.no_graph", view.lang), t("graph.no_graph_next", view.lang))
        waits: dict[str, Any] = {"data-bare": "step"}  # while the run goes on it may yet come
        return html.Div(words, className="reading alone", **waits)
    heading = html.H1(t("graph.title", view.lang, trace=trace.title), className="unseen")
    facts: dict[str, Any] = {"aria-label": t("graph.facts", view.lang)}
    return html.Div(
        [
            heading,
            toolbar(view.lang),
            html.Div(
                [
                    html.Div(
                        [
                            html.Div(
                                id="graph-canvas", className="canvas", **_canvas_data(view, trace)
                            ),
                            legend(view.lang),
                        ],
                        className="graph-picture",
                    ),
                    html.Div(id="graph-table", className="canvas-list", hidden=True),
                    html.Aside(
                        [html.Div(id="graph-facts"), html.Div(id="graph-minimap")],
                        className="graph-aside",
                        **facts,
                    ),
                ],
                className="graph-body",
            ),
            *(dcc.Store(id=f"graph-{name}") for name in ("drawn", "task", "names", "named")),
        ],
        className="graph-page",
    )


def _canvas_data(view: View, trace: Trace) -> dict[str, Any]:
    """What assets/graph.mjs needs besides the stores: which trace, and its words."""
    words: dict[str, Any] = _words("graph.canvas.", view.lang)
    tables = {
        "kinds": "kind",
        "stages": "stage",
        "heats": "heat",
        "families": "family",
        "whys": "why",
        "comings": "coming",
        "goings": "going",
        "columns": "column",
        "two": "two",
    }
    for name, section in tables.items():
        words[name] = _words(f"graph.{section}.", view.lang)
    words["signs"] = {
        kind: t(f"graph.{kind}", view.lang) for kind in ("send", "recv", "control", "update")
    }
    return {
        "data-trace": view.trace,
        "data-title": trace.title,
        "data-words": json.dumps(words, ensure_ascii=False),
    }


def _words(prefix: str, lang: Lang) -> dict[str, str]:
    texts = catalogue(lang).items()
    return {key.removeprefix(prefix): text for key, text in texts if key.startswith(prefix)}


def _names(trace: Trace, selection: Selection | None) -> list[str]:
    """Names under which the graph may know a selection; a span stands for the node it ran.

    Of a stall what ran next comes first, before what it had waited for.
    """
    if selection is None:
        return []
    name = selection["id"]
    if selection["type"] in BY_SPANS:
        found = _names_of_spans(trace, name)
        return [one for names in found[::-1] for one in names if one] if any(found) else [name]
    return [name, *name.split("→")[::-1]]


def _names_of_spans(trace: Trace, ids: str) -> list[list[str]]:
    """Node and key of each; nothing of a span that the trace does not hold."""
    columns = [
        trace.all.take(np.array([place] if place >= 0 else [], np.int64))
        for place in places_of(trace, ids).tolist()
    ]
    return [[*one.text("name").tolist(), *one.text("key").tolist()] for one in columns]


def _facts(
    trace: Trace, found: StepGraph, stage: str, selection: Selection | None, lang: Lang
) -> list[Component]:
    graph = read_stage(stage, found.stages[stage], found.measures.master)
    names = _names(trace, selection)
    facts = facts_of(graph, found.stages, found.measures, names)
    if facts is None and selection is not None and selection["type"] in NO_NODES:
        facts = facts_of(graph, found.stages, found.measures, [])
    stalled = stall_card(trace, found.step, selection, lang)
    if facts is None:
        return stalled or gone(names[0], stage, lang)
    tried = what_if_of_selection(trace, selection, found.step, lang)
    did = optimizations(found.passes, lang) if isinstance(facts, GraphFacts) else []
    return [*stalled, *aside(facts, found.step, lang, tried), *did]


def register(app: Dash, library: Library) -> None:
    now = [Input(name, "data") for name in ("step", "stage", "graph-task")]
    route = State("route", "data")

    # the stage is State here: its stops keep the keyboard's focus while the choice moves over them
    asked = [Input("step", "data"), Input("graph-task", "data"), State("stage", "data"), route]

    @callback(app, Output("graph-stages", "children"), Output("graph-clients", "children"), *asked)
    def show_toolbar(step: int | None, task: str | None, stage: str | None, route: Route) -> Any:
        view = view_of(route)
        found = step_graph(library.open(view.trace), step, task or "")
        chosen = found.step.task if found.step else ""
        shown = stops(stage_counts(found.stages), found.stage(stage), view.lang)
        return shown, clients(found.tasks, chosen, view.lang)

    @callback(app, Output("graph-facts", "children"), Input("sel", "data"), *now, route)
    def show_facts(
        sel: Selection | None, step: int | None, stage: str | None, task: str | None, route: Route
    ) -> list[Component]:
        view = view_of(route)
        trace = library.open(view.trace)
        found = step_graph(trace, step, task or "")
        shown = found.stage(stage)
        return _facts(trace, found, shown, sel, view.lang) if shown else []

    @callback(app, Output("graph-names", "data"), Input("sel", "data"), route)
    def name_selection(sel: Selection | None, route: Route) -> dict[str, Any] | None:
        """A loop's spans are more than the canvas knows by id; it draws before it is told."""
        if sel is None or sel["type"] not in BY_SPANS:
            return None
        names = _names_of_spans(library.open(view_of(route).trace), sel["id"])
        return {"of": sel["id"], "names": names}

    # outputs, so that Dash asks only where the canvas is
    drawn, named = (Output(f"graph-{name}", "data") for name in ("drawn", "named"))
    clientside(app, "graph.mjs", "show", drawn, *now, Input("sel", "data"))
    clientside(app, "graph.mjs", "name", named, Input("graph-names", "data"))
