"""One run in one HTML file: what a double click opens, without a network.

The pages' own layouts as text, the canvases' own scripts as modules of the file, and what the
server would have answered, compressed. Of a long run some steps are held in full.
"""

import gzip
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from dash import html
from dash.development.base_component import Component

from vizdist.analysis.cache_strips import cache_strips
from vizdist.analysis.call_sequence import call_sequence
from vizdist.analysis.held_steps import Held, held_steps
from vizdist.analysis.keys import edge_of
from vizdist.analysis.loss_curve import LossCurve, loss_curve
from vizdist.analysis.mailbox import crosses, mailbox
from vizdist.analysis.mechanisms.calls import methods_of, methods_of_run
from vizdist.analysis.replay import replay_of
from vizdist.analysis.stands_out import StandOut, stands_out
from vizdist.analysis.step_split import CLASSES, TaskSplit
from vizdist.analysis.steps import clients_of, splits_of, steps_around
from vizdist.components import shell
from vizdist.components.cache_strips import cache_strips_table
from vizdist.components.call_table import call_table
from vizdist.components.cards import HIDDEN, Children, button, chip, icon, says
from vizdist.components.graph_toolbar import stops
from vizdist.components.link_matrix import link_matrices
from vizdist.components.mailbox_list import mailbox_list
from vizdist.components.markup import markup
from vizdist.components.one_file import document
from vizdist.components.run_pictures import loss_says
from vizdist.components.stands_out import stands_out_list
from vizdist.components.view import View
from vizdist.figures import spark
from vizdist.figures.call_lines import call_lines
from vizdist.figures.findings import run_findings, step_findings
from vizdist.figures.graph_folding import AS_IT_OPENS
from vizdist.figures.graph_path import path_payload
from vizdist.figures.mailbox_rows import short_titles
from vizdist.figures.partitioned_graph import graph_payload, stage_counts
from vizdist.figures.replay import replay_bytes
from vizdist.figures.shared_uses import shared_uses
from vizdist.figures.step_graph import StepGraph, step_graph
from vizdist.figures.tile_bytes import tile_bytes
from vizdist.figures.timeline import arrow_ends, head
from vizdist.i18n import LANGUAGES, Lang, catalogue, t
from vizdist.pages import graph, rendezvous, replay, summary, timeline
from vizdist.store.exporters import otlp
from vizdist.store.library import Library
from vizdist.store.redaction import Redactor
from vizdist.store.tiles import TileSet
from vizdist.store.trace import Arrows, StepInfo, Trace

PAGES = (summary, graph, timeline, replay, rendezvous)
MOST_GRAPH_BYTES: Final = 2 << 20  #: of all stages, compressed; earlier stages go first
COLUMNS = 40  #: steps side by side
LOSS_PX = (400, 110)  #: about as large as its card
FACTS = ("device", "reason", "time", "wait", "bytes")  #: of a node, beside its output's shape

_STYLES = (
    "tokens",
    "icons",
    "shell",
    "reading",
    "library",
    "summary",
    "wrong",
    "graph",
    "timeline",
    "replay",
    "rendezvous",
    "offline",
)


def write(library: Library, trace_id: str, path: Path, wanted: range | None) -> int:
    """Returns the number of spans that the file holds; TraceError for steps that are too many."""
    trace = library.open(trace_id)
    held = held_steps(trace, wanted)
    number = held.opening(trace)
    step = trace.step(number, clients_of(trace, number)[0]) if number is not None else None
    found = step_graph(trace, number)
    payloads = _payloads(found)
    data = {
        "head": head(trace),
        "arrows": _arrows(trace, held),
        "step": number,
        "graphs": payloads,
        "path": path_payload(trace, found.step) | found.told,
        "findings": _findings(trace, held),
        "stands_out": run_findings(trace, _standing_out(trace, held)),
        "calls": {lang: _calls(trace, step, lang) for lang in LANGUAGES},
        "keys": _keys(trace, step),
    }
    replayed = replay_bytes(trace, replay_of(trace, step)) if step and trace.graphs else b""
    pages = {lang: _page(library, trace, held, step, found, payloads, lang) for lang in LANGUAGES}
    parts = {"held": orjson.dumps(data), "tile": _tile(trace, held), "replayed": replayed}
    text = document(f"{trace.title} · vizdist", pages, parts, _STYLES, "offline.mjs")
    path.write_text(text, encoding="utf-8")
    return len(held.places)


