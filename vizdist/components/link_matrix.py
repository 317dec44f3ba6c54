"""What went, or was waited for, from row to column: tables whose cells select that link."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.bytes_moved import Pair
from vizdist.analysis.mailbox import Traffic
from vizdist.components.bytes_matrix import bytes_heat
from vizdist.figures.call_lines import time_text
from vizdist.i18n import Lang, t
from vizdist.i18n.units import size


def _wait_heat(wait_ns: int, most: int) -> tuple[str, float]:
    return "heat", 6 + 30 * math.log1p(wait_ns) / math.log1p(most)


#: What is measured, how it is said, and its tint: bytes are as orange as they are heavy, waiting
#: is as dark as it is long.
FACES: Mapping[
    str,
    tuple[
        Callable[[Traffic], int],
        Callable[[int], object],
        Callable[[int, int], tuple[str, float]],
    ],
] = {
    "bytes": (lambda one: one.bytes, size, bytes_heat),
    "wait": (lambda one: one.wait_ns, time_text, _wait_heat),
}


def link_matrices(traffic: Mapping[Pair, Traffic], lang: Lang) -> list[Component]:
    """One table a face; `traffic` is by the titles of devices."""
    if not traffic:
        return [html.P(t("rendezvous.links.none", lang), className="hint")]
    ends = sorted({end for pair in traffic for end in pair})
    return [_matrix(face, ends, traffic, lang) for face in FACES]


def _matrix(
    face: str, ends: Sequence[str], traffic: Mapping[Pair, Traffic], lang: Lang
) -> Component:
    value, told, heat = FACES[face]
    most = max(map(value, traffic.values()), default=0)
    head = html.Tr([html.Td(), *(html.Th(end, scope="col") for end in ends)])
    rows = []
    for source in ends:
        cells: list[Component] = []
        for target in ends:
            one = traffic.get((source, target))
            number = value(one) if one else 0
            says = t("rendezvous.links.says", lang, count=one.num_keys if one else 0)
            words = str(told(number)) if one else "0"
            tint = heat(number, most) if number else ("heat low", 0.0)
            cells.append(_cell(f"{source}→{target}", one, words, says, tint))
        rows.append(html.Tr([html.Th(source, scope="row"), *cells]))
    shown: dict[str, Any] = {"data-face": face, "aria-label": t(f"rendezvous.links.{face}", lang)}
    return html.Table([html.Thead(head), html.Tbody(rows)], className=f"matrix {face}", **shown)


def _cell(
    link: str, one: Traffic | None, words: str, says: str, heat: tuple[str, float]
) -> Component:
    if one is None:
        return html.Td(html.Span(words, className="none"))
    data: dict[str, Any] = {"data-sel": f"link:{link}", "data-link": link}
    kind, tint = heat
    style = {"--heat": f"{tint:.0f}%"}
    return html.Td(
        html.Button(words, type="button", className=kind, title=says, style=style, **data)
    )
