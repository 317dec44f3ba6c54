"""The card of one selected span: when, how long, of what kind, what it is linked to, all else."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from dash import html
from dash.development.base_component import Component

from tracer.model.schema import SPAN_KINDS
from vizdist.analysis.lit import Lit
from vizdist.analysis.longest import longest
from vizdist.analysis.recv_parts import parts_of, value_at, waited
from vizdist.components.cards import chip, link, swatch
from vizdist.components.what_if import what_if_card
from vizdist.figures.timeline import HUES, hues_of
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration, size
from vizdist.store.details import SpanDetail
from vizdist.store.trace import Trace

LONGEST = 16
#: Attributes that the card says in words already.
SAID = {
    "vizdist.step.number", "vizdist.kind", "vizdist.lane", "vizdist.depth", "vizdist.unfinished",
    "vizdist.last_seen_ns",
}  # fmt: skip
_BAD = {"error", "unfinished"}
#: How the other end of a link is called, by (relation, whether the selected span is the target).
_OTHER_END = {
    ("data", True): "sent",
    ("data", False): "received",
    ("rpc", True): "called",
    ("rpc", False): "served",
    ("launch", True): "launched",
    ("launch", False): "ran",
}


def span_card(trace: Trace, lit: Lit, step: int | None, lang: Lang) -> list[Component]:
    """Of the first selected span; a node or key may have several in a step."""
    if not len(lit.selected):
        return _nothing(trace, step, lang)
    detail = trace.span(int(trace.all.span[lit.selected[0]]))
    hue = HUES[int(hues_of(trace.all.take(lit.selected[:1]))[0])]
    return [
        _heading(detail, hue, lang),
        html.Dl(
            [_fact(*pair, lang) for pair in _facts(trace, detail, lit)],
            className="span-facts",
        ),
        *(
            [html.Code(html.Bdi(detail.key), className="span-key", title=detail.key)]
            if detail.key
            else []
        ),
        *(
            [html.P(t("timeline.fact.never_ended", lang, task=detail.task), className="hint")]
            if "unfinished" in detail.flags
            else []
        ),
        *what_if_card(trace, detail.index, lang),
        *_ends(trace, detail, lang),
        _attributes(detail, lang),
    ]


def _nothing(trace: Trace, step: int | None, lang: Lang) -> list[Component]:
    """No span is selected: those that were longest at work wait to be."""
    places = longest(trace, None if step is None else trace.step(step), LONGEST)
    says = "says" if places else "says_none"
    return [
        html.H2(t("timeline.nothing.title", lang)),
        html.P(t(f"timeline.nothing.{says}", lang)),
        html.Div([_long(trace, place) for place in places], className="longest"),
    ]


def _long(trace: Trace, place: int) -> Component:
    spans = trace.all.take(np.array([place]))
    target: dict[str, Any] = {"data-sel": f"span:{int(spans.span[0]):016x}"}
    hue = HUES[int(hues_of(spans)[0])]
    words = [
        swatch("other" if hue == "frame" else hue),
        html.B(str(spans.text("name")[0]) or str(spans.text("kind")[0]), className="cut"),
        html.Span(str(spans.task[0])),
        html.Span(str(duration(int(spans.duration[0])))),
    ]
    return html.Button(words, type="button", **target)


def _heading(detail: SpanDetail, hue: str, lang: Lang) -> Component:
    told = {"error", "unfinished", "dead", "orphan", "cycle", "deferred"} & set(detail.flags)
    kind = detail.op or detail.kind
    return html.Div(
        [
            swatch("other" if hue == "frame" else hue),
            html.H2([detail.name or detail.kind, html.Small(f"{kind} · {detail.task}")]),
            *(
                chip(t(f"timeline.flag.{flag}", lang), kind="error" if flag in _BAD else "")
                for flag in sorted(told)
            ),
            *([chip(str(size(detail.bytes)))] if detail.bytes else []),
            *([_kind_link(detail.kind, lang)] if detail.kind in SPAN_KINDS else []),
        ],
        className="span-head",
    )


def _kind_link(kind: str, lang: Lang) -> Component:
    """To what the schema says of spans like this one."""
    title = t("timeline.kind_says", lang)
    return link(kind, f"/reference#kind-{kind}", kind="chip outline kind-link", title=title)


def _facts(trace: Trace, detail: SpanDetail, lit: Lit) -> Iterator[tuple[str, str]]:
    """(name, value) pairs; only what was recorded."""
    begun = _step_start(trace, detail)
    name = "start_run" if begun is None else "start"
    yield name, str(duration(detail.start - (trace.start if begun is None else begun)))
    yield "duration", str(duration(detail.end - detail.start))
    yield from _parts(trace, detail)
    if detail.ready:
        yield "queue", str(duration(max(0, detail.start - detail.ready)))
    if detail.version >= 0:
        yield "version", f"{detail.version:,}"
    if len(lit.selected) > 1:
        yield "count", f"{len(lit.selected):,}"


def _parts(trace: Trace, detail: SpanDetail) -> Iterator[tuple[str, str]]:
    """A recv between devices is its request's way, its wait and its value's way, one by one."""
    one = trace.all.take(np.array([detail.index]))
    parts = parts_of(trace, detail.index) if detail.kind == "rendezvous.recv" else None
    if parts is not None and len(parts.recvs):
        found = {"request": parts.request, "wait": parts.wait, "transfer": parts.transfer}
    else:
        found = {"wait": waited(one, value_at(trace, one))}
    for name, ns in found.items():
        if int(ns[0]):
            yield name, str(duration(int(ns[0])))


def _step_start(trace: Trace, detail: SpanDetail) -> int | None:
    """ns since the epoch at which the step of this span began, in the worker that ran it."""
    for step in trace.steps:
        if step.number == detail.step and f"{step.trace_lo:016x}" == detail.trace_id[16:]:
            return step.start
    return None


def _fact(name: str, value: str, lang: Lang) -> Component:
    return html.Div([html.Dt(t(f"timeline.fact.{name}", lang)), html.Dd(value)])


def _ends(trace: Trace, detail: SpanDetail, lang: Lang) -> list[Component]:
    """The parent and the other ends of links, each a button that selects it."""
    own = int(detail.id, 16) if detail.id else 0
    found = [
        (
            _OTHER_END[link.relation, link.target == own],
            link.source if link.target == own else link.target,
        )
        for link in trace.links([own])
    ]
    if detail.parent:
        found.append(("parent", int(detail.parent, 16)))
    buttons = [_end(trace, name, span, lang) for name, span in found]
    shown = [button for button in buttons if button]
    if detail.kind.startswith("collective.") or detail.op.startswith("Collective"):
        words = t("timeline.fact.collectives", lang)
        shown.append(link(words, f"/t/{trace.id}/collectives", kind="button"))
    return [html.Div(shown, className="span-ends")]


def _end(trace: Trace, name: str, span: int, lang: Lang) -> Component | None:
    place = int(trace.places(np.array([span], np.uint64))[0])
    if place < 0:
        return None
    task = trace.rows[int(trace.all.row[place])].task
    title = trace.all.words["name"][int(trace.all.codes("name")[place])]
    words = [
        html.Span(t(f"timeline.fact.{name}", lang)),
        html.B(f"{task} · {title}", className="cut"),
    ]
    target: dict[str, Any] = {"data-sel": f"span:{span:016x}"}
    return html.Button(words, type="button", className="button", **target)


def _attributes(detail: SpanDetail, lang: Lang) -> Component:
    if detail.attributes_missing:
        return html.P(t("timeline.fact.missing", lang), className="hint")
    rows = [
        html.Div([html.Dt(name), html.Dd(_text(value))])
        for name, value in sorted(detail.attributes.items())
        if name not in SAID
    ]
    if detail.status:
        rows.insert(0, html.Div([html.Dt("status"), html.Dd(detail.status)]))
    return html.Dl(rows, className="span-attributes")


def _text(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 400 else f"{text[:400]}…"
