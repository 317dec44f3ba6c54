"""A table of spans: numpy columns side by side, text as codes into a table of words.

Columns are made when they are first asked for: most questions need few of them, and ten million
spans have a gigabyte.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from vizdist.store.segments import NUMBER_COLUMNS, TEXT_COLUMNS, Array, RowKey, Segment

T = TypeVar("T")


class Lazy(Mapping[str, T], Generic[T]):
    """A mapping whose values are made once, when they are first asked for; safe from any thread."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._made: dict[str, T] = {}

    @property
    def made(self) -> frozenset[str]:
        """The names that were asked for so far."""
        return frozenset(self._made)

    @abstractmethod
    def make(self, name: str) -> T:
        """What stands under a name; asked for once."""

    def __getitem__(self, name: str) -> T:
        if name not in self._made:
            if name not in self._names:
                raise KeyError(name)
            self._made[name] = self.make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Made(Lazy[T]):
    """Values that a function makes."""

    def __init__(self, names: Iterable[str], maker: Callable[[str], T]) -> None:
        super().__init__(names)
        self._maker = maker

    def make(self, name: str) -> T:
        return self._maker(name)


@dataclass(frozen=True, eq=False)
class Spans:
    """Spans of one trace, a column an attribute; `row` counts in `rows`, times are epoch ns.

    What the columns mean is told by `tracer.model.trace_folder.COLUMN_LIST`.
    """

    columns: Mapping[str, Array]
    words: Mapping[str, tuple[str, ...]]
    rows: tuple[RowKey, ...]

    def __len__(self) -> int:
        return len(self.columns["row"])

    @property
    def row(self) -> Array:
        return self.columns["row"]

    @property
    def start(self) -> Array:
        return self.columns["start"]

    @property
    def end(self) -> Array:
        return self.columns["end"]

    @property
    def duration(self) -> Array:
        return self.columns["end"] - self.columns["start"]

    @property
    def ready(self) -> Array:
        return self.columns["ready"]

    @property
    def wait(self) -> Array:
        return self.columns["wait"]

    @property
    def bytes(self) -> Array:
        return self.columns["bytes"]

    @property
    def step(self) -> Array:
        return self.columns["step"]

    @property
    def frame_id(self) -> Array:
        return self.columns["frame_id"]

    @property
    def iteration(self) -> Array:
        return self.columns["iteration"]

    @property
    def trace_hi(self) -> Array:
        return self.columns["trace_hi"]

    @property
    def trace_lo(self) -> Array:
        return self.columns["trace_lo"]

    @property
    def span(self) -> Array:
        return self.columns["span"]

    @property
    def parent(self) -> Array:
        return self.columns["parent"]

    @property
    def link(self) -> Array:
        return self.columns["link"]

    @property
    def version(self) -> Array:
        return self.columns["version"]

    @property
    def flags(self) -> Array:
        return self.columns["flags"]

    @cached_property
    def task(self) -> Array:
        """The task of every span, as text."""
        return _pick([row.task for row in self.rows], self.row)

    @cached_property
    def lane(self) -> Array:
        return _pick([row.lane for row in self.rows], self.row)

    def codes(self, column: str) -> Array:
        """A text column as codes into `words[column]`."""
        return self.columns[column]

    def text(self, column: str) -> Array:
        """A text column, spelled out."""
        return _pick(self.words[column], self.columns[column])

    def code(self, column: str, word: str) -> int:
        """The code of a word, -1 if no span has it."""
        words = self.words[column]
        return words.index(word) if word in words else -1

    def has_word(self, column: str, *words: str) -> Array:
        """A mask of the spans that have one of these words in a text column."""
        codes = [code for word in words if (code := self.code(column, word)) >= 0]
        if len(codes) == 1:
            same: Array = self.columns[column] == codes[0]
            return same
        return np.isin(self.columns[column], codes)

    def is_kind(self, *kinds: str) -> Array:
        """A mask of the spans of these kinds."""
        return self.has_word("kind", *kinds)

    def take(self, which: Array) -> "Spans":
        """The spans of a mask or at some positions."""
        pick = self._picker(which)
        return Spans(Made(self.columns, pick), self.words, self.rows)

    def _picker(self, which: Array) -> Callable[[str], Array]:
        """Picks cells of a column; out of segments without joining them, where that is enough."""
        columns = self.columns
        if isinstance(columns, Joined):
            return columns.picker(which)
        return lambda name: columns[name][which]


def _pick(words: Sequence[str], codes: Array) -> Array:
    return np.array([*words, ""], dtype=object)[codes]


class Joined(Lazy[Array]):
    """The columns of several segments; one of a single segment is not copied."""

    def __init__(
        self, segments: Sequence[Segment], place_of: Mapping[RowKey, int], codes: Lazy[list[Array]]
    ) -> None:
        super().__init__((*NUMBER_COLUMNS, *TEXT_COLUMNS))
        self._segments = segments
        self._codes = codes
        self._rows = [np.array([place_of[r] for r in one.rows], np.uint32) for one in segments]
        self._bounds = np.cumsum([0, *map(len, segments)])

    def _recoded(self, number: int, name: str, cells: Array) -> Array:
        """Cells of one segment in the numbers that all have in common."""
        if name == "row":
            return self._rows[number][cells]
        if name in NUMBER_COLUMNS:
            return cells
        codes = self._codes[name][number]
        return codes[cells] if len(codes) else cells

    def make(self, name: str) -> Array:
        parts = [
            self._recoded(number, name, segment.columns[name])
            for number, segment in enumerate(self._segments)
        ]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, NUMBER_COLUMNS.get(name, "int32"))

    def picker(self, which: Array) -> Callable[[str], Array]:
        """What picks the cells of a mask, or at some places, of any column."""
        places = np.flatnonzero(which) if which.dtype == np.bool_ else which
        owner = np.searchsorted(self._bounds, places, "right") - 1
        found = [np.flatnonzero(owner == number) for number in np.unique(owner)]
        parts = [(at, int(owner[at[0]])) for at in found]

        def pick(name: str) -> Array:
            if name in self._made:
                return self[name][places]
            cells = np.empty(len(places), NUMBER_COLUMNS.get(name, "int32"))
            for at, number in parts:
                column = self._segments[number].columns[name]
                cells[at] = self._recoded(number, name, column[places[at] - self._bounds[number]])
            return cells

        return pick


def join_segments(segments: Sequence[Segment], rows: tuple[RowKey, ...]) -> Spans:
    """All segments as one table whose `row` counts in `rows`."""
    unified = Made(TEXT_COLUMNS, lambda name: _unify([one.texts[name] for one in segments]))
    place_of = {row: index for index, row in enumerate(rows)}
    codes = Made(TEXT_COLUMNS, lambda name: unified[name][1])
    words = Made(TEXT_COLUMNS, lambda name: unified[name][0])
    return Spans(Joined(segments, place_of, codes), words, rows)


def _unify(tables: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], list[Array]]:
    """One table of words for several, equal words once; new codes, empty where they are the old."""
    known: dict[str, int] = {}
    recoded = []
    for words in tables:
        codes = np.array([known.setdefault(word, len(known)) for word in words], np.int32)
        is_same = bool(np.array_equal(codes, np.arange(len(codes))))
        recoded.append(codes[:0] if is_same else codes)
    return tuple(known), recoded