def write_redacted(library: Library, trace_id: str, path: Path, wanted: range | None) -> int:
    """The same of a copy without names, called as the file is."""
    trace = library.open(trace_id)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"{path.stem}{otlp.FOLDER_SUFFIX}"
        otlp.write(trace, copy, Redactor(trace))
        nameless = Library()
        return write(nameless, nameless.add(copy), path, wanted)


# what is held


def _tile(trace: Trace, held: Held) -> bytes:
    """Every span on its own; nothing is merged, so that any zoom is answered."""
    spans = trace.all.take(held.places)
    alone = np.zeros(len(spans))
    tiles = TileSet(trace.start, trace.end, range(len(trace.rows)), spans, alone)
    return tile_bytes(trace, tiles)


def _arrows(trace: Trace, held: Held) -> dict[str, Any]:
    source, target, code = trace.relations
    inside = np.isin(source, held.places) & np.isin(target, held.places)
    found = Arrows(source[inside], target[inside], code[inside], int(inside.sum()))
    return arrow_ends(trace, found)


def _standing_out(trace: Trace, held: Held) -> list[StandOut]:
    return [one for one in stands_out(trace) if one.step.number in held.steps]


def _findings(trace: Trace, held: Held) -> dict[str, dict[str, Any]]:
    """By task and number of the steps that are held."""
    steps = [step for step in trace.steps if step.number in held.steps]
    return {f"{step.task} {step.number}": step_findings(trace, step) for step in steps}


def _payloads(found: StepGraph) -> dict[str, dict[str, Any]]:
    """Stage → payload of its canvas, the last stages first to have room."""
    room = MOST_GRAPH_BYTES
    kept: dict[str, dict[str, Any]] = {}
    for stage in reversed(list(found.stages)):
        payload = graph_payload(found.stages, stage, found.measures, AS_IT_OPENS)
        payload |= found.told
        room -= len(gzip.compress(orjson.dumps(payload)))
        if kept and room < 0:
            break
        kept[stage] = payload
    return dict(reversed(kept.items()))


def _keys(trace: Trace, step: StepInfo | None) -> dict[str, list[str]]:
    """The ids of the spans at both ends of every key."""
    rows = mailbox(trace, step).rows if step else ()
    return {row.key: [row.send, row.recv] for row in rows}


def _calls(trace: Trace, step: StepInfo | None, lang: Lang) -> dict[str, Any]:
    found = call_sequence(trace, step) if step else None
    return call_lines(found, lang) if found else {"none": t("rendezvous.calls.none", lang)}


# what is said


def _page(
    library: Library, trace: Trace, held: Held, step: StepInfo | None, found: StepGraph,
    payloads: dict[str, Any], lang: Lang,
) -> str:  # fmt: skip
    """Header, rail, pages and the strip, as they stand in the dashboard."""
    views = {page.NAME: View(page.NAME, trace.id, lang) for page in PAGES}
    bodies = {page.NAME: page.layout(library, views[page.NAME]) for page in PAGES}
    if step is not None:
        _fill_summary(bodies["summary"], trace, step.number, lang)
        if len(trace):
            said_of_step = timeline.split_words(trace, step.number, lang)
            bodies["timeline"]["timeline-split"].children = said_of_step
            found_most = stands_out_list(_standing_out(trace, held), lang)
            bodies["timeline"]["timeline-span"].children = found_most
        if crosses(trace):
            for name, filled in _rendezvous(trace, step, lang):
                bodies["rendezvous"][f"rendezvous-{name}"].children = filled
    if payloads:
        counts = [one for one in stage_counts(found.stages) if one["stage"] in payloads]
        bodies["graph"]["graph-stages"].children = stops(counts, list(payloads)[-1], lang)
        del bodies["graph"]["graph-table"]  # a server makes it
        del bodies["graph"]["graph-table-button"]
        del bodies["graph"]["graph-two"]
    pages = [
        html.Div(body, className="page", **{"data-page": name}, hidden=name != "summary")
        for name, body in bodies.items()
    ]
    rail = shell.rail(PAGES, views["summary"], trace)
    strip: dict[str, Any] = {
        "aria-live": "polite",
        "data-words": orjson.dumps(_words(lang)).decode(),
    }
    return markup(
        [
            html.Header(_header(trace, held, lang), className="header"),
            html.Nav(rail, className="rail", id="rail"),
            html.Main(pages, className="main", id="main", tabIndex=-1),
            html.Footer(id="strip", className="strip", **strip),
            html.Nav(rail, className="tabs", id="tabs"),
        ]
    )


