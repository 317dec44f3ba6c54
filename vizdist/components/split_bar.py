"""Where the time of a step went: a bar a worker, and a legend whose numbers add up to the step."""

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.step_split import CLASSES, TaskSplit
from vizdist.components.cards import swatch
from vizdist.i18n import Lang, t
from vizdist.i18n.units import micros, percentages


def split_bars(splits: Sequence[TaskSplit], lang: Lang) -> Component:
    """Asynchronous workers each run a step of the same number; their numbers stand side by side."""
    legend = [_entry(name, splits, lang) for name in CLASSES]
    return html.Div(
        [
            html.Div([_row(split, len(splits) > 1, lang) for split in splits], className="splits"),
            html.Div(legend, className="legend" if len(splits) == 1 else "legend wide"),
        ]
    )


def _row(split: TaskSplit, named: bool, lang: Lang) -> Component:
    shares = percentages([float(split.parts[name]) for name in CLASSES])
    parts = [_part(name, share, lang) for name, share in zip(CLASSES, shares, strict=True) if share]
    name = [html.B(split.task), html.Span(f"{micros(split.total)} µs")]
    return html.Div(
        [
            *([html.Div(name, className="split-name")] if named else []),
            html.Div(parts, className="split-bar"),
        ],
        className="split-row",
    )


def _part(name: str, share: float, lang: Lang) -> Component:
    word = t(f"shell.class.{name}", lang)
    label = html.Span([html.B(word), html.Span(f"{share:.1f} %")], className="on-chip")
    return html.Div(
        label,
        className=f"part fill-{name}",
        style={"flexGrow": share},
        title=f"{word} {share:.1f} %",
    )


def _entry(name: str, splits: Sequence[TaskSplit], lang: Lang) -> Component:
    times = " · ".join(micros(split.parts[name]) for split in splits)
    return html.Span([swatch(name), t(f"shell.class.{name}", lang), html.B(times)])
