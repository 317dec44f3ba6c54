"""Plotly's share of the palette: one template a theme, the same tokens as assets/tokens.css."""

import html
import math
from typing import Any, Literal

import plotly.graph_objects as go

Theme = Literal["light", "dark", "projector"]

TOKENS: dict[Theme, dict[str, str]] = {
    "light": {
        "bg": "#F5F4F0", "panel": "#FFFFFF", "sunk": "#ECEAE4", "line": "#DEDBD2",
        "line2": "#8C897F", "ink": "#16191D", "ink2": "#454B53", "ink3": "#62686F",
        "compute": "#0072B2", "send": "#E69F00", "recv": "#56B4E9", "update": "#009E73",
        "error": "#D55E00", "mark": "#F0E442", "idle": "#C6C8CB", "compute-s": "#00527F",
        "send-s": "#8A5F00", "recv-s": "#1B6FA3", "update-s": "#00664A", "error-s": "#9A3F00",
        "idle-s": "#62686F", "other": "#ECEAE4", "outline": "#16191D",
    },
    "dark": {
        "bg": "#111418", "panel": "#1A1E24", "sunk": "#0C0E11", "line": "#2C323A",
        "line2": "#6B737D", "ink": "#F0F2F4", "ink2": "#BCC2C9", "ink3": "#949BA4",
        "compute": "#2C86C6", "send": "#EDAE20", "recv": "#86CDF5", "update": "#1FB488",
        "error": "#E4561E", "mark": "#FFF27A", "idle": "#5A626C", "compute-s": "#6CB8EA",
        "send-s": "#F3C24F", "recv-s": "#B4E0FA", "update-s": "#4FD0AA", "error-s": "#FF9D5C",
        "idle-s": "#949BA4", "other": "#343B45", "outline": "#111418",
    },
    "projector": {
        "bg": "#FFFFFF", "panel": "#FFFFFF", "sunk": "#F0F0F0", "line": "#A8A8A8",
        "line2": "#5A5A5A", "ink": "#000000", "ink2": "#1E1E1E", "ink3": "#404040",
        "compute": "#005F99", "send": "#E69F00", "recv": "#5BB8EE", "update": "#008560",
        "error": "#C24E00", "mark": "#FFEB00", "idle": "#B0B0B0", "compute-s": "#00406A",
        "send-s": "#6E4B00", "recv-s": "#0B5A8C", "update-s": "#005039", "error-s": "#802F00",
        "idle-s": "#404040", "other": "#F0F0F0", "outline": "#000000",
    },
}  # fmt: skip

#: How much larger text is than elsewhere.
SCALE: dict[Theme, float] = {"light": 1, "dark": 1, "projector": 1.2}

#: Parts of a step: (fill, outline, texture). Hue and texture say the same.
PARTS: dict[str, tuple[str, str, str]] = {
    "compute": ("compute", "compute-s", ""),
    "update": ("update", "update-s", "-"),
    "transfer": ("recv", "recv-s", ""),
    "rpc": ("idle", "idle-s", ""),
    "wait": ("panel", "line2", "/"),
    "queueing": ("panel", "ink3", "."),
    "other": ("other", "line2", ""),
}

FONT = (
    'Inter, system-ui, "Segoe UI", "Helvetica Neue", "Noto Sans CJK SC", "PingFang SC", '
    '"Microsoft YaHei", sans-serif'
)

#: No mode bar: half of its buttons upload, the other half double what the page offers.
CONFIG: dict[str, Any] = {
    "displayModeBar": False,
    "displaylogo": False,
    "plotlyServerURL": "",
    "modeBarButtonsToRemove": ["sendChartToCloud", "sendDataToCloud", "shareChart"],
    "scrollZoom": False,
    "doubleClick": False,
    "responsive": True,
}


def as_theme(text: str | None) -> Theme:
    return text if text in TOKENS else "light"


def plain(text: str) -> str:
    """A name as Plotly draws it: Plotly reads tags in every text, a trace's names are none."""
    return html.escape(text, quote=False)


def round_ticks(first: int, last: int, most: int = 6) -> list[int]:
    """Round numbers between two whole ones, and both of these, none near another."""
    if last - first < most:
        return list(range(first, last + 1))
    rough = (last - first) / most
    power = 10 ** math.floor(math.log10(rough))
    every = int(next(f * power for f in (1, 2, 5, 10) if f * power >= rough))
    room = 0.6 * every
    between = range(first + every - first % every, last, every)
    return [first, *(n for n in between if n - first > room and last - n > room), last]


def blank(theme: Theme, **layout: Any) -> go.Figure:
    """An empty figure in the look of the page: panel ground, line grid, 12 px, no title."""
    tokens, text = TOKENS[theme], 12 * SCALE[theme]
    axis = {
        "gridcolor": tokens["line"],
        "showline": False,
        "zeroline": False,
        "fixedrange": True,
        "ticks": "",
        "ticklabelstandoff": 3,
        "ticklabeloverflow": "allow",  # a zoomed page misleads Plotly about where the chart ends
        "tickfont": {"color": tokens["ink2"], "size": text},
    }
    figure = go.Figure()
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "size": text, "color": tokens["ink"]},
        margin={"l": 34 * SCALE[theme], "r": 12, "t": 8, "b": 24 * SCALE[theme]},
        showlegend=False,
        dragmode=False,
        hoverlabel={
            "bgcolor": tokens["ink"],
            "bordercolor": tokens["ink"],
            "font": {"family": FONT, "size": text, "color": tokens["bg"]},
        },
        xaxis={**axis, "showgrid": False},
        yaxis=axis,
    )
    return figure.update_layout(**layout)