def _header(trace: Trace, held: Held, lang: Lang) -> list[Component]:
    values = {"spans": f"{len(held.places):,}", "of": f"{len(trace):,}", "steps": held.said(lang)}
    key = "holds" if held.steps else "holds_spans"
    switches = [
        button("theme", t("shell.header.theme", lang), icon("theme")),
        button(
            "lang",
            t("shell.header.lang_says", lang),
            html.Span(t("shell.header.lang", lang), className="lang-word"),
        ),
    ]
    strategy = [chip(trace.manifest.strategy, kind="strong")] if trace.manifest.strategy else []
    return [
        html.Span(className="mark", **HIDDEN),
        html.Span(trace.title, className="run-name", title=trace.title),
        *strategy,
        html.Div(className="space"),
        html.Span(
            t(f"offline.{key}", lang, count=len(held.steps), **values), className="hint held-says"
        ),
        html.Div(switches, className="switches"),
    ]


def _words(lang: Lang) -> dict[str, str]:
    """What assets/offline.mjs says: of a selection, and of what is not in the file."""
    texts = catalogue(lang)
    own = {key: texts[f"offline.{key}"] for key in ("absent", "nothing", "choose_node")}
    facts = {key: texts[f"graph.column.{key}"] for key in FACTS}
    return own | facts | {"shape": texts["graph.fact.output"]}


def _fill_summary(body: Component, trace: Trace, step: int, lang: Lang) -> None:
    """Puts words and small pictures where the page has charts that need Dash."""
    body["summary-step"].children = summary.split_words(splits_of(trace, step), lang)
    if len(trace.steps) > 1:
        row = steps_around(trace, step)
        caption = t("summary.caption", lang, task=row.task, count=row.count)
        body["summary-caption"].children = caption
        body["summary-columns"] = _columns(row.splits, step)
    if (curve := loss_curve(trace)).mean:
        body["summary-loss"] = _loss(curve, lang)


def _rendezvous(trace: Trace, step: StepInfo, lang: Lang) -> Iterator[tuple[str, Children]]:
    """Its cards; iterations stand below their edge, where the script folds them."""
    found = mailbox(trace, step)
    titles = short_titles(found.rows)
    traffic = {(titles[a], titles[b]): one for (a, b), one in found.traffic.items()}
    spans = trace.all.take(trace.step_places(step))
    edges = [edge_of(row.key) for row in found.rows if row.frame]
    yield "head", rendezvous.headline(found, step, lang)
    uses = shared_uses(trace, step)
    yield "mail", mailbox_list(found, {"opened": edges}, lang, uses)
    yield "mail-note", rendezvous.note_of_keys(found, lang, uses)
    yield "links", link_matrices(traffic, lang)
    yield "caches", cache_strips_table(cache_strips(trace, step), step.number, lang)
    yield "step", call_table(methods_of(trace, spans.take(spans.is_kind("rpc.client"))), lang)
    yield "run", call_table(methods_of_run(trace), lang)


def _loss(curve: LossCurve, lang: Lang) -> Component:
    mask = {"maskImage": spark.line([loss for _, loss in curve.mean], *LOSS_PX)}
    line = html.Span(className="mask ink", style=mask)
    return html.Div(line, className="spark", role="img", **says(loss_says(curve, lang)))


def _columns(splits: Sequence[TaskSplit], step: int) -> Component:
    """A column a step, as high as it is long, its classes from the ground up."""
    at = next((i for i, one in enumerate(splits) if one.step.number == step), 0)
    first = max(0, min(at - COLUMNS // 2, len(splits) - COLUMNS))
    shown = splits[first : first + COLUMNS]
    most = max(one.total for one in shown)
    return html.Div(
        [_column(one, most, one.step.number == step) for one in shown], className="columns"
    )


def _column(split: TaskSplit, most: int, is_shown: bool) -> Component:
    parts = [
        html.Span(className=f"fill-{name}", style={"flexGrow": split.parts[name]})
        for name in reversed(CLASSES)
        if split.parts[name]
    ]
    bar = html.Span(parts, className="bar", style={"height": f"{100 * split.total / most:.1f}%"})
    number = html.Span(str(split.step.number), className="number")
    return html.Span([bar, number], className="shown" if is_shown else None)
