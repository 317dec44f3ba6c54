"""The header: which run this is, which step, and the switches of theme and language."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from dash import dcc, html
from dash.development.base_component import Component

from vizdist.analysis.overview import cluster_tasks
from vizdist.analysis.search import KINDS
from vizdist.analysis.steps import step_numbers
from vizdist.components.cards import HIDDEN, button, chip, icon, link, says
from vizdist.components.view import Live, View
from vizdist.i18n import Lang, t
from vizdist.store.liveness import RUNNING
from vizdist.store.trace import Trace

#: Pages that can keep the newest step in view.
FOLLOWING = (
    "summary",
    "timeline",
    "replay",
    "rendezvous",
    "strategy",
    "collectives",
    "variables",
    "data",
)


def library_header(lang: Lang) -> list[Component]:
    """The product's name, and a field that is seen when there is something to find."""
    name = html.Span("vizdist", className="run-name product")
    return [_mark(lang), name, _space(), _finder(lang), *_switches(lang)]


def compare_header(count: int, lang: Lang) -> list[Component]:
    """How many runs stand side by side; the page itself has their steps."""
    name = html.Span(t("shell.header.runs", lang, count=count), className="run-name product")
    return [_mark(lang), name, _space(), *_switches(lang)]


def reference_header(lang: Lang) -> list[Component]:
    """As in the Library, but what is found is an entry of the reference."""
    name = html.Span("vizdist", className="run-name product")
    return [_mark(lang), name, _space(), _finder(lang, "find_entry"), *_switches(lang)]


class Running(NamedTuple):
    """A run that goes on: `seen` is the state that the header shows, None when the run is over."""

    seen: int | None = None
    may_follow: bool = False
    is_followed: bool = False


def run_state(live: Live | None, view: View, outcome: str, *, is_followed: bool) -> Running:
    """What the header says of a run that goes on; only some pages move with it."""
    if outcome != RUNNING:
        return Running()
    seen = live["seen"] if live else 0
    return Running(seen, view.page in FOLLOWING, is_followed)


Moving = tuple[list[Component], list[Component]]  #: what stands before and behind the field


def moving(trace: Trace, step: int | None, running: Running, lang: Lang) -> Moving:
    """What the viewer's steps and the run itself change: facts, counts and clock."""
    manifest = trace.manifest
    facts = [
        *([chip(manifest.strategy, kind="strong strategy")] if manifest.strategy else []),
        *([_tasks(trace, lang)] if manifest.tasks else []),
        *([_stepper(step_numbers(trace), step, lang)] if step is not None else []),
        *(_running(running, lang) if running.seen is not None else []),
    ]
    counts = [
        _counts(trace, lang, is_over=running.seen is None),
        *([_clock(lang)] if len(manifest.clocks) <= 1 and manifest.run_id else []),
    ]
    return facts, counts


def run_header(trace: Trace, step: int | None, running: Running, lang: Lang) -> list[Component]:
    """Name and search field, in which a viewer may be typing, around places for what moves."""
    facts, counts = moving(trace, step, running, lang)
    return [
        _mark(lang),
        html.Span(trace.title, className="run-name", title=trace.title),
        html.Div(facts, id="header-facts", className="as-one"),
        _space(),
        _search(trace, lang),
        html.Div(counts, id="header-counts", className="as-one"),
        *_switches(lang),
    ]


def _finder(lang: Lang, says: str = "find", **attributes: Any) -> Component:
    """A field that `/` goes to; assets/search.mjs answers it."""
    return html.Label(
        [
            icon("search"),
            html.Span(t(f"shell.header.{says}", lang), className="unseen"),
            dcc.Input(id="search", type="search", placeholder=t(f"shell.header.{says}", lang)),
            html.Kbd("/", **HIDDEN),
        ],
        className="finder",
        **attributes,
    )


