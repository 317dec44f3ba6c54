"""One run in one HTML file: Summary, graph and timeline, read by a double click, without a network.

The pages' own layouts as text, the canvases' own scripts as modules of the file, and what the
server would have answered, compressed. Of a long run some steps are held in full.
"""

import base64
import gzip
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from dash import html
from dash.development.base_component import Component

from vizdist.analysis.loss_curve import loss_curve
from vizdist.analysis.mechanisms.text_table import listed
from vizdist.analysis.stands_out import StandOut, stands_out
from vizdist.analysis.step_split import CLASSES, TaskSplit
from vizdist.analysis.steps import shown_step, splits_of, step_numbers, steps_around
from vizdist.analysis.summary import summarise
from vizdist.components import shell
from vizdist.components.cards import HIDDEN, button, chip, icon, says
from vizdist.components.graph_toolbar import stops
from vizdist.components.markup import markup
from vizdist.components.stands_out import stands_out_list
from vizdist.components.view import View
from vizdist.figures import spark
from vizdist.figures.findings import run_findings, step_findings
from vizdist.figures.graph_folding import AS_IT_OPENS
from vizdist.figures.graph_path import path_payload
from vizdist.figures.partitioned_graph import graph_payload, stage_counts
from vizdist.figures.step_graph import StepGraph, step_graph
from vizdist.figures.tile_bytes import tile_bytes
from vizdist.figures.timeline import arrow_ends, head
from vizdist.i18n import LANGUAGES, Lang, catalogue, t
from vizdist.pages import graph, summary, timeline
from vizdist.routes.assets import assets_folder, modules_of
from vizdist.store.exporters import otlp
from vizdist.store.library import Library
from vizdist.store.problems import TraceError
from vizdist.store.redaction import Redactor
from vizdist.store.segments import Array
from vizdist.store.tiles import TileSet
from vizdist.store.trace import Arrows, Trace

PAGES = (summary, graph, timeline)
USUAL_SPANS: Final = 20_000  #: steps are added until the file would hold more
MOST_SPANS: Final = 100_000  #: what may be asked for
MOST_GRAPH_BYTES: Final = 2 << 20  #: of all stages, compressed; earlier stages go first
COLUMNS = 40  #: steps side by side
LOSS_PX = (400, 110)  #: about as large as its card
FACTS = ("device", "reason", "time", "wait", "bytes")  #: of a node, beside its output's shape

_ENTRY = "offline.mjs"
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
    "offline",
)
_URL = re.compile(r'url\("((?!data:)[^"]+)"\)')
_SPECIFIER = re.compile(r'"\./([\w/]+\.mjs)"')

