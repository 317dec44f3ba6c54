"""Where variables without copies lie: a box a device, a tile a variable, both by their bytes."""

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.variables import Variable, held_by, places_of
from vizdist.components.cards import Children, rich, says
from vizdist.figures.treemap import Tile, tiles
from vizdist.i18n import Lang, t
from vizdist.i18n.units import size

WIDTH, HEIGHT = 520.0, 300.0  #: px for which tiles are near to squares
LEAST = 0.24  #: share of the width that a device has at least, so that its name fits


def placement(
    found: Sequence[Variable], moved: Mapping[str, float], shown: str, lang: Lang
) -> list[Component]:
    """`moved` are bytes a step into and out of each task; `shown` is the variable looked at.

    What every task has for itself, as its own count of steps, is told by the table of copies alone.
    """
    found = [one for one in found if len(one.copies) == 1] or found
    places = places_of(found)
    held = {place: held_by(found, place) for place in places}
    total = sum(held.values())
    boxes = [
        _box(found, place, held[place], held[place] / total if total else 0, moved, shown, lang)
        for place in places
    ]
    label = says(t("variables.placement.picture", lang), role="group")
    return [
        html.P(_hottest(held, moved, lang), className="says"),
        html.Div(boxes, className="treemap", **label),
    ]


def _hottest(held: Mapping[str, int], moved: Mapping[str, float], lang: Lang) -> Children:
    """Which of several devices has most of the traffic of a step, and of the bytes held."""
    traffic = {place: moved.get(task_of(place), 0.0) for place in held}
    place = max(traffic, key=lambda one: traffic[one])
    if len(held) == 1 or not traffic[place]:
        return rich("variables.placement.alone", lang, count=len(held))
    values = {"place": place, "bytes": size(traffic[place])}
    values["share"] = f"{100 * traffic[place] / sum(traffic.values()):.0f}"
    values["held"] = f"{100 * held[place] / max(sum(held.values()), 1):.0f}"
    return rich("variables.placement.hot", lang, **values)


def task_of(place: str) -> str:
    """`ps:0` of `ps:0 GPU:1`."""
    return place.partition(" ")[0]


def _box(
    found: Sequence[Variable], place: str, held: int, share: float,
    moved: Mapping[str, float], shown: str, lang: Lang,
) -> Component:  # fmt: skip
    own = [one for one in found if one.bytes and place in {copy.place for copy in one.copies}]
    width = WIDTH * max(share, LEAST)
    cut = tiles([one.bytes for one in own], width, HEIGHT)
    shapes = [_tile(one, tile, width, shown, lang) for one, tile in zip(own, cut, strict=True)]
    words: list[Component] = [html.Div([html.B(place), html.Small(str(size(held)))])]
    if (traffic := moved.get(task_of(place))) is not None:
        words.append(html.Small(t("variables.placement.moved", lang, bytes=size(traffic))))
    style = {"flexGrow": f"{max(share, LEAST):.4f}"}
    return html.Div(
        [html.Div(words, className="treemap-head"), html.Div(shapes, className="treemap-tiles")],
        className="treemap-box",
        style=style,
    )


def _tile(one: Variable, tile: Tile, width: float, shown: str, lang: Lang) -> Component:
    place = {
        "left": f"{100 * tile.left / width:.3f}%",
        "top": f"{100 * tile.top / HEIGHT:.3f}%",
        "width": f"{100 * tile.width / width:.3f}%",
        "height": f"{100 * tile.height / HEIGHT:.3f}%",
    }
    name = one.copies[0].name
    told = t("variables.placement.tile", lang, variable=one.name, bytes=size(one.bytes))
    data: dict[str, Any] = {"data-variable": name, "aria-pressed": str(name == shown).lower()}
    words = [html.B(one.name), html.Small(str(size(one.bytes)))]
    return html.Button(
        html.Span(words, className="tile-words"), type="button", className="treemap-tile",
        title=told, style=place, **data,
    )  # fmt: skip