def _search(trace: Trace, lang: Lang) -> Component:
    """The field with the list of what it found in this run below it."""
    words = {kind: t(f"shell.kind.{kind}", lang) for kind in KINDS}
    for key in ("none", "more"):
        words[key] = t(f"shell.search.{key}", lang, count="{count}")
    data: dict[str, Any] = {
        "data-trace": trace.id,
        "data-words": json.dumps(words, ensure_ascii=False),
    }
    rows = html.Div(id="found-rows", role="listbox", **says(t("shell.search.found", lang)))
    found = html.Div([rows, html.Div(id="found-note", role="status")], id="found", hidden=True)
    return html.Div([_finder(lang, "find_in_run"), found], className="search", **data)


def _mark(lang: Lang) -> Component:
    label = t("shell.pages.library", lang)
    return link(html.Span(className="mark", **HIDDEN), "/", kind="mark-link", **says(label))


def _space() -> Component:
    return html.Div(className="space")


def _tasks(trace: Trace, lang: Lang) -> Component:
    jobs = Counter(task.partition(":")[0] for task, _ in cluster_tasks(trace))
    words = [t("shell.header.tasks", lang, job=job, count=count) for job, count in jobs.items()]
    return chip(" · ".join(words), kind="outline tasks")


def _stepper(numbers: Sequence[int], step: int, lang: Lang) -> Component:
    return html.Div(
        [
            button("previous", t("shell.header.previous_step", lang), icon("left")),
            html.Span(
                [
                    html.B(t("shell.header.step", lang, step=f"{step:,}")),
                    t("shell.header.steps_of", lang, count=f"{numbers[-1]:,}"),
                ],
                className="step-words",
            ),
            button("next", t("shell.header.next_step", lang), icon("right")),
        ],
        id="stepper",
        className="stepper",
        role="group",
        **says(t("shell.header.steps", lang), data_step=step, data_steps=json.dumps(numbers)),
    )


def _running(running: Running, lang: Lang) -> list[Component]:
    """A chip while the run goes on, and the switch that keeps its newest step in view."""
    words: list[Any] = [html.Span(className="pulse", **HIDDEN), t("shell.header.running", lang)]
    seen: dict[str, Any] = {"data-seen": running.seen}
    flag = html.Span(
        words, className="chip strong running", title=t("shell.header.running_says", lang), **seen
    )
    found: list[Component] = [flag]
    if not running.may_follow:
        return found
    attributes = {"aria-pressed": str(running.is_followed).lower(), "data-do": "follow"}
    follow = html.Button(
        t("shell.header.follow", lang),
        id="follow-run",
        className="button",
        type="button",
        title=t("shell.header.follow_says", lang),
        **cast("Any", attributes),
    )
    return [*found, follow]


def _counts(trace: Trace, lang: Lang, *, is_over: bool) -> Component:
    """Recorded by the tasks, written by the collector, read here: at the end they should agree."""
    recorded, written = trace.manifest.recorded or len(trace), trace.manifest.written or len(trace)
    lost = max(0, recorded - min(written, len(trace))) if is_over else 0
    counts = {"recorded": f"{recorded:,}", "written": f"{written:,}", "read": f"{len(trace):,}"}
    words = t("shell.header.spans", lang, count=len(trace), dropped=f"{lost:,}")
    return chip(
        [
            icon("warning" if lost else "check"),
            html.Span(words, className="words"),
            html.Span(f"{lost or len(trace):,}", className="number"),
        ],
        kind="error counts" if lost else "outline counts",
        title=t("shell.header.spans_says", lang, **counts),
    )


def _clock(lang: Lang) -> Component:
    words = html.Span(t("shell.header.clock", lang), className="words")
    title = t("shell.header.clock_says", lang)
    return chip([icon("clock"), words], kind="outline clock", title=title)


def _switches(lang: Lang) -> list[Component]:
    """On a phone they hang below a menu button."""
    words = html.Span(t("shell.header.lang", lang), className="lang-word")
    copied = html.Span(t("shell.header.copied", lang), className="done-word", role="status")
    menu = button("menu", t("shell.header.menu", lang), icon("menu"), **{"aria-expanded": "false"})
    switches = [
        button("theme", t("shell.header.theme", lang), icon("theme")),
        button("lang", t("shell.header.lang_says", lang), words),
        button("copy", t("shell.header.copy", lang), [icon("link"), icon("check done"), copied]),
    ]
    return [html.Div(menu, className="menu"), html.Div(switches, className="switches")]
