"""The bar over the graph: stages with their sizes, what the colours mean, which heat to see."""

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from tracer.model.graph_table import STAGES
from vizdist.components.cards import HIDDEN, icon
from vizdist.components.toolbar import choice, picture_buttons, table_button
from vizdist.i18n import Lang, t

HEATS = ("plain", "time", "bytes", "wait")


def toolbar(lang: Lang) -> Component:
    scrolls: dict[str, Any] = {"data-scrolls": ""}
    table: dict[str, Any] = {"data-graph": "table", "aria-pressed": "false"}
    return html.Div(
        [
            _choices("graph-stages", t("graph.stages", lang), "stops"),
            html.Div(
                [
                    html.Span(id="graph-clients"),
                    _key("graph-two", "two_stages", [t("graph.two_stages", lang)], lang),
                    _key("graph-morph", "morph", [icon("play"), t("graph.morph", lang)], lang),
                    _choices("graph-heat", t("graph.heat_choice", lang), "segments", _heats(lang)),
                    picture_buttons(lang),
                    table_button(
                        "graph-table-button",
                        t("graph.table", lang),
                        t("graph.table_says", lang),
                        **table,
                    ),
                ],
                className="toolbar-rest",
            ),
        ],
        className="toolbar graph-toolbar",
        **scrolls,
    )


def _choices(name: str, says: str, kind: str, children: Sequence[Any] = ()) -> Component:
    """A radio group; assets/graph_controls.mjs moves the choice."""
    attributes: dict[str, Any] = {"role": "radiogroup", "aria-label": says, "data-choices": name}
    return html.Div(list(children), id=name, className=kind, **attributes)


def _heats(lang: Lang) -> list[Component]:
    return [choice(name, t(f"graph.{name}", lang), chosen=name == "time") for name in HEATS]


def _key(name: str, word: str, children: Sequence[Any], lang: Lang) -> Component:
    """A key that stays pressed; assets/graph_controls.mjs does what it says."""
    pressed: dict[str, Any] = {"aria-pressed": "false"}
    title = t(f"graph.{word}_says", lang)
    return html.Button(
        list(children), id=name, type="button", className="button", title=title, **pressed
    )


def stops(counts: Sequence[Mapping[str, Any]], chosen: str, lang: Lang) -> list[Component]:
    """A stop for each stage that the trace holds: its name over its size."""
    return [
        choice(
            count["stage"],
            [
                html.Span(className="dot", **HIDDEN),
                html.Span(t(f"graph.stage.{count['stage']}", lang), className="stop-name"),
                html.Small(_size(count, lang)),
            ],
            chosen=count["stage"] == chosen,
        )
        for count in sorted(counts, key=lambda count: STAGES.index(count["stage"]))
    ]


def _size(count: Mapping[str, Any], lang: Lang) -> str:
    stage, nodes = count["stage"], f"{count['nodes'] - count['client']:,}"
    if stage == "pruned" and count["client"]:
        return t("graph.count.pruned_client", lang, nodes=nodes, client=count["client"])
    nodes = f"{count['nodes']:,}"
    if stage in ("full", "pruned"):
        return t(f"graph.count.{stage}", lang, nodes=nodes)
    number = count["devices"] if stage == "placed" else count["pairs"]
    return t(f"graph.count.{stage}", lang, nodes=nodes, count=number)


def clients(tasks: Sequence[str], chosen: str, lang: Lang) -> list[Component]:
    """Where several workers run a step of this number, each has a graph of its own."""
    if len(tasks) < 2:
        return []
    options = [html.Option(task, value=task, selected=task == chosen) for task in tasks]
    select = html.Select(options, id="graph-client")
    label = html.Span(t("graph.client", lang))
    return [html.Label([label, select], className="client")]


def legend(lang: Lang) -> Component:
    """Below the canvas: its signs, then what the heat measures, from least to most."""
    tags = [
        html.Span([html.Span(className=f"tag tag-{kind}"), t(f"graph.{kind}", lang)])
        for kind in ("send", "recv", "control")
    ]
    update = html.Span([html.Span(className="swatch fill-update"), t("graph.update", lang)])
    stack = html.Span([html.Span("8", className="stack-sign", **HIDDEN), t("graph.stack", lang)])
    marks = [_mark("added", "added", lang), _mark("path", "critical", lang)]
    heat = html.Span(
        [
            html.B(id="graph-heat-what"),
            html.Span(id="graph-heat-low"),
            html.Span([html.I() for _ in range(5)], className="ramp", **HIDDEN),
            html.Span(id="graph-heat-high"),
            html.Span(id="graph-heat-scale", className="hint"),
        ],
        className="heat-legend",
        hidden=True,
    )
    says: dict[str, Any] = {"aria-label": t("graph.legend", lang), "data-scrolls": ""}
    signs = [*tags, update, stack, *marks, heat]
    return html.Div(signs, className="graph-legend", role="group", tabIndex=0, **says)


def _mark(mark: str, word: str, lang: Lang) -> Component:
    """An entry of the legend that lights what it names."""
    data: dict[str, Any] = {"data-mark": mark, "aria-pressed": "false"}
    sign = html.Span(className=f"mark-sign mark-{mark}", **HIDDEN)
    return html.Button(
        [sign, t(f"graph.{word}", lang)],
        type="button",
        className="mark-button",
        title=t(f"graph.{word}_says", lang),
        **data,
    )


def glyph_tile(kind: str, glyph: str) -> Component:
    """The tile of a node as it stands in the aside; drawn glyphs have an icon instead."""
    sign: Any = icon("variable") if glyph == "cylinder" else glyph
    if glyph in ("tag", "hinge", "fork"):
        sign = icon("wire" if glyph == "tag" else "op")
    return html.Span(sign, className=f"glyph glyph-{kind}", **HIDDEN)
