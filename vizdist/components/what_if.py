"""What a step would take if what is selected were free or faster, beside how late it may end."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from dash import html
from dash.development.base_component import Component

from vizdist.analysis.critical_path import path_of
from vizdist.analysis.lit import lit_by
from vizdist.analysis.path_stretches import stretches
from vizdist.analysis.selection import Selection
from vizdist.analysis.step_events import END, StepEvents, step_events
from vizdist.analysis.what_if import changes_of, what_if_in, what_if_text
from vizdist.analysis.what_if_path import longest_changed
from vizdist.components.cards import icon, link
from vizdist.components.proof import proof, span_id
from vizdist.components.view import View
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration
from vizdist.store.trace import StepInfo, Trace

MOST_SPANS = 20_000  #: of a step that is run again while somebody waits for the card


def what_if_card(trace: Trace, place: int, lang: Lang) -> list[Component]:
    """Of a span that is part of a step; nothing where its step has no ops."""
    step = _step_of(trace, place)
    if step is None:
        return []
    count = len(trace.step_places(step))
    if count > MOST_SPANS:
        words = t("what_if.too_large", lang, count=f"{count:,}", step=step.number)
        return _section([html.P(words, className="hint")], lang)
    events = step_events(trace, step)
    lines = [*_lines(trace, events, place, lang)] if events else []
    return _section(lines, lang) if lines else []


def what_if_of_path(trace: Trace, step: StepInfo, lang: Lang) -> list[Component]:
    """Of what a critical path goes to most that can be changed, and the way to try others."""
    events = step_events(trace, step) if len(trace.step_places(step)) <= MOST_SPANS else None
    if events is None:
        return []
    told = stretches(trace, path_of(events, step))
    tried = longest_changed(trace, told, partial(what_if_in, events))
    if tried is None:
        return []
    span, found = tried
    way = proof(View("timeline", trace.id, lang), "graph", step.number, span_id(span))
    more = link([t("what_if.others", lang), icon("right")], way, kind="button")
    words = html.Span(what_if_text(found, lang))
    return [html.P([words, more], className="what-if-path")]


def what_if_of_selection(
    trace: Trace, selection: Selection | None, step: StepInfo | None, lang: Lang
) -> list[Component]:
    """Of the first span that the selection means in this step; of an edge, its recv."""
    if selection is None or step is None:
        return []
    places = lit_by(trace, selection, step.number).selected
    spans = trace.all.take(places)
    own = spans.trace_lo == np.uint64(step.trace_lo)
    recvs = own & spans.is_kind("rendezvous.recv")
    is_meant = recvs if selection["type"] in ("edge", "key") and recvs.any() else own
    return what_if_card(trace, int(places[is_meant][0]), lang) if is_meant.any() else []


def _section(lines: list[Component], lang: Lang) -> list[Component]:
    return [html.Section([html.H3(t("what_if.title", lang)), *lines], className="what-if")]


def _step_of(trace: Trace, place: int) -> StepInfo | None:
    request = int(trace.all.take(np.array([place])).trace_lo[0])
    return next((step for step in trace.steps if step.trace_lo == request), None)


def _lines(trace: Trace, events: StepEvents, place: int, lang: Lang) -> Iterator[Component]:
    changed = (what_if_in(events, change) for change in changes_of(trace, place))
    found = [one for one in changed if one is not None]
    if not found:
        return
    at = np.flatnonzero(events.places == place)
    slack = events.slack[events.instant[END][at]].tolist()
    for ns in slack:
        key = "on_path" if ns == 0 else "slack" if ns < found[0].took else "never_late"
        yield html.P(t(f"what_if.{key}", lang, slack=str(duration(ns))))
    for one in found:
        yield html.P(what_if_text(one, lang))
