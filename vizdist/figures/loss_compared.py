"""The losses of several runs in one chart: a line each in ink, told apart by dash and mark."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from vizdist.analysis.loss_curve import Point
from vizdist.figures.loss import set_axes
from vizdist.figures.theme import SCALE, TOKENS, Theme, blank

#: run → (dash, mark): the shapes of the badges beside the names of the runs
LOOKS = {
    "A": ("solid", "circle"),
    "B": ("dot", "square"),
    "C": ("dash", "triangle-up"),
    "D": ("dashdot", "diamond"),
}
MARK_PX = 17
_INK = {"triangle-up": 1.25, "diamond": 1.2}  #: times a square's size that look as large


def compared_losses(
    lines: Mapping[str, Sequence[Point]], step: int | None, theme: Theme, words: Mapping[str, str]
) -> go.Figure:
    """`lines` are (step, loss) by letter; `words` holds `steps` and `loss` for the hover."""
    figure = blank(theme, margin={"l": 34, "r": 14 * SCALE[theme], "t": 12, "b": 26})
    set_axes(figure, lines)
    if step is not None:
        figure.add_vline(x=step, line={"color": TOKENS[theme]["line2"], "width": 1})
    for number, (letter, points) in enumerate(lines.items()):
        _line(figure, letter, points, theme, words)
        _mark(figure, letter, points[len(points) * (number + 1) // (len(lines) + 1)], theme)
    return figure


def _line(
    figure: go.Figure, letter: str, points: Sequence[Point], theme: Theme, words: Mapping[str, str]
) -> None:
    dash, _ = LOOKS[letter]
    figure.add_scatter(
        x=[number for number, _ in points], y=[loss for _, loss in points], mode="lines",
        line={"color": TOKENS[theme]["ink"], "width": 2, "dash": dash},
        hovertemplate=(
            f"{letter}<br>{words['steps']} %{{x}}<br>{words['loss']} %{{y:.4f}}<extra></extra>"
        ),
    )  # fmt: skip


def _mark(figure: go.Figure, letter: str, point: Point, theme: Theme) -> None:
    """Equal losses lie on each other, so that every line has its mark at a step of its own."""
    _, symbol = LOOKS[letter]
    tokens = TOKENS[theme]
    marker: dict[str, Any] = {
        "symbol": symbol, "color": tokens["ink"],
        "size": MARK_PX * SCALE[theme] * _INK.get(symbol, 1),
        "line": {"color": tokens["panel"], "width": 1.5},
    }  # fmt: skip
    figure.add_scatter(
        x=[point[0]], y=[point[1]], mode="markers+text", text=[letter], hoverinfo="skip",
        marker=marker, cliponaxis=False,
        textfont={"color": tokens["panel"], "size": 10.5 * SCALE[theme], "weight": 700},
    )  # fmt: skip
