"""The graph as a table: the same nodes, for those who read or listen rather than look."""

from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.components.graph_aside import pick, us
from vizdist.i18n import Lang, t
from vizdist.i18n.units import size

MOST = 500
COLUMNS = ("node", "op", "device", "reason", "phase", "time", "queueing", "wait", "bytes")


def graph_list(payload: dict[str, Any], lang: Lang) -> list[Component]:
    """Nodes of a payload of the canvas, costliest first; at most MOST of them."""
    nodes = sorted(payload["nodes"], key=lambda node: (-node["time"], node["id"]))[:MOST]
    head = html.Thead(
        html.Tr([html.Th(t(f"graph.column.{c}", lang), scope="col") for c in COLUMNS])
    )
    total = len(payload["nodes"])
    caption = t("graph.column.shown", lang, shown=f"{len(nodes):,}", total=f"{total:,}")
    body = html.Tbody([_row(node, lang) for node in nodes])
    action: dict[str, Any] = {"data-graph": "table"}
    close = html.Button(t("graph.column.close", lang), type="button", className="button", **action)
    return [html.Div([html.P(caption), close], className="list-head"), html.Table([head, body])]


def _row(node: dict[str, Any], lang: Lang) -> Component:
    reason = node["reason"]
    cells = [
        node["op"],
        " / ".join(part for part in (node["box"], node["device"]) if part),
        reason,
        t(f"graph.canvas.{node['phase']}", lang),
        us(node["time"]) if node["time"] else "",
        us(node["queueing"]) if node["queueing"] else "",
        us(node["wait"] - node["queueing"]) if node["wait"] > node["queueing"] else "",
        str(size(node["bytes"])) if node["bytes"] else "",
    ]
    first = html.Th(pick(node["id"], node["id"]), scope="row")
    return html.Tr([first, *(html.Td(cell) for cell in cells)])
