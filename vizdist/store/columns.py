"""Builds a segment from spans that arrive one by one in any order (foreign and unmerged traces)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tracer.model.trace_folder import SEGMENT_ROWS, SEGMENT_SUFFIX
from vizdist.store.segments import (
    NUMBER_COLUMNS,
    TEXT_COLUMNS,
    Array,
    RowKey,
    write_segment,
)

BY_CONTAINMENT = -1  #: depth of a span whose row is found by what lies in what
DEEPEST = 1 << 20  #: a file that says more is not taken at its word
KEPT_ROWS = SEGMENT_ROWS  #: that may lie in memory before they go to files
_BATCH = 1 << 16


class SpanRecord(NamedTuple):
    """One span before it has a row; fields as in COLUMN_LIST."""

    task: str
    lane: str
    start: int
    end: int
    name: str
    kind: str = ""
    depth: int = BY_CONTAINMENT
    ready: int = 0
    wait: int = 0
    bytes: int = 0
    step: int = 0
    op: str = ""
    device: str = ""
    key: str = ""
    frame: str = ""
    frame_id: int = 0
    iteration: int = -1
    trace_hi: int = 0
    trace_lo: int = 0
    span: int = 0
    parent: int = 0
    link: int = 0
    version: int = -1
    flags: int = 0
    file: str = ""
    member: int = 0
    line: int = 0


_TYPES = {"depth": "int64", **{n: t for n, t in NUMBER_COLUMNS.items() if n != "row"}}
_WORDS = tuple(name for name in SpanRecord._fields if name not in _TYPES)


class ColumnsBuilder:
    """Takes spans one by one and keeps them as columns.

    With a folder, columns that grow large lie in files there, so that memory holds few of them.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._pending: list[SpanRecord] = []
        self._parts: dict[str, list[Array]] = {name: [] for name in SpanRecord._fields}
        self._num_kept = 0
        self._words: dict[str, dict[str, int]] = {name: {} for name in _WORDS}
        self._names: dict[str, dict[str, str]] = {name: {} for name in _WORDS}

    def add(self, record: SpanRecord) -> None:
        self._pending.append(record)
        if len(self._pending) >= _BATCH:
            self._settle()

    def codes(self, column: str, words: Iterable[str]) -> Array:
        """The codes of these words in a text column, as `add_columns` takes them."""
        known = self._words[column]
        return np.array([known.setdefault(word, len(known)) for word in words], np.int32)

    def cells(self, column: str, which: Sequence[int], values: Sequence[Any], size: int) -> Array:
        """A column of `size` spans: `values` where `which` says, elsewhere the default."""
        default = SpanRecord._field_defaults[column]
        if column in _TYPES:
            found = np.full(size, default, _TYPES[column])
            found[which] = values
        else:
            found = np.full(size, self.codes(column, [default])[0])
            found[which] = self.codes(column, values)
        return found

    def add_columns(self, columns: Mapping[str, Array]) -> None:
        """Takes spans side by side, texts as `codes`; columns that are not there have no values."""
        self._settle()
        size = len(columns["start"])
        for name, parts in self._parts.items():
            cells = columns[name] if name in columns else self.cells(name, [], [], size)
            parts.append(cells.astype(_TYPES.get(name, "int32"), copy=False))
        self._keep(size)

    def words(self, column: str) -> list[str]:
        """What a text column holds so far."""
        self._settle()
        return list(self._words[column])

    def rename(self, column: str, old: str, new: str) -> None:
        """Says another word for one, in all spans so far; two may become equal."""
        self._names[column][old] = new

    def _settle(self) -> None:
        """Turns the pending tuples into column parts."""
        for name, cells in zip(SpanRecord._fields, zip(*self._pending, strict=True), strict=False):
            is_number = name in _TYPES
            part = np.array(cells, _TYPES[name]) if is_number else self.codes(name, cells)
            self._parts[name].append(part)
        size = len(self._pending)
        self._pending.clear()
        self._keep(size)

    def _keep(self, num_more: int) -> None:
        """Counts the last parts, and moves all to files when they are many."""
        self._num_kept += num_more
        if self._folder is not None and self._num_kept > KEPT_ROWS:
            for name, parts in self._parts.items():
                with self._file(self._folder, name).open("ab") as file:
                    for part in parts:
                        part.tofile(file)
                parts.clear()
            self._num_kept = 0

    def _file(self, folder: Path, name: str) -> Path:
        return folder / f"{name}.column"

    def _whole(self, name: str) -> Array:
        """A column from the file, if some of it lies there, or from memory."""
        kind = _TYPES.get(name, "int32")
        path = self._file(self._folder, name) if self._folder is not None else None
        if path is None or not path.exists():
            return np.concatenate([np.empty(0, kind), *self._parts[name]])
        with path.open("ab") as file:
            for part in self._parts[name]:
                part.tofile(file)
        self._parts[name].clear()
        return np.memmap(path, kind, "r+")

    def table(self) -> "Table":
        """All spans, in order of arrival; to be asked for once."""
        self._settle()
        columns = {name: self._whole(name) for name in self._parts}
        words = {}
        for name, known in self._words.items():
            codes, words[name] = _renamed(known, self._names[name])
            if not np.array_equal(codes, np.arange(len(codes))):
                for at in range(0, len(columns[name]), _BATCH):
                    part = columns[name][at : at + _BATCH]
                    part[:] = codes[part]
        return Table(columns, words)

    def close(self) -> None:
        """Removes the files; tables that were made of them must not be used any more."""
        if self._folder is not None:
            for name in self._parts:
                self._file(self._folder, name).unlink(missing_ok=True)


