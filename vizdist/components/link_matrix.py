"""What went, or was waited for, from row to column: tables whose cells select that link."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.bytes_moved import Pair
from vizdist.analysis.mailbox import Traffic
from vizdist.figures.call_lines import time_text
from vizdist.i18n import Lang, t
from vizdist.i18n.units import size

#: What is measured, how it is said, and least and most of its tint in percent: bytes are as orange
#: as they are heavy, waiting as dark as it is long, and both are read in ink.
FACES: Mapping[str, tuple[Callable[[Traffic], int], Callable[[int], object], float, float]] = {
    "bytes": (lambda one: one.bytes, size, 14, 78),
    "wait": (lambda one: one.wait_ns, time_text, 6, 30),
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
    value, told, least, span = FACES[face]
    most = max(map(value, traffic.values()), default=0)
    head = html.Tr([html.Td(), *(html.Th(end, scope="col") for end in ends)])
    rows = []
    for source in ends:
        cells: list[Component] = []
        for target in ends:
            one = traffic.get((source, target))
            share = math.log1p(value(one)) / math.log1p(most) if one and value(one) else 0
            says = t("rendezvous.links.says", lang, count=one.num_keys if one else 0)
            words = str(told(value(one))) if one else "0"
            tint = least + span * share if share else 0
            cells.append(_cell(f"{source}→{target}", one, words, says, tint))
        rows.append(html.Tr([html.Th(source, scope="row"), *cells]))
    shown: dict[str, Any] = {"data-face": face, "aria-label": t(f"rendezvous.links.{face}", lang)}
    return html.Table([html.Thead(head), html.Tbody(rows)], className=f"matrix {face}", **shown)


def _cell(link: str, one: Traffic | None, words: str, says: str, tint: float) -> Component:
    if one is None:
        return html.Td(html.Span(words, className="none"))
    data: dict[str, Any] = {"data-sel": f"link:{link}", "data-link": link}
    style = {"--heat": f"{tint:.0f}%"}
    return html.Td(
        html.Button(words, type="button", className="heat", title=says, style=style, **data)
    )