_DOCUMENT = """<!DOCTYPE html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
<script>{boot}</script>
<script type="importmap">{modules}</script>
</head>
<body>
<div id="react-entry-point" class="offline"></div>
{templates}
<script type="text/plain" id="held">{held}</script>
<script type="text/plain" id="tile">{tile}</script>
<script type="module">import "{entry}";</script>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class Held:
    """What of a run the file holds in full: these steps, and so many spans."""

    steps: tuple[int, ...]
    places: Array

    def said(self, lang: Lang) -> str:
        """The steps as people write them: 3, 7–9."""
        runs: list[list[int]] = []
        for number in self.steps:
            if runs and number == runs[-1][-1] + 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        return listed((f"{run[0]}–{run[-1]}" if run[1:] else str(run[0]) for run in runs), lang)


def write(library: Library, trace_id: str, path: Path, wanted: range | None) -> int:
    """Returns the number of spans that the file holds; TraceError for steps that are too many."""
    trace = library.open(trace_id)
    held = _held(trace, wanted)
    step = _opening_step(trace, held)
    found = step_graph(trace, step)
    payloads = _payloads(found)
    texts = [_page(library, trace, held, step, found, payloads, lang) for lang in LANGUAGES]
    templates = [
        f'<template lang="{lang}">{text}</template>'
        for lang, text in zip(LANGUAGES, texts, strict=True)
    ]
    data = {
        "head": head(trace),
        "arrows": _arrows(trace, held),
        "step": step,
        "graphs": payloads,
        "path": path_payload(trace, found.step) | found.told,
        "findings": _findings(trace, held),
        "stands_out": run_findings(trace, _standing_out(trace, held)),
    }
    folder = assets_folder()
    text = _DOCUMENT.format(
        title=escape(f"{trace.title} · vizdist"),
        style=_style(folder),
        boot=(folder / "boot.js").read_text(encoding="utf-8"),
        modules=_modules(folder),
        templates="\n".join(templates),
        held=_packed(orjson.dumps(data)),
        tile=_packed(_tile(trace, held)),
        entry=_ENTRY,
    )
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


def _held(trace: Trace, wanted: range | None) -> Held:
    numbers = step_numbers(trace)
    if wanted is not None:
        chosen = [number for number in numbers if number in wanted]
        if not chosen:
            have = f"it holds steps {numbers[0]} to {numbers[-1]}" if numbers else "it holds none"
            raise TraceError(f"no step of {wanted[0]}-{wanted[-1]} is in this trace; {have}")
    else:
        chosen = _usual(trace, numbers)
    places = np.flatnonzero(np.isin(trace.all.step, chosen))
    if not numbers:
        places = np.arange(min(len(trace), USUAL_SPANS))
    if len(places) > MOST_SPANS:
        raise TraceError(_too_many(chosen, len(places)))
    return Held(tuple(chosen), places)


def _too_many(chosen: Sequence[int], num_spans: int) -> str:
    first, last = chosen[0], chosen[-1]
    who = f"step {first} has" if first == last else f"steps {first} to {last} have"
    way = "cut a part of it with vizdist import --between" if first == last else "ask for fewer"
    return (
        f"{who} {num_spans:,} spans, and a file may hold {MOST_SPANS:,}; {way}, or show the run "
        "with vizdist serve"
    )


def _usual(trace: Trace, numbers: Sequence[int]) -> list[int]:
    """The steps that the Summary speaks of, then the first ones, as far as there is room.

    The first may take more than that. A step that is too large gives way to those after it; where
    a file may hold none of them, the smallest is taken.
    """
    told = [shown_step(trace, None), *(said.step for said in summarise(trace).sentences)]
    first = [number for number in told if number is not None and number in numbers]
    counts = np.bincount(trace.all.step[trace.all.step > 0], minlength=max(numbers, default=0) + 1)
    chosen: list[int] = []
    room = USUAL_SPANS
    for number in dict.fromkeys([*first, *numbers]):
        if counts[number] <= (room if chosen else MOST_SPANS):
            room -= int(counts[number])
            chosen.append(number)
    return sorted(chosen) or sorted(numbers, key=lambda number: int(counts[number]))[:1]


def _opening_step(trace: Trace, held: Held) -> int | None:
    usual = shown_step(trace, None)
    return usual if usual in held.steps or not held.steps else held.steps[0]


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


# what is said


def _page(
    library: Library, trace: Trace, held: Held, step: int | None, found: StepGraph,
    payloads: dict[str, Any], lang: Lang,
) -> str:  # fmt: skip
    """Header, rail, the three pages and the strip, as they stand in the dashboard."""
    views = {page.NAME: View(page.NAME, trace.id, lang) for page in PAGES}
    bodies = {page.NAME: page.layout(library, views[page.NAME]) for page in PAGES}
    if step is not None:
        _fill_summary(bodies["summary"], trace, step, lang)
        if len(trace):
            said_of_step = timeline.split_words(trace, step, lang)
            bodies["timeline"]["timeline-split"].children = said_of_step
            found_most = stands_out_list(_standing_out(trace, held), lang)
            bodies["timeline"]["timeline-span"].children = found_most
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
    losses = [loss for _, loss in loss_curve(trace).main]
    if losses:
        body["summary-loss"] = _loss(losses, lang)


def _loss(losses: Sequence[float], lang: Lang) -> Component:
    values = {"first": f"{losses[0]:.3f}", "last": f"{losses[-1]:.3f}"}
    mask = {"maskImage": spark.line(losses, *LOSS_PX)}
    line = html.Span(className="mask ink", style=mask)
    said = says(t("summary.loss_says", lang, **values))
    return html.Div(line, className="spark", role="img", **said)


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


# how it is packed


def _packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _style(folder: Path) -> str:
    text = "\n".join((folder / f"{name}.css").read_text(encoding="utf-8") for name in _STYLES)
    return _URL.sub(lambda found: f'url("{_svg_url(folder / found[1])}")', text)


def _svg_url(file: Path) -> str:
    return _data_url("image/svg+xml", file.read_bytes())


def _modules(folder: Path) -> str:
    """An import map from the name of each script to its text: a file cannot import another."""
    imports = {}
    for name in modules_of(folder, [_ENTRY]):
        text = _SPECIFIER.sub(r'"\1"', (folder / name).read_text(encoding="utf-8"))
        imports[name] = _data_url("text/javascript", text.encode())
    return orjson.dumps({"imports": imports}).decode()
