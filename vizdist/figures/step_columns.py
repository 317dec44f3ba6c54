"""A column a step, stacked from the parts its time went into; the current one is framed."""

from collections.abc import Mapping, Sequence
from statistics import median

import plotly.graph_objects as go

from vizdist.analysis.step_split import TaskSplit
from vizdist.figures.theme import PARTS, SCALE, TOKENS, Theme, blank, plain, round_ticks
from vizdist.i18n.units import duration

MS = 1_000_000
SPACED = 60  #: from so many columns on they stand without gaps and outlines
LEAST = 12  #: fewer columns are no wider than so many would be
MANY_TICKS = 24  #: up to so many every column has its number
BESIDE = 0.55  #: of a column, from its middle to its edge
OVER_PX = 20  #: what remarks over the chart take
STICKS_OUT = 3.0  #: times the median up to which columns are drawn whole
REMARK = 0.42  #: of all columns, the width of a remark beside one on a narrow screen


def columns_figure(
    columns: Sequence[TaskSplit], step: int, theme: Theme, words: Mapping[str, str]
) -> go.Figure:
    """`words` are the parts' names and `step`, a text with the place {step}."""
    gap = 0.06 if len(columns) < SPACED else 0
    figure = blank(theme, barmode="stack", bargap=gap, hovermode="x unified")
    numbers = [column.step.number for column in columns]
    for part in PARTS:
        heights = [column.parts[part] / MS for column in columns]
        if any(heights):
            figure.add_bar(x=numbers, y=heights, **_look(part, theme, words[part], len(columns)))
    top = _top(columns)
    figure.update_yaxes(range=[0, top * 1.08 / MS], nticks=4)
    ticks = numbers if len(numbers) <= MANY_TICKS else round_ticks(numbers[0], numbers[-1], 10)
    last = max(numbers[-1], numbers[0] + LEAST - 1)
    title = {"text": words["step"].format(step="%{x}")}
    figure.update_xaxes(
        range=[numbers[0] - 0.6, last + 0.6], tickvals=ticks, tickformat="d",
        unifiedhovertitle=title,
    )  # fmt: skip
    for column in columns:
        if column.total > top:
            _break(figure, column, top, theme)
        if column.step.number == step:
            (_frame if gap else _point)(figure, column, top, theme)
    named = _named(columns, top)
    if named:
        figure.update_layout(margin={"t": OVER_PX * SCALE[theme]})
    for column, on_left in named:
        said = words["step"].format(step=column.step.number)
        _remark(figure, column, f"{said}  {duration(column.total)}", theme, on_left)
    return figure


def _top(columns: Sequence[TaskSplit]) -> float:
    """The longest step, unless it would flatten all the others: those that stick out are named."""
    totals = [column.total for column in columns]
    return max(min(max(totals), STICKS_OUT * median(totals)), 1)


def _named(columns: Sequence[TaskSplit], top: float) -> list[tuple[TaskSplit, bool]]:
    """Those that stick out, the longest first, as far as their names have room.

    Of each also whether its name stands left of it.
    """
    first, last = columns[0].step.number, columns[-1].step.number
    wide = REMARK * max(last - first, LEAST)
    named: list[tuple[TaskSplit, bool]] = []
    taken: list[tuple[float, float]] = []
    for column in sorted(columns, key=lambda column: -column.total):
        number = column.step.number
        on_left = number + wide > last and number - wide >= first
        begin, end = (number - wide, number) if on_left else (number, number + wide)
        if column.total > top and all(end < left or begin > right for left, right in taken):
            named.append((column, on_left))
            taken.append((begin, end))
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


def _frame(figure: go.Figure, column: TaskSplit, top: float, theme: Theme) -> None:
    figure.add_shape(
        type="rect", x0=column.step.number - 0.52, x1=column.step.number + 0.52,
        y0=0, y1=min(column.total, top * 1.07) / MS,
        line={"color": TOKENS[theme]["ink"], "width": 2.4},
    )  # fmt: skip


def _point(figure: go.Figure, column: TaskSplit, top: float, theme: Theme) -> None:
    """Columns of few pixels have no room for a frame: a mark over the current one."""
    figure.add_scatter(
        x=[column.step.number], y=[min(column.total, top) / MS], mode="markers", hoverinfo="skip",
        marker={
            "symbol": "triangle-down", "size": 11, "standoff": 7, "color": TOKENS[theme]["mark"],
            "line": {"color": TOKENS[theme]["ink"], "width": 1.4},
        },
        cliponaxis=False,
    )  # fmt: skip


def _break(figure: go.Figure, column: TaskSplit, top: float, theme: Theme) -> None:
    """A cut through a column that goes on above the chart."""
    figure.add_shape(
        type="line", x0=column.step.number - 0.55, x1=column.step.number + 0.55,
        y0=0.97 * top / MS, y1=1.01 * top / MS,
        line={"color": TOKENS[theme]["panel"], "width": 3},
    )  # fmt: skip


def _remark(figure: go.Figure, column: TaskSplit, text: str, theme: Theme, on_left: bool) -> None:
    """Over the chart, from the column's edge on: within it, it would hide other columns."""
    figure.add_annotation(
        x=column.step.number + (BESIDE if on_left else -BESIDE), y=1, yref="paper",
        text=plain(text), showarrow=False,
        xanchor="right" if on_left else "left", yanchor="bottom", borderpad=0,
        font={"size": 12 * SCALE[theme], "weight": 600, "color": TOKENS[theme]["ink"]},
    )  # fmt: skip
