"""Bytes from row to column: a table whose cells are as orange as they are heavy."""

import math
from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from vizdist.i18n.units import size


def bytes_matrix(tasks: Sequence[str], moved: Mapping[tuple[str, str], int]) -> Component:
    """`moved` maps (from, to) to bytes. Heat is logarithmic: sizes span decades."""
    most = max(moved.values(), default=0)
    head = html.Tr([html.Td(), *(html.Th(task, scope="col") for task in tasks)])
    rows = [
        html.Tr(
            [
                html.Th(source, scope="row"),
                *(_cell(moved.get((source, target), 0), most) for target in tasks),
            ]
        )
        for source in tasks
    ]
    return html.Table([html.Thead(head), html.Tbody(rows)], className="matrix")


def _cell(num_bytes: int, most: int) -> Component:
    if not num_bytes:
        return html.Td(html.Span("0", className="none"))
    kind, tint = bytes_heat(num_bytes, most)
    style = {"--heat": f"{tint:.0f}%"}
    return html.Td(html.Span(str(size(num_bytes)), className=kind, style=style))


def bytes_heat(num_bytes: int, most: int) -> tuple[str, float]:
    """The class of a cell, and its tint in percent; the same in every table of bytes."""
    heat = math.log1p(num_bytes) / math.log1p(most)
    # Between the two ranges neither ink nor dark text has contrast on every ground.
    return ("heat low", 12 + 52 * heat) if heat < 0.5 else ("heat", 66 + 68 * (heat - 0.5))
