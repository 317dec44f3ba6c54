"""Replay: one step event by event; graph, mailboxes, ready queues and iterations move together."""

import json
from typing import Any

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from vizdist.components.callbacks import clientside
from vizdist.components.cards import empty
from vizdist.components.replay_transport import transport
from vizdist.components.view import View
from vizdist.i18n import Lang, catalogue, t
from vizdist.store.library import Library
from vizdist.store.trace import Trace

NAME = "replay"
PATH = "/t/{trace}/replay"
SIGNS = ("send", "recv", "control", "update")
#: What the picture of the graph says, by its name there and its section in the catalogue.
GRAPH_WORDS = {"kinds": "kind", "stages": "stage", "heats": "heat", "families": "family"}


def layout(library: Library, view: View) -> Component:
    trace = library.open(view.trace)
    missing = "graph" if not trace.graphs else "step" if not trace.steps else ""
    if missing:
        says, next_step = (t(f"replay.no_{missing}{form}", view.lang) for form in ("", "_next"))
        waits: dict[str, Any] = {"data-bare": "step"}  # while the run goes on it may yet come
        return html.Div(empty(says, next_step), className="reading alone", **waits)
    facts: dict[str, Any] = {"aria-label": t("replay.facts", view.lang)}
    return html.Div(
        [
            html.H1(t("replay.title", view.lang, trace=trace.title), className="unseen"),
            html.Div(
                [
                    html.Div(id="replay-canvas", className="canvas", **_canvas_data(view, trace)),
                    html.Aside(id="replay-facts", className="replay-aside", tabIndex=0, **facts),
                ],
                className="replay-body",
            ),
            transport(view.lang),
            dcc.Store(id="replay-drawn"),
        ],
        className="replay-page",
    )


def _canvas_data(view: View, trace: Trace) -> dict[str, Any]:
    """What assets/replay.mjs needs besides the stores: which trace, and its words."""
    return {
        "data-trace": view.trace,
        "data-title": trace.title,
        "data-stage": "device",
        "data-heat": "plain",
        "data-words": json.dumps(_words(view.lang), ensure_ascii=False),
    }


def _words(lang: Lang) -> dict[str, Any]:
    words: dict[str, Any] = _section("graph.canvas.", lang)
    for name, section in GRAPH_WORDS.items():
        words[name] = _section(f"graph.{section}.", lang)
    words["signs"] = {kind: t(f"graph.{kind}", lang) for kind in SIGNS}
    for key, text in _section("replay.canvas.", lang).items():
        area, _, name = key.rpartition(".")
        (words.setdefault(area, {}) if area else words)[name] = text
    return words | {name: t(f"replay.{name}", lang) for name in ("play", "pause")}


def _section(prefix: str, lang: Lang) -> dict[str, Any]:
    texts = catalogue(lang).items()
    return {key.removeprefix(prefix): text for key, text in texts if key.startswith(prefix)}


def register(app: Dash, _library: Library) -> None:
    drawn = Output("replay-drawn", "data")  # so that Dash asks only where the canvas is
    clientside(app, "replay.mjs", "show", drawn, Input("step", "data"), Input("sel", "data"))
