"""A column a step, stacked from the parts its time went into; the current one is framed."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from vizdist.analysis.step_split import TaskSplit
from vizdist.figures.theme import PARTS, TOKENS, Theme, blank, plain

MS = 1_000_000
SPACED = 60  #: from so many columns on they stand without gaps and outlines


def columns_figure(
    columns: Sequence[TaskSplit],
    step: int,
    theme: Theme,
    words: Mapping[str, str],
    remarks: Mapping[int, str],
) -> go.Figure:
    """`words` are the parts' names and `step`; `remarks` are put beside the column of a step."""
    gap = 0.06 if len(columns) < SPACED else 0
    figure = blank(theme, barmode="stack", bargap=gap, hovermode="x")
    numbers = [column.step.number for column in columns]
    for part in PARTS:
        heights = [column.parts[part] / MS for column in columns]
        if any(heights):
            figure.add_bar(x=numbers, y=heights, **_look(part, theme, words[part], len(columns)))
    top = max((column.total for column in columns), default=0) / MS
    figure.update_yaxes(range=[0, top * 1.08 or 1], nticks=4)
    figure.update_xaxes(
        range=[numbers[0] - 0.6, numbers[-1] + 0.6] if numbers else None,
        tickformat="d", dtick=1 if len(columns) <= 24 else None,
    )  # fmt: skip
    for column in columns:
        if column.step.number == step:
            _frame(figure, column, theme)
        if column.step.number in remarks:
            _remark(figure, column, remarks[column.step.number], theme, numbers)
    return figure


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
    figure: go.Figure, column: TaskSplit, text: str, theme: Theme, numbers: Sequence[int]
) -> None:
    on_left = column.step.number > (numbers[0] + numbers[-1]) / 2
    figure.add_annotation(
        x=column.step.number + (-0.6 if on_left else 0.6), y=column.total / MS, text=plain(text),
        showarrow=False, xanchor="right" if on_left else "left", yanchor="middle",
        bgcolor=TOKENS[theme]["panel"],
        font={"size": 12, "weight": 600, "color": TOKENS[theme]["ink"]},
    )  # fmt: skip
