"""Loss over steps: one ink line a worker, both ends and the current step said in numbers."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from vizdist.figures.theme import SCALE, TOKENS, Theme, blank, plain, round_ticks

Point = tuple[int, float]
NAME_HEIGHT = 0.38  #: of the range of losses, in a chart as low as it gets
OVER_PX = 20  #: what a number over the highest point takes
NAME_WIDTH = 0.16  #: of the range of steps, in a chart as narrow as it gets
NAMED = 4  #: lines whose names have room; the others are told on hover
NOISY = 120  #: points from which a line is drawn as its mean, before the points themselves
_LETTER_PX = 6.6
_DASHES = ("solid", "dot", "dash", "dashdot", "longdash")  #: which worker: a line has no hue


def loss_figure(
    lines: Mapping[str, Sequence[Point]], step: int | None, theme: Theme, words: Mapping[str, str]
) -> go.Figure:
    """`lines` are (step, loss) by task; `words` holds `steps` and `loss` for the hover."""
    names = _names(lines)
    right = 20 + _LETTER_PX * SCALE[theme] * max(map(len, names.values()), default=0)
    figure = blank(theme, margin={"l": 34, "r": right, "t": OVER_PX * SCALE[theme], "b": 26})
    set_axes(figure, lines)
    for at, (task, points) in enumerate(lines.items()):
        _draw_line(figure, task, points, _DASHES[at % len(_DASHES)], theme, words)
    _name_ends(figure, lines, names, theme)
    if first := next(iter(lines.values()), ()):
        _name_points(figure, first, step, theme)
    return figure


def _names(lines: Mapping[str, Sequence[Point]]) -> dict[str, str]:
    """What stands behind the end of a line: its last loss, after its task if there are several."""
    ends = {task: f"{points[-1][1]:.3f}" for task, points in list(lines.items())[:NAMED]}
    return ends if len(lines) == 1 else {task: f"{task}  {end}" for task, end in ends.items()}


def _range(lines: Mapping[str, Sequence[Point]]) -> tuple[float, float]:
    """Of losses, with air; from 0 where they come near it, so that heights tell ratios."""
    losses = [loss for points in lines.values() for _, loss in points if math.isfinite(loss)]
    low, high = min(losses, default=0), max(losses, default=1)
    air = 0.12 * ((high - low) or abs(high) or 1)
    return (0 if 0 <= low < 0.35 * high else low - air), high + air


def set_axes(figure: go.Figure, lines: Mapping[str, Sequence[Point]]) -> None:
    steps = [number for points in lines.values() for number, _ in points]
    first, last = min(steps, default=0), max(steps, default=1)
    air = 0.02 * ((last - first) or 1)
    figure.update_xaxes(
        range=[first - air, last + air], tickvals=round_ticks(first, last), tickformat="d"
    )
    figure.update_yaxes(range=_range(lines), nticks=4)


def _draw_line(
    figure: go.Figure, task: str, points: Sequence[Point], dash: str, theme: Theme,
    words: Mapping[str, str],
) -> None:  # fmt: skip
    numbers, losses = [number for number, _ in points], [loss for _, loss in points]
    is_noisy = len(points) > NOISY
    tokens = TOKENS[theme]
    hover = f"%{{meta}}<br>{words['steps']} %{{x}}<br>{words['loss']} %{{y:.4f}}<extra></extra>"
    figure.add_scatter(
        x=numbers, y=losses, mode="lines", meta=plain(task), hovertemplate=hover,
        line={"color": tokens["line2" if is_noisy else "ink"], "width": 1 if is_noisy else 2,
              "dash": "solid" if is_noisy else dash},
    )  # fmt: skip
    if is_noisy:
        figure.add_scatter(
            x=numbers, y=_mean(losses), mode="lines", hoverinfo="skip",
            line={"color": tokens["ink"], "width": 2, "dash": dash},
        )  # fmt: skip


def _mean(losses: Sequence[float]) -> list[float]:
    """Of as many neighbours at both sides as there are, at most a 40th of all together."""
    half = max(1, len(losses) // 80)
    sums = np.concatenate([[0.0], np.cumsum(losses)])
    at = np.arange(len(losses))
    wide = np.minimum(np.minimum(at, len(losses) - 1 - at), half)
    means: list[float] = ((sums[at + wide + 1] - sums[at - wide]) / (2 * wide + 1)).tolist()
    return means


def _name_ends(
    figure: go.Figure,
    lines: Mapping[str, Sequence[Point]],
    names: Mapping[str, str],
    theme: Theme,
) -> None:
    """At the right edge, the highest first; those that would touch stand as lines of one text."""
    low, high = _range(lines)
    groups: list[list[tuple[float, str]]] = []
    for end, task in sorted(((lines[task][-1][1], task) for task in names), reverse=True):
        if groups and groups[-1][-1][0] - end < NAME_HEIGHT * (high - low):
            groups[-1].append((end, task))
        else:
            groups.append([(end, task)])
    for group in groups:
        figure.add_annotation(
            x=1, xref="paper", y=sum(end for end, _ in group) / len(group), showarrow=False,
            text="<br>".join(plain(names[task]) for _, task in group), align="left",
            xanchor="left", xshift=8, font={"size": 12 * SCALE[theme], "weight": 600},
        )  # fmt: skip
    figure.add_scatter(
        x=[lines[task][-1][0] for task in names], y=[lines[task][-1][1] for task in names],
        mode="markers", hoverinfo="skip", cliponaxis=False,
        marker={"color": TOKENS[theme]["ink"], "size": 7},
    )  # fmt: skip


def _name_points(
    figure: go.Figure, points: Sequence[Point], step: int | None, theme: Theme
) -> None:
    """The first point and the current step, each with its loss over it.

    Where two numbers would touch the current step has its own.
    """
    tokens = TOKENS[theme]
    length = (points[-1][0] - points[0][0]) or 1
    now = [point for point in points if point[0] == step][:1]
    marks: list[tuple[Point, str, float]] = [(point, tokens["mark"], 12) for point in now]
    is_apart = all(number - points[0][0] > NAME_WIDTH * SCALE[theme] * length for number, _ in now)
    if is_apart and len(points) > 1:
        marks.append((points[0], tokens["ink"], 7))
    turn = points[-1][0] - NAME_WIDTH * SCALE[theme] * length
    for (number, loss), fill, size in marks:
        is_left = number < turn  # losses fall, so what is right of a point and over it is free
        figure.add_scatter(
            x=[number], y=[loss], mode="markers", hoverinfo="skip", cliponaxis=False,
            marker={"color": fill, "size": size, "line": {"color": tokens["ink"], "width": 1.6}},
        )  # fmt: skip
        figure.add_annotation(
            x=number, y=loss, text=f"{loss:.3f}", showarrow=False, yanchor="bottom", yshift=6,
            xanchor="left" if is_left else "right", xshift=4 if is_left else 2,
            borderpad=0, font={"size": 12 * SCALE[theme], "weight": 650},
        )  # fmt: skip