def _renamed(known: Iterable[str], names: dict[str, str]) -> tuple[Array, tuple[str, ...]]:
    """New codes for old ones and the words they stand for, each once."""
    fresh: dict[str, int] = {}
    codes = [fresh.setdefault(names.get(word, word), len(fresh)) for word in known]
    return np.array(codes, np.int32), tuple(fresh)


@dataclass(slots=True)
class Table:
    """Spans as columns, before they have rows; text as codes into `words`."""

    columns: dict[str, Array]
    words: dict[str, tuple[str, ...]]

    def write(self, folder: Path) -> int:
        """Writes the segments into an existing folder; returns the number of overlaps in lanes."""
        rows, row, overlaps = self._rows()
        columns = self.columns | {"row": row}
        order = np.lexsort((columns["start"], row))
        for number, at in enumerate(range(0, max(1, len(row)), SEGMENT_ROWS)):
            part = order[at : at + SEGMENT_ROWS]
            write_segment(
                folder / f"{number:05d}{SEGMENT_SUFFIX}",
                rows,
                {name: columns[name][part] for name in NUMBER_COLUMNS},
                {name: (columns[name][part], self.words[name]) for name in TEXT_COLUMNS},
            )
        return overlaps

    def _rows(self) -> tuple[list[RowKey], Array, int]:
        """The row table, every span's place in it, and how many spans overlap in their lane."""
        columns, width = self.columns, max(1, len(self.words["lane"]))
        lanes = columns["task"].astype(np.int64) * width + columns["lane"]
        depth = np.minimum(columns["depth"], DEEPEST)
        free = np.flatnonzero(depth < 0)
        order = free[np.lexsort((-columns["end"][free], columns["start"][free], lanes[free]))]
        depth[order], overlaps = _depths(
            lanes[order], columns["start"][order], columns["end"][order]
        )
        levels = int(depth.max(initial=0)) + 1
        packed, row = _numbered(lanes * levels + depth)
        keys = [
            RowKey(self.words["task"][lane // width], self.words["lane"][lane % width], level)
            for lane, level in (divmod(one, levels) for one in packed.tolist())
        ]
        return keys, row.astype(np.uint32), overlaps


def _numbered(values: Array) -> tuple[Array, Array]:
    """The distinct values in order, and the number of each; none is negative."""
    most = int(values.max(initial=0))
    if most > 2 * len(values) + _BATCH:
        distinct, numbers = np.unique(values, return_inverse=True)
        return distinct, numbers
    is_there = np.zeros(most + 1, np.bool_)
    is_there[values] = True
    return np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[values]


def _depths(lanes: Array, starts: Array, ends: Array) -> tuple[Array, int]:
    """Depths by containment of spans in order of (lane, start, longest first), and the overlaps.

    A span that overlaps its neighbour without lying in it goes one deeper: nothing in a row
    overlaps, no end is moved (case I09).
    """
    depths = np.empty(len(lanes), np.int64)
    overlaps = 0
    stack: list[int] = []
    current = -1
    for at in range(0, len(lanes), _BATCH):
        part = (column[at : at + _BATCH].tolist() for column in (lanes, starts, ends))
        found = []
        for lane, start, end in zip(*part, strict=True):
            if lane != current:
                current = lane
                stack.clear()
            while stack and stack[-1] <= start:
                stack.pop()
            overlaps += bool(stack) and end > stack[-1]
            found.append(len(stack))
            stack.append(end)
        depths[at : at + _BATCH] = found
    return depths, overlaps


def write_records(folder: Path, records: Iterable[SpanRecord]) -> int:
    """Writes these spans as segments; returns their number."""
    builder = ColumnsBuilder()
    for record in records:
        builder.add(record)
    table = builder.table()
    table.write(folder)
    return len(table.columns["start"])
