"""A column a step, stacked from the parts its time went into; the current one is framed."""

from collections.abc import Mapping, Sequence
from statistics import median

import plotly.graph_objects as go

from vizdist.analysis.step_split import TaskSplit
from vizdist.figures.theme import PARTS, TOKENS, Theme, blank, plain
from vizdist.i18n.units import duration

MS = 1_000_000
SPACED = 60  #: from so many columns on they stand without gaps and outlines
MANY_TICKS = 24  #: up to so many every column has its number
STICKS_OUT = 3.0  #: times the median up to which columns are drawn whole


def columns_figure(
    columns: Sequence[TaskSplit], step: int, theme: Theme, words: Mapping[str, str]
) -> go.Figure:
    """`words` are the parts' names and `step`, a text with the place {step}."""
    gap = 0.06 if len(columns) < SPACED else 0
    figure = blank(theme, barmode="stack", bargap=gap, hovermode="x")
    numbers = [column.step.number for column in columns]
    for part in PARTS:
        heights = [column.parts[part] / MS for column in columns]
        if any(heights):
            figure.add_bar(x=numbers, y=heights, **_look(part, theme, words[part], len(columns)))
    top = _top(columns)
    figure.update_yaxes(range=[0, top * 1.08 / MS], nticks=4)
    ticks = {"dtick": 1} if len(columns) <= MANY_TICKS else {"nticks": 12}
    figure.update_xaxes(range=[numbers[0] - 0.6, numbers[-1] + 0.6], tickformat="d", **ticks)
    for column in columns:
        if column.step.number == step:
            _frame(figure, column, theme)
    for column in _named(columns, top):
        said = words["step"].format(step=column.step.number)
        on_left = column.step.number > numbers[0] + 0.75 * (numbers[-1] - numbers[0])
        _remark(figure, column, f"{said}  {duration(column.total)}", top, theme, on_left)
    return figure


def _top(columns: Sequence[TaskSplit]) -> float:
    """The longest step, unless it would flatten all the others: those that stick out are named."""
    totals = [column.total for column in columns]
    return max(min(max(totals), STICKS_OUT * median(totals)), 1)


def _named(columns: Sequence[TaskSplit], top: float) -> list[TaskSplit]:
    """Those that stick out, the longest first, as far as their names have room."""
    named: list[TaskSplit] = []
    for column in sorted(columns, key=lambda column: -column.total):
        apart = [abs(column.step.number - other.step.number) for other in named]
        if column.total > top and min(apart, default=len(columns)) > len(columns) / 4:
            named.append(column)
    return named


def _look(part: str, theme: Theme, word: str, count: int) -> dict[str, object]:
    fill, outline, texture = PARTS[part]
    tokens = TOKENS[theme]
    pattern = {
        "shape": texture, "fgcolor": tokens[outline], "bgcolor": tokens[fill],
        "size": 6 if texture == "/" else 5, "solidity": 0.18,
    }  # fmt: skip
    return {
        "name": word,
        "marker": {
            "color": tokens[fill],
            "line": {"color": tokens[outline], "width": 0.8 if count < SPACED else 0},
            "pattern": pattern if texture else None,
        },
        "hovertemplate": f"{plain(word)} %{{y:.3f}} ms<extra></extra>",
    }


def _frame(figure: go.Figure, column: TaskSplit, theme: Theme) -> None:
    figure.add_shape(
        type="rect", x0=column.step.number - 0.52, x1=column.step.number + 0.52,
        y0=0, y1=column.total / MS, line={"color": TOKENS[theme]["ink"], "width": 2.4},
    )  # fmt: skip


def _remark(
    figure: go.Figure, column: TaskSplit, text: str, top: float, theme: Theme, on_left: bool
) -> None:
    figure.add_annotation(
        x=column.step.number, y=top * 1.02 / MS, text=plain(text), showarrow=False,
        xanchor="right" if on_left else "left", yanchor="top", xshift=-12 if on_left else 12,
        bgcolor=TOKENS[theme]["panel"],
        font={"size": 12, "weight": 600, "color": TOKENS[theme]["ink"]},
    )  # fmt: skip
