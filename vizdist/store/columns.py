"""Builds a segment from spans that arrive one by one in any order (foreign and unmerged traces)."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tracer.model.trace_folder import COLUMN_LIST, SEGMENT_ROWS, SEGMENT_SUFFIX
from vizdist.store.segments import NUMBER_COLUMNS, Array, RowKey, write_segment

BY_CONTAINMENT = -1  #: depth of a span whose row is found by what lies in what
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
    """Takes spans, keeps them as columns, writes them as segments in order."""

    def __init__(self) -> None:
        self._pending: list[SpanRecord] = []
        self._parts: dict[str, list[Array]] = {name: [] for name in SpanRecord._fields}
        self._words: dict[str, dict[str, int]] = {name: {} for name in _WORDS}
        self.overlaps = 0  #: spans that overlap another of their lane without nesting

    def add(self, record: SpanRecord) -> None:
        self._pending.append(record)
        if len(self._pending) >= _BATCH:
            self._settle()

    def _settle(self) -> None:
        """Turns the pending tuples into column parts."""
        for name, cells in zip(SpanRecord._fields, zip(*self._pending, strict=True), strict=False):
            if name in _TYPES:
                part = np.array(cells, _TYPES[name])
            else:
                known = self._words[name]
                part = np.array([known.setdefault(w, len(known)) for w in cells], np.int32)
            self._parts[name].append(part)
        self._pending.clear()

    def columns(self) -> tuple[dict[str, Array], dict[str, tuple[str, ...]]]:
        """All spans so far, in order of arrival, with the words of text columns."""
        self._settle()
        columns = {
            name: np.concatenate([np.empty(0, _TYPES.get(name, "int32")), *parts])
            for name, parts in self._parts.items()
        }
        return columns, {name: tuple(words) for name, words in self._words.items()}

    def write(self, folder: Path) -> int:
        """Writes the segments into an existing folder; returns the number of spans."""
        columns, words = self.columns()
        rows, row = self._rows(columns, words)
        numbers = {name: columns[name] for name in NUMBER_COLUMNS if name != "row"} | {"row": row}
        texts = {c.name: (columns[c.name], words[c.name]) for c in COLUMN_LIST if c.type == "text"}
        order = np.lexsort((columns["start"], row))
        for number, at in enumerate(range(0, max(1, len(row)), SEGMENT_ROWS)):
            part = order[at : at + SEGMENT_ROWS]
            write_segment(
                folder / f"{number:05d}{SEGMENT_SUFFIX}",
                rows,
                {name: column[part] for name, column in numbers.items()},
                {name: (codes[part], table) for name, (codes, table) in texts.items()},
            )
        return len(row)

    def _rows(
        self, columns: dict[str, Array], words: dict[str, tuple[str, ...]]
    ) -> tuple[list[RowKey], Array]:
        """The row table, and every span's place in it."""
        lanes = columns["task"].astype(np.int64) * len(words["lane"]) + columns["lane"]
        depth = columns["depth"].copy()
        free = np.flatnonzero(depth < 0)
        order = free[np.lexsort((-columns["end"][free], columns["start"][free], lanes[free]))]
        depth[order] = self._depths(lanes[order], columns["start"][order], columns["end"][order])
        packed, row = np.unique(np.stack((lanes, depth)), axis=1, return_inverse=True)
        width = max(1, len(words["lane"]))
        keys = [
            RowKey(words["task"][lane // width], words["lane"][lane % width], int(level))
            for lane, level in packed.T.tolist()
        ]
        return keys, row.reshape(-1).astype(np.uint32)

    def _depths(self, lanes: Array, starts: Array, ends: Array) -> list[int]:
        """Depths by containment of spans in order of (lane, start, longest first).

        A span that overlaps its neighbour without lying in it goes one deeper: nothing in a row
        overlaps, no end is moved (case I09).
        """
        depths = []
        stack: list[int] = []
        current = -1
        for lane, start, end in zip(lanes.tolist(), starts.tolist(), ends.tolist(), strict=True):
            if lane != current:
                current = lane
                stack.clear()
            while stack and stack[-1] <= start:
                stack.pop()
            if stack and end > stack[-1]:
                self.overlaps += 1
            depths.append(len(stack))
            stack.append(end)
        return depths


def write_records(folder: Path, records: Iterable[SpanRecord]) -> int:
    builder = ColumnsBuilder()
    for record in records:
        builder.add(record)
    return builder.write(folder)
