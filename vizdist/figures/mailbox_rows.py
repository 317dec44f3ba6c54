"""Which mailboxes of a step are shown: found by words, in an order, loops folded, some at a time.

And where their marks lie: on both sides of the line at which value and request meet, by the square
root of the time between them, so that 50 µs beside 8 ms are still seen.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from vizdist.analysis.bytes_moved import device_title, short_device_titles
from vizdist.analysis.keys import edge_of
from vizdist.analysis.mailbox import Transfer

ROWS = 40  #: at a time
FOLDED = 4  #: iterations from which those of one edge are one row


class Look(TypedDict, total=False):
    """What a viewer asked for; assets/rendezvous.mjs puts it into the store `rendezvous-look`.

    `opened` are the edges whose iterations are shown; of `shown`, a key, the page is shown that
    holds it.
    """

    words: str
    order: str
    page: int
    opened: list[str]
    shown: str


ORDERS: Mapping[str, Callable[[Transfer], tuple[int, int]]] = {
    "wait": lambda row: (-row.wait_ns, row.early_ns),
    "asked": lambda row: (row.asked_ns, 0),
    "bytes": lambda row: (-row.bytes, row.asked_ns),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One mailbox, or those of one edge in all iterations of a loop, the first in order first."""

    rows: Sequence[Transfer]
    is_folded: bool = False
    is_open: bool = False
    is_inner: bool = False  #: one iteration below its open fold

    @property
    def edge(self) -> str:
        return edge_of(self.rows[0].key)

    @property
    def bytes(self) -> int:
        return sum(row.bytes for row in self.rows)

    @property
    def transfer_ns(self) -> int:
        return sum(row.transfer_ns for row in self.rows)

    @property
    def told(self) -> Transfer:
        """What stands for all of them: the longest wait, of a value that came if one did."""
        done = [row for row in self.rows if row.state == "done"]
        return max(done or self.rows, key=lambda row: (row.wait_ns, row.early_ns))


@dataclass(frozen=True, slots=True)
class Arranged:
    """`num_keys` have the words asked for; `first` is the place of the first line, from 0."""

    lines: Sequence[Line]
    num_keys: int
    num_lines: int
    first: int
    page: int
    num_pages: int


def arranged(rows: Sequence[Transfer], look: Look) -> Arranged:
    order = ORDERS.get(look.get("order", ""), ORDERS["wait"])
    found = sorted(_having(rows, look.get("words", "")), key=order)
    shown = look.get("shown", "")
    opened = {*look.get("opened", ()), edge_of(shown)}
    lines = _lines(found, opened)
    pages = max(1, math.ceil(len(lines) / ROWS))
    page = min(max(look.get("page", 0), 0), pages - 1)
    for at, line in enumerate(lines):
        if shown and not line.is_folded and line.rows[0].key == shown:
            page = at // ROWS
    first = page * ROWS
    return Arranged(lines[first : first + ROWS], len(found), len(lines), first, page, pages)


def _having(rows: Sequence[Transfer], text: str) -> Iterable[Transfer]:
    words = text.lower().split()
    if not words:
        return rows
    devices = {device for row in rows for device in (row.source, row.target)}
    titles = {device: device_title(device) for device in devices}
    told = (
        f"{row.tensor} {titles[row.source]} {titles[row.target]} {row.state}".lower()
        for row in rows
    )
    return [row for row, says in zip(rows, told, strict=True) if all(w in says for w in words)]


def _lines(rows: Sequence[Transfer], opened: Iterable[str]) -> list[Line]:
    inside: dict[str, list[Transfer]] = defaultdict(list)
    for row in rows:
        if row.frame:
            inside[edge_of(row.key)].append(row)
    folds = {edge for edge, held in inside.items() if len(held) >= FOLDED}
    lines: list[Line] = []
    for row in rows:
        edge = edge_of(row.key)
        if not row.frame or edge not in folds:
            lines.append(Line([row]))
        elif edge in inside:
            held = inside.pop(edge)
            lines.append(Line(held, is_folded=True, is_open=edge in opened))
            if edge in opened:
                lines += [Line([one], is_inner=True) for one in _by_iteration(held)]
    return lines


def _by_iteration(rows: Iterable[Transfer]) -> list[Transfer]:
    return sorted(rows, key=lambda row: (row.frame, row.iteration))


NONE, LEAST, MOST = 0.16, 0.36, 0.6  #: share left of the meeting line: no value early, or some
ROOM = 0.8  #: share of the right side that the longest bar takes; its time stands beyond
TIME = 0.2  #: share of the width that the time of a bar takes on the left side


@dataclass(frozen=True, slots=True)
class Axis:
    """Both sides have one scale; places are shares of the whole width, from the left."""

    line: float
    scale: float  #: share of the width that the square root of 1 ns takes

    def early(self, ns: int) -> float:
        """How wide the bar is of a value that lay there for so long."""
        return self.scale * math.sqrt(ns)

    wait = early

    @property
    def ticks(self) -> list[tuple[int, float]]:
        """Round times with their places, right of the line and, where there is room, left of it."""
        right = [(ns, self.line + self.wait(ns)) for ns in _round_times(self.scale, 1 - self.line)]
        left = [(ns, self.line - self.early(ns)) for ns in _round_times(self.scale, self.line)]
        return [*reversed(left), *right]


def axis_of(rows: Sequence[Transfer]) -> Axis:
    early = math.sqrt(max((row.early_ns for row in rows), default=0))
    wait = math.sqrt(max((row.wait_ns for row in rows), default=0))
    line = min(MOST, max(LEAST, early / (early + wait))) if early else NONE
    sides = [(line - TIME, early), ((1 - line) * ROOM, wait)]
    return Axis(line, min((room / root for room, root in sides if root), default=0.0))


def _round_times(scale: float, room: float, apart: float = 0.22) -> list[int]:
    """1, 2 or 5 of a power of ten (ns), from the longest that has room, at least `apart`."""
    if not scale:
        return []
    most = (0.94 * room / scale) ** 2
    power = math.floor(math.log10(max(most, 1)))
    times = [f * 10**p for p in range(power, max(power - 4, -1), -1) for f in (5, 2, 1)]
    kept: list[int] = []
    last = room + apart
    for ns in times:
        place = scale * math.sqrt(ns)
        if ns <= most and place >= apart and last - place >= apart:
            kept.append(ns)
            last = place
    return kept[::-1]


def short_titles(rows: Iterable[Transfer]) -> dict[str, str]:
    return short_device_titles(device for row in rows for device in (row.source, row.target))
