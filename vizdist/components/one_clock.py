"""A step of each run on one clock: a lane a task, and a thick line where the step ends."""

import json
from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.compare import ComparedRun, Comparison
from vizdist.analysis.mechanisms.text_table import listed
from vizdist.analysis.step_split import CLASSES, Lane
from vizdist.components.cards import HIDDEN, button, icon, link, says, swatch
from vizdist.components.run_badge import run_badge
from vizdist.figures.one_clock import Bar, bars, ticks
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration, micros, size

AIR = 1.03  #: the clock goes on a little after the longest step
LANES = 6  #: of a run that are drawn; the others are counted


def clock_card(found: Comparison, lang: Lang) -> Component:
    """The card of it, with what moves along the steps that all runs hold."""
    title = html.H2([t("compare.clock.title", lang), html.Small(_note(found, lang))])
    stepper = [_stepper(found, lang)] if found.numbers else []
    head = html.Div([title, _legend(found.runs, lang), *stepper], className="clock-head")
    return html.Section([head, _clock(found.runs, lang)], className="card clock-card")


def _note(found: Comparison, lang: Lang) -> str:
    """Which step of each run it is; one that a run does not hold is not kept quiet."""
    shown = {run.step.number for run in found.runs if run.step}
    if not shown:
        return ""
    if shown == {found.asked}:
        return t("compare.clock.step", lang, step=f"{found.asked:,}")
    steps = [
        t("compare.clock.of", lang, step=f"{run.step.number:,}", run=run.letter)
        for run in found.runs
        if run.step
    ]
    key = "median" if found.asked is None else "instead"
    return t(f"compare.clock.{key}", lang, steps=listed(steps, lang), step=found.asked)


def _stepper(found: Comparison, lang: Lang) -> Component:
    """As in the header of a run; before a step is chosen it stands at the medians."""
    if found.asked is None:
        words: list[Component | str] = [html.B(t("compare.clock.medians", lang))]
    else:
        of = t("shell.header.steps_of", lang, count=f"{found.numbers[-1]:,}")
        words = [html.B(t("shell.header.step", lang, step=f"{found.asked:,}")), of]
    data = {"data_step": found.asked or "", "data_steps": json.dumps(found.numbers)}
    return html.Div(
        [
            button("previous", t("shell.header.previous_step", lang), icon("left")),
            html.Span(words, className="step-words"),
            button("next", t("shell.header.next_step", lang), icon("right")),
        ],
        id="stepper",
        className="stepper",
        role="group",
        **says(t("shell.header.steps", lang), **data),
    )


def _clock(runs: Sequence[ComparedRun], lang: Lang) -> Component:
    clock_ns = round(AIR * max((run.step.duration for run in runs if run.step), default=0)) or 1
    marks = ticks(clock_ns)
    places = [_share(at, clock_ns) for at in marks.at]
    axis = [
        html.Span(word, style={"left": place})
        for word, place in zip(marks.words, places, strict=True)
    ]
    return html.Div(
        [
            html.Div(axis, className="clock-axis", **HIDDEN),
            *(_run(run, clock_ns, places, lang) for run in runs),
        ],
        className="one-clock",
    )


def _legend(runs: Sequence[ComparedRun], lang: Lang) -> Component:
    """Of the classes that are drawn."""
    seen = {CLASSES[at] for run in runs for lane in run.lanes for at in set(lane.classes.tolist())}
    names = [name for name in CLASSES if name in seen]
    entries = [html.Span([swatch(name), t(f"shell.class.{name}", lang)]) for name in names]
    return html.Div(entries, className="legend")


def _share(ns: float, clock_ns: int) -> str:
    return f"{100 * ns / clock_ns:.3f}%"


def _run(run: ComparedRun, clock_ns: int, places: Sequence[str], lang: Lang) -> Component:
    step = f"?step={run.step.number}" if run.step else ""
    title = link(run.trace.title, f"/t/{run.trace.id}/summary{step}", kind="cut")
    strategy = run.trace.manifest.strategy
    words = [html.B(title), html.Span(strategy), html.Span(_untimed(run, lang))]
    name = html.Div(words, className="clock-words")
    lines = [html.Span(style={"left": place}) for place in places]
    end = [html.Span(style={"left": _share(run.took, clock_ns)})] if run.ended else []
    more = len(run.lanes) - LANES
    rest = [html.Div(t("compare.more_lanes", lang, count=more), className="more")]
    return html.Div(
        [
            html.Div([run_badge(run.letter), name], className="clock-name"),
            html.Div(
                [
                    html.Div(lines, className="clock-lines", **HIDDEN),
                    *(_lane(lane, clock_ns, lang) for lane in run.lanes[:LANES]),
                    *(rest if more > 0 else []),
                    html.Div(end, className="clock-end", **HIDDEN),
                ],
                className="clock-lanes",
            ),
            html.Dl(_figures(run, lang), className="clock-figures"),
        ],
        className="clock-run",
    )


def _figures(run: ComparedRun, lang: Lang) -> list[Component]:
    """What a step of a run costs, and what it works with."""
    if run.step is None:
        return []
    held, exposed = run.held, run.exposed
    found = [
        ("took", str(duration(run.took)) if run.ended else "–"),
        ("moved", str(size(run.moved.per_step)) if run.moved.total else "0"),
        ("exposed", "–" if exposed is None else str(duration(exposed))),
        ("devices", f"{held.devices:,}"),
        ("copies", f"{held.copies:,}"),
    ]
    values = {"variables": f"{held.variables:,}", "bytes": size(held.bytes)}
    values |= {"task": run.split.task if run.split else run.step.task}
    return [
        html.Div(
            [html.Dt(t(f"compare.figure.{name}", lang)), html.Dd(value)],
            title=t(f"compare.figure.{name}_is", lang, **values),
        )
        for name, value in found
    ]


def _untimed(run: ComparedRun, lang: Lang) -> str:
    """What of a run there is to see, if not its step time."""
    if run.step:
        return "" if run.ended else t("compare.unended", lang)
    if run.trace.steps:
        return t("compare.no_steps", lang)
    time = str(duration(run.trace.end - run.trace.start))
    return t("compare.spans", lang, count=len(run.trace), time=time)


def _lane(lane: Lane, clock_ns: int, lang: Lang) -> Component:
    found = bars(lane, clock_ns)
    drawn = [_bar(bar, clock_ns, lang) for bar in found]
    totals = {part: sum(b.end - b.start for b in found if b.part == part) for part in CLASSES}
    told = [
        f"{t(f'shell.class.{part}', lang)} {micros(ns)} µs" for part, ns in totals.items() if ns
    ]
    label = says(f"{lane.name}: {', '.join(told)}")
    track = html.Div(drawn, className="clock-track", role="img", **label)
    return html.Div([html.Span(lane.name, className="clock-task"), track], className="clock-lane")


def _bar(bar: Bar, clock_ns: int, lang: Lang) -> Component:
    word = t(f"shell.class.{bar.part}", lang)
    return html.Span(
        className=f"fill-{bar.part}",
        title=f"{word} {micros(bar.end - bar.start)} µs",
        style={
            "left": _share(bar.start, clock_ns),
            "width": _share(bar.end - bar.start, clock_ns),
        },
    )
