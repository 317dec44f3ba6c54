"""A table of spans: numpy columns side by side, text as codes into a table of words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vizdist.store.segments import NUMBER_COLUMNS, TEXT_COLUMNS, Array, RowKey, Segment


@dataclass(frozen=True)
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
        return Spans({k: v[which] for k, v in self.columns.items()}, self.words, self.rows)


def _pick(words: Sequence[str], codes: Array) -> Array:
    return np.array([*words, ""], dtype=object)[codes]


def join_segments(segments: Sequence[Segment], rows: tuple[RowKey, ...]) -> Spans:
    """All segments as one table whose `row` counts in `rows`; one segment is not copied."""
    place = {row: index for index, row in enumerate(rows)}
    row_parts = [
        np.array([place[row] for row in segment.rows], np.uint32)[segment.columns["row"]]
        for segment in segments
    ]
    columns = {
        name: _concatenate([segment.columns[name] for segment in segments], type_name)
        for name, type_name in NUMBER_COLUMNS.items()
        if name != "row"
    }
    columns["row"] = _concatenate(row_parts, "uint32")
    words: dict[str, tuple[str, ...]] = {}
    for name in TEXT_COLUMNS:
        words[name], parts = _unify(
            [(segment.texts[name], segment.columns[name]) for segment in segments]
        )
        columns[name] = _concatenate(parts, "int32")
    return Spans(columns, words, rows)


def _concatenate(parts: Sequence[Array], type_name: str) -> Array:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, type_name)


def _unify(
    parts: Iterable[tuple[tuple[str, ...], Array]],
) -> tuple[tuple[str, ...], list[Array]]:
    """One table of words for several; equal words get one code, also within a table."""
    known: dict[str, int] = {}
    recoded = []
    for words, codes in parts:
        mapping = np.array([known.setdefault(word, len(known)) for word in words], np.int32)
        same = len(mapping) == 0 or bool(np.array_equal(mapping, np.arange(len(mapping))))
        recoded.append(codes if same else mapping[codes])
    return tuple(known), recoded
