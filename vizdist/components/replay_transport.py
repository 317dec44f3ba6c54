"""The transport of the replay: play and step, units and speed, the sentence, the scrubber."""

from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.components.cards import HIDDEN, icon, says
from vizdist.components.toolbar import choice, table_button
from vizdist.i18n import Lang, t

UNITS = ("event", "tensor", "rpc", "iteration")
SPEEDS = {"0.25": "¼×", "1": "1×", "4": "4×"}


def transport(lang: Lang) -> Component:
    polite: dict[str, Any] = {"aria-live": "polite"}
    table: dict[str, Any] = {"aria-pressed": "false", "data-replay": "table"}
    row = [
        html.Div(_buttons(lang), className="replay-buttons"),
        _choices("replay-unit", t("replay.units", lang), _units(lang)),
        _choices("replay-speed", t("replay.speeds", lang), _speeds()),
        html.H2(id="replay-sentence", className="replay-sentence"),
        html.Span(id="replay-client"),
        html.Div(
            [html.B(id="replay-time"), html.Span(id="replay-count")], className="replay-counter"
        ),
        table_button(
            "replay-table", t("replay.table", lang), t("replay.table_says", lang), **table
        ),
        html.Div(id="replay-said", className="unseen", **polite),
    ]
    stripes = html.Div(id="replay-stripes", className="replay-stripes", **HIDDEN)
    label = html.Div(
        [html.Span(id="replay-lanes"), html.B(id="replay-flight")], className="replay-lanes"
    )
    track = html.Div(id="replay-scrub", className="replay-scrub", **says(t("replay.scrub", lang)))
    bar = [label, html.Div([stripes, track], className="replay-track")]
    return html.Section(
        [html.Div(row, className="replay-row"), html.Div(bar, className="replay-bar")],
        id="replay-transport",
        className="replay-transport",
        **says(t("replay.transport", lang)),
    )


def _buttons(lang: Lang) -> list[Component]:
    return [
        _button("home", t("replay.home", lang), icon("home")),
        _button("play", t("replay.play", lang), icon("play"), kind="icon-button replay-play"),
        _button("backward", t("replay.backward", lang), html.Kbd("[", **HIDDEN)),
        _button("forward", t("replay.forward", lang), html.Kbd("]", **HIDDEN)),
    ]


def _button(action: str, label: str, children: Any, kind: str = "icon-button") -> Component:
    data = says(label, data_replay=action)
    return html.Button(children, className=kind, title=label, type="button", **data)


def _choices(name: str, label: str, children: list[Component]) -> Component:
    """A radio group; assets/graph_controls.mjs moves the choice."""
    attributes = says(label, role="radiogroup", data_choices=name)
    return html.Div(children, id=name, className="segments", **attributes)


def _units(lang: Lang) -> list[Component]:
    return [choice(name, t(f"replay.unit.{name}", lang), chosen=name == "event") for name in UNITS]


def _speeds() -> list[Component]:
    return [choice(value, word, chosen=value == "1") for value, word in SPEEDS.items()]
