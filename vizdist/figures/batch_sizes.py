"""A column a step, stacked from the batches of all replicas; the current step is framed."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from vizdist.figures.theme import TOKENS, Theme, blank, plain, round_ticks

LIGHTEST, DARKEST = 0.16, 0.62  #: of ink, for the first replica and the last
SPACED = 60  #: from so many columns on they stand without gaps and outlines
LEAST = 12  #: fewer columns are no wider than so many would be


def batch_sizes_figure(
    rows: Mapping[str, Mapping[int, int]], step: int, theme: Theme, words: Mapping[str, str]
) -> go.Figure:
    """`rows`: examples by replica and step, none where nothing was taken yet.

    `words` holds `step` and `examples` for the hover.
    """
    steps = sorted({number for sizes in rows.values() for number in sizes})
    is_spaced = len(steps) < SPACED
    figure = blank(theme, barmode="stack", bargap=0.12 if is_spaced else 0, hovermode="x unified")
    if not steps:
        return figure
    tokens = TOKENS[theme]
    for at, (name, sizes) in enumerate(rows.items()):
        shade = LIGHTEST + (DARKEST - LIGHTEST) * at / max(1, len(rows) - 1)
        figure.add_bar(
            x=steps, y=[sizes.get(number, 0) for number in steps], name=plain(name),
            marker={"color": _mixed(tokens["ink"], tokens["panel"], shade),
                    "line": {"color": tokens["line2"], "width": 0.8 if is_spaced else 0}},
            hovertemplate=f"{plain(name)}: %{{y}} {words['examples']}<extra></extra>",
        )  # fmt: skip
    title = {"text": words["step"].format(step="%{x}")}
    last = max(steps[-1], steps[0] + LEAST - 1)
    figure.update_xaxes(
        range=[steps[0] - 0.6, last + 0.6], tickvals=_ticks(steps), tickformat="d",
        unifiedhovertitle=title,
    )  # fmt: skip
    figure.update_yaxes(rangemode="tozero", nticks=4)
    if step in steps:
        top = sum(sizes.get(step, 0) for sizes in rows.values())
        figure.add_shape(
            type="rect", x0=step - 0.5, x1=step + 0.5, y0=0, y1=top,
            line={"color": tokens["ink"], "width": 2.4},
        )  # fmt: skip
    return figure


def _ticks(steps: Sequence[int]) -> Sequence[float]:
    return steps if len(steps) <= 2 * LEAST else round_ticks(steps[0], steps[-1], 10)


def _mixed(colour: str, ground: str, share: float) -> str:
    """Opaque, as no line of the chart's ground may show through a column."""
    pairs = ((int(colour[at : at + 2], 16), int(ground[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(share * one + (1 - share) * other):02X}" for one, other in pairs)
