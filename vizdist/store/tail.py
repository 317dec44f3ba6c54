"""What is appended to span files after they were read: only that is read, and no live row moves.

A parent is written after its children, so a span that comes late cannot push those that are drawn
already one row down: it takes the first row of its lane that is free from its start on. When the
trace is opened anew, rows are those of what lies in what.
"""

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from weakref import finalize

import numpy as np

from tracer.model.trace_folder import SEGMENT_ROWS, SEGMENT_SUFFIX
from vizdist.store.columns import Table
from vizdist.store.importers.otlp import add_lines
from vizdist.store.importing import Sink
from vizdist.store.otlp_reader import Line, SpanFile
from vizdist.store.problems import Problem
from vizdist.store.row_order import row_order
from vizdist.store.segments import (
    NUMBER_COLUMNS,
    TEXT_COLUMNS,
    Array,
    RowKey,
    Segment,
    read_segment,
    write_segment,
)
from vizdist.store.spans import join_segments
from vizdist.store.tree import cut_circles

KNOWN_BYTES = 512  #: before the place up to which a file was read: it is known again by them
FAN_IN = 8  #: segments of about one size that become one

_Lane = tuple[str, str]  #: task, lane
_Place = tuple[int, int]  #: member, line


@dataclass(frozen=True, slots=True)
class LinesFile:
    """A file of span lines: its path, its name in the column `file`, whose spans it holds."""

    path: Path
    name: str
    task: str = ""

    def bytes_to(self, end: int) -> bytes:
        """The last ones before this offset."""
        start = max(0, end - KNOWN_BYTES)
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read(end - start)

    def mark(self) -> "Mark":
        told = self.path.stat()
        return Mark(told.st_ino, told.st_size, self.bytes_to(told.st_size))


class Mark(NamedTuple):
    """Which file it is, how long, and how it ends: just before it is read as a whole.

    Files of one service begin alike, so a beginning would not tell one from another.
    """

    inode: int
    size: int
    last: bytes


class _Growing:
    """One file and how far it was read; what the spans in `known` came from is not read again."""

    def __init__(self, file: LinesFile, mark: Mark, known: Sequence[Segment]) -> None:
        self.file = file
        self._mark = mark
        self._reader = SpanFile(file.path)
        last_span = max((_last_line(file.name, segment) for segment in known), default=(0, -1))
        self._reader.offset = last_span[0]
        self._seen = _last_before(mark.size, last_span, file.path)

    def is_as_before(self) -> bool:
        """Whether it only grew; one that was cut or replaced must be read from its beginning."""
        is_same = self.file.path.stat().st_ino == self._mark.inode
        return is_same and self.file.bytes_to(self._mark.size) == self._mark.last

    def lines(self) -> Iterator[Line]:
        for line in self._reader.lines():
            if (line.member, line.line) > self._seen:
                yield line
        if self._reader.offset > self._mark.size:
            last = self.file.bytes_to(self._reader.offset)
            self._mark = Mark(self._mark.inode, self._reader.offset, last)


def _last_before(size: int, last_span: _Place, path: Path) -> _Place:
    """The last line that was whole when the file was of this size.

    Lines after the last span gave none, and what is wrong with them has been said.
    """
    reader = SpanFile(path)
    reader.offset = last_span[0]
    found = last = last_span
    for line in reader.lines():
        if line.member > size:
            return found
        if line.member != last[0]:
            found = max(found, last)
        last = line.member, line.line
    return max(found, last) if reader.offset <= size else found


def _last_line(name: str, segment: Segment) -> _Place:
    names = segment.texts["file"]
    code = names.index(name) if name in names else -1
    own = np.flatnonzero(segment.columns["file"] == code)
    if not len(own):
        return 0, -1
    members = segment.columns["member"][own]
    last = members.max()
    return int(last), int(segment.columns["line"][own][members == last].max())


