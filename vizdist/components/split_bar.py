"""Where the time of a step went: a bar a worker, and the numbers, which add up to the step."""

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.step_split import CLASSES, TaskSplit
from vizdist.components.cards import swatch
from vizdist.i18n import Lang, t
from vizdist.i18n.units import micros, percentages


def split_bars(splits: Sequence[TaskSplit], lang: Lang, *, is_explained: bool = False) -> Component:
    """Asynchronous workers each run a step of the same number; their numbers stand side by side.

    `is_explained`: what is left over says in a line what it is, where a card has the room.
    """
    names = [name for name in CLASSES if any(split.parts[name] for split in splits)]
    numbers = _legend(names, splits[0], lang) if len(splits) == 1 else _table(names, splits, lang)
    rows = [_row(split, len(splits) > 1, lang) for split in splits]
    note = html.P(t("shell.class_note.other", lang), className="split-note")
    is_noted = is_explained and "other" in names
    return html.Div([html.Div(rows, className="splits"), numbers, *([note] if is_noted else [])])


def _row(split: TaskSplit, named: bool, lang: Lang) -> Component:
    shares = percentages([float(split.parts[name]) for name in CLASSES])
    parts = [
        _part(name, share, split.parts[name], lang)
        for name, share in zip(CLASSES, shares, strict=True)
        if share
    ]
    name = [html.B(split.task), html.Span(f"{micros(split.total)} µs")]
    return html.Div(
        [
            *([html.Div(name, className="split-name")] if named else []),
            html.Div(parts, className="split-bar"),
        ],
        className="split-row",
    )


def _part(name: str, share: float, ns: int, lang: Lang) -> Component:
    word = t(f"shell.class.{name}", lang)
    label = html.Span([html.B(word), html.Span(f"{share:.1f} %")], className="on-chip")
    meaning = t(f"shell.class_says.{name}", lang)
    return html.Div(
        label,
        className=f"part fill-{name}",
        style={"flexGrow": share},
        title=f"{word} {share:.1f} %, {micros(ns)} µs. {meaning}",
    )


def _name(name: str, lang: Lang) -> list[Component | str]:
    return [swatch(name), t(f"shell.class.{name}", lang)]


def _legend(names: Sequence[str], split: TaskSplit, lang: Lang) -> Component:
    entries = [
        html.Span(
            [*_name(name, lang), html.B(micros(split.parts[name]))],
            title=t(f"shell.class_says.{name}", lang),
        )
        for name in names
    ]
    return html.Div(entries, className="legend")


def _table(names: Sequence[str], splits: Sequence[TaskSplit], lang: Lang) -> Component:
    """A group a class: its name, then each worker's µs, in the order of the bars."""
    tasks = [html.Span(), *(html.B(split.task) for split in splits)]
    groups = [html.Div(tasks, className="split-tasks")]
    for name in names:
        numbers = [html.B(micros(split.parts[name])) for split in splits]
        title = t(f"shell.class_says.{name}", lang)
        groups.append(html.Div([html.Span(_name(name, lang)), *numbers], title=title))
    return html.Div(groups, className="split-table", style={"--workers": len(splits)})
