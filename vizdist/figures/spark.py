"""Word-sized pictures for a row of the Library, as masks: the page gives them their colour."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

TWO_DECADES = 100


def _svg(width: int, height: int, body: str) -> str:
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'preserveAspectRatio="none">{body}</svg>'
    )
    return f'url("data:image/svg+xml,{quote(text)}")'


_LEVELS = (0, -2.4, 2.4, -4.8, 4.8)  #: how far from the middle equal values lie


def line(values: Sequence[float], width: int = 122, height: int = 34) -> str:
    """A line through all values, lowest at the bottom, with a dot on the last."""
    if not values:
        return ""
    pad, low, high = 3.5, min(values), max(values)
    across = (width - 2 * pad) / max(1, len(values) - 1)
    scale = (height - 2 * pad) / ((high - low) or 1)
    points = [
        (pad + at * across, height - pad - (value - low) * scale) for at, value in enumerate(values)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in thin(points, 4 * width))
    x, y = points[-1]
    stroke = 'fill="none" stroke="#000" stroke-width="1.7" stroke-linejoin="round"'
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
    return _svg(width, height, f'<polyline points="{path}" {stroke}/>{dot}')


@dataclass(frozen=True, slots=True)
class Scale:
    """From `low` to `high`, by powers if `low` is not 0; what lies beyond stands at an end."""

    low: float
    high: float

    def share(self, value: float) -> float:
        if self.low > 0:
            found = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            found = value / self.high if self.high else 0
        return min(1.0, max(0.0, found))


def scale_of(medians: Sequence[float]) -> Scale:
    """One for all runs: by powers where their medians are more than two decades apart."""
    low, high = min(medians, default=0), max(medians, default=0)
    return Scale(low / 3 if high > TWO_DECADES * low else 0, 3 * high)


def dots(values: Sequence[float], scale: Scale, width: int = 122, height: int = 18) -> str:
    """A dot a value; close ones stack."""
    stacks: dict[int, int] = {}
    body = []
    for value in values:
        x = _across(value, scale, width)
        slot = round(x / 1.5)
        level = stacks[slot] = stacks.get(slot, -1) + 1
        if level < len(_LEVELS):
            body.append(f'<circle cx="{x:.1f}" cy="{height / 2 + _LEVELS[level]:.1f}" r="1.9"/>')
    return _svg(width, height, "".join(body))


def tick(value: float, scale: Scale, width: int = 122, height: int = 18) -> str:
    """An upright line on the scale of `dots`."""
    x = _across(value, scale, width)
    return _svg(width, height, f'<rect x="{x - 1:.1f}" y="0" width="2" height="{height}"/>')


def _across(value: float, scale: Scale, width: int) -> float:
    return 3 + (width - 6) * scale.share(value)


def thin(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most about `most` points, the first and the last among them."""
    stride = max(1, len(points) // most)
    return [*points[:-1:stride], points[-1]]