class Tail:
    """The spans that came to some files after the segments `known` were made of them.

    `marks` are of the files as they were then.
    """

    def __init__(
        self, files: Sequence[LinesFile], marks: Sequence[Mark], known: Sequence[Segment]
    ) -> None:
        pairs = zip(files, marks, strict=True)
        self._growing = [_Growing(file, mark, known) for file, mark in pairs]
        self._folder = Path(tempfile.mkdtemp(prefix="vizdist-tail-"))
        finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._ends = _ends_of_rows(known)
        self._num_written = 0
        self.segments: list[Segment] = []
        self.problems: list[Problem] = []

    def read(self) -> bool:
        """Takes what was appended; False if a file is not what it was, only longer."""
        try:
            if not all(one.is_as_before() for one in self._growing):
                return False
        except FileNotFoundError:
            return False
        sink = Sink(self._folder)
        try:
            self._take(sink)
        finally:
            sink.builder.close()  # else the next read would add to its files
        return True

    def _take(self, sink: Sink) -> None:
        for one in self._growing:
            bad = add_lines(one.lines(), sink, one.file.name, one.file.task)
            sink.say("line", bad, one.file.name)
        sink.finish()
        self.problems += sink.problems
        if sink.num_spans:
            table = sink.builder.table()
            cut_circles(table)
            self._keep(*self._placed(table), {name: table.words[name] for name in TEXT_COLUMNS})

    def _placed(self, table: Table) -> tuple[list[RowKey], dict[str, Array]]:
        """The row table and the columns with rows."""
        columns, words = table.columns, table.words
        order = np.lexsort((-columns["end"], columns["start"], columns["lane"], columns["task"]))
        rows: dict[RowKey, int] = {}
        row = np.empty(len(order), np.uint32)
        for at in order.tolist():
            lane = words["task"][columns["task"][at]], words["lane"][columns["lane"][at]]
            start, end = int(columns["start"][at]), int(columns["end"][at])
            depth = self._free_depth(lane, start, int(columns["depth"][at]))
            self._ends[lane][depth] = max(self._ends[lane].get(depth, end), end)
            row[at] = rows.setdefault(RowKey(*lane, depth), len(rows))
        return list(rows), columns | {"row": row}

    def _free_depth(self, lane: _Lane, start: int, recorded: int) -> int:
        if recorded >= 0:
            return recorded
        ends, depth = self._ends[lane], 0
        while ends.get(depth, start) > start:
            depth += 1
        return depth

    def _keep(
        self, rows: Sequence[RowKey], columns: dict[str, Array], words: dict[str, Sequence[str]]
    ) -> None:
        path = self._folder / f"{self._num_written:06d}{SEGMENT_SUFFIX}"
        self._num_written += 1
        keys = sorted(rows, key=row_order)
        place = {key: number for number, key in enumerate(keys)}
        own = np.array([place[key] for key in rows], np.uint32)
        numbers = {name: columns[name] for name in NUMBER_COLUMNS} | {"row": own[columns["row"]]}
        write_segment(path, keys, numbers, {n: (columns[n], w) for n, w in words.items()})
        self.segments.append(read_segment(path))
        self._merge()

    def _merge(self) -> None:
        """The last segments become one when they are many and none is far larger than another."""
        last = self.segments[-FAN_IN:]
        total = sum(map(len, last))
        is_even = len(last) == FAN_IN and max(map(len, last)) * 2 <= total
        if not is_even or total > SEGMENT_ROWS:
            return
        del self.segments[-FAN_IN:]
        rows = tuple(dict.fromkeys(row for segment in last for row in segment.rows))
        spans = join_segments(last, rows)
        self._keep(rows, dict(spans.columns), dict(spans.words))
        for segment in last:
            segment.path.unlink()


def _ends_of_rows(known: Sequence[Segment]) -> dict[_Lane, dict[int, int]]:
    """The last end in every row, by lane and depth."""
    ends: dict[_Lane, dict[int, int]] = defaultdict(dict)
    for segment in known:
        for row, low, high in zip(segment.rows, *segment.bounds, strict=True):
            if high > low:
                end = int(segment.columns["end"][low:high].max())
                of_lane = ends[row.task, row.lane]
                of_lane[row.depth] = max(of_lane.get(row.depth, end), end)
    return ends
