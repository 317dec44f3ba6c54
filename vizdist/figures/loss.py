"""Loss over steps: one ink line a worker, both ends and the current step said in numbers."""

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from vizdist.figures.theme import TOKENS, Theme, blank, plain

Point = tuple[int, float]
NAME_HEIGHT = 0.22  #: of the range of losses, in a chart as low as it gets
_DASHES = ("solid", "dot", "dash", "dashdot", "longdash")  #: which worker: a line has no hue


def loss_figure(
    lines: Mapping[str, Sequence[Point]], step: int | None, theme: Theme, words: Mapping[str, str]
) -> go.Figure:
    """`lines` are (step, loss) by task; `words` holds `steps` and `loss` for the hover."""
    right = 64 if len(lines) > 1 else 44
    figure = blank(theme, margin={"l": 40, "r": right, "t": 14, "b": 24})
    hover = f"{words['steps']} %{{x}}<br>{words['loss']} %{{y:.4f}}<extra>%{{meta}}</extra>"
    for at, (task, points) in enumerate(lines.items()):
        figure.add_scatter(
            x=[number for number, _ in points],
            y=[loss for _, loss in points],
            mode="lines",
            line={"color": TOKENS[theme]["ink"], "width": 2, "dash": _DASHES[at % len(_DASHES)]},
            meta=plain(task),
            hovertemplate=hover,
        )
    if len(lines) > 1:
        _name_lines(figure, lines, theme)
    named = next(iter(lines.values()), ())
    if named:
        _name_points(figure, named, step, theme)
    return figure


def _name_lines(figure: go.Figure, lines: Mapping[str, Sequence[Point]], theme: Theme) -> None:
    """Each line's task behind its end, moved up where two ends are too close for two names."""
    losses = [loss for points in lines.values() for _, loss in points]
    apart = NAME_HEIGHT * (max(losses, default=0) - min(losses, default=0))
    below = -math.inf
    for task, points in sorted(lines.items(), key=lambda line: line[1][-1][1]):
        number, loss = points[-1]
        below = max(loss, below + apart)
        figure.add_annotation(
            x=number, y=below, text=plain(task), showarrow=False, xanchor="left", xshift=8,
            font={"size": 11, "color": TOKENS[theme]["ink2"]},
        )  # fmt: skip


def _name_points(
    figure: go.Figure, points: Sequence[Point], step: int | None, theme: Theme
) -> None:
    tokens = TOKENS[theme]
    now = [point for point in points if point[0] == step]
    ends = [end for end in (points[0], points[-1]) if end not in now]
    marks: list[tuple[Point, str, float]] = [(end, tokens["ink"], 7) for end in ends]
    marks += [(point, tokens["mark"], 12) for point in now[:1]]
    for (number, loss), fill, size in marks:
        figure.add_scatter(
            x=[number],
            y=[loss],
            mode="markers+text",
            marker={"color": fill, "size": size, "line": {"color": tokens["ink"], "width": 1.6}},
            text=[f"{loss:.3f}"],
            textposition="top right" if number != points[-1][0] else "top center",
            textfont={"color": tokens["ink"], "size": 12, "weight": 650},
            hoverinfo="skip",
            cliponaxis=False,
        )
