"""What a selected stall is: why a device stood idle, what it waited for, and what ran next."""

from typing import Any

import numpy as np
from dash import html
from dash.development.base_component import Component

from vizdist.analysis.keys import title_of
from vizdist.analysis.lit import places_of
from vizdist.analysis.selection import Selection
from vizdist.figures.findings import step_findings
from vizdist.i18n import Lang, t
from vizdist.store.trace import StepInfo, Trace

_ENDS = ("cause", "effect")


def stall_card(
    trace: Trace, step: StepInfo | None, selection: Selection | None, lang: Lang
) -> list[Component]:
    """Its sentence is known where it is one of the longest of this step."""
    if selection is None or selection["type"] != "stall":
        return []
    told = step_findings(trace, step)["stalls"] if step else []
    said = [
        html.P(t(f"timeline.canvas.stall.{one['key']}", lang, **one["values"]))
        for one in told
        if one["sel"] == selection["id"]
    ]
    places = places_of(trace, selection["id"]).tolist()
    ends = _ENDS if len(places) > 1 else _ENDS[1:]
    buttons = [_end(trace, place, end, lang) for end, place in zip(ends, places, strict=False)]
    return [
        html.H2(t("graph.stall.title", lang)),
        html.Div(
            [*said[:1], html.Div([one for one in buttons if one], className="span-ends")],
            className="placement",
        ),
    ]


def _end(trace: Trace, place: int, end: str, lang: Lang) -> Component | None:
    """A button that selects a span alone."""
    if place < 0:
        return None
    one = trace.all.take(np.array([place]))
    name = title_of(str(one.text("name")[0]), str(one.text("key")[0])) or str(one.text("kind")[0])
    title = f"{one.task[0]} · {name}"
    data: dict[str, Any] = {"data-sel": f"span:{int(one.span[0]):016x}", "title": title}
    words = [html.Span(t(f"graph.stall.{end}", lang)), html.B(title, className="cut")]
    return html.Button(words, type="button", className="button", **data)
