"""What an importer hands spans to: columns, details of spans whose file has no lines, problems."""

import codecs
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson

from vizdist.store.columns import ColumnsBuilder, SpanRecord
from vizdist.store.gzip_members import FileBlocks, packed_member
from vizdist.store.otlp_spans import NO_TIME
from vizdist.store.problems import Problem, problem
from vizdist.store.reading import Reading
from vizdist.store.segments import Array
from vizdist.store.text_repair import JsonText

DETAILS_FILE = "details.otlp.jsonl.gz"
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MAX_SPANS = 50_000_000  #: more of a foreign file than that is not looked at in one piece
TELL_SPANS = 50_000  #: a second's, about
_MEMBER_LINES = 512
_TIME_RANGE = range(-NO_TIME, NO_TIME)


class Details:
    """Span lines in OTLP/JSON for spans that came from a file without lines of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._lines: list[bytes] = []
        self._offset = 0

    def add(self, span: Mapping[str, Any]) -> tuple[int, int]:
        """Keeps a span; returns its member and line."""
        place = self._offset, len(self._lines)
        self._lines.append(
            orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}, default=str)
        )
        if len(self._lines) >= _MEMBER_LINES:
            self._flush()
        return place

    def _flush(self) -> None:
        if self._file is None:
            self._file = self._path.open("wb")
        packed = packed_member(b"\n".join(self._lines) + b"\n", level=1)
        self._offset += self._file.write(packed)
        self._lines.clear()

    def close(self) -> None:
        if self._lines:
            self._flush()
        if self._file is not None:
            self._file.close()


class Enough(Exception):
    """The sink takes no more spans; what it has is kept."""


class Sink:
    """Takes what importers find, up to `max_spans` spans (None: all); then it raises Enough.

    `limit` bounds the inflated bytes of a compressed file.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limit: int | None = None,
        time_unit: str = "us",
        max_spans: int | None = MAX_SPANS,
    ) -> None:
        self.builder = ColumnsBuilder(folder)
        self.details = Details(folder / DETAILS_FILE)
        self.limit = limit
        self._max_spans = max_spans
        self.time_unit = time_unit
        self.problems: list[Problem] = []
        self.is_foreign = True  #: parents are checked, as nobody vouches for them
        self.num_spans = 0
        self.last_end = 0
        self.reading: Reading | None = None  #: the file that is read now, if it may be long
        self._invalid: Counter[str] = Counter()

    def add(self, record: SpanRecord, where: str) -> None:
        """Keeps a span, unless its times cannot be times."""
        if record.start not in _TIME_RANGE or record.end not in _TIME_RANGE:
            self._invalid[where] += 1
            return
        if record.end < record.start:
            self._invalid[where] += 1
            return
        if self.num_spans == self._max_spans:
            raise Enough
        self.num_spans += 1
        self.last_end = max(self.last_end, record.end)
        self.builder.add(record)
        if self.reading is not None and self.num_spans % TELL_SPANS == 0:
            self.reading.tell()

    def add_columns(self, columns: Mapping[str, Array], where: str) -> None:
        """The same for spans side by side, as the builder takes them."""
        start, end = columns["start"], columns["end"]
        is_time = (start >= -NO_TIME) & (start < NO_TIME) & (end < NO_TIME)
        kept = np.flatnonzero(is_time & (end >= start))
        self._invalid[where] += len(start) - len(kept)
        room = len(kept) if self._max_spans is None else self._max_spans - self.num_spans
        taken = kept[:room]
        if len(taken) < len(start):
            columns = {name: cells[taken] for name, cells in columns.items()}
        if len(taken):
            self.num_spans += len(taken)
            self.last_end = max(self.last_end, int(columns["end"].max()))
            self.builder.add_columns(columns)
        if self.reading is not None:
            self.reading.tell()
        if len(kept) > room:
            raise Enough

    def say(self, kind: str, count: int = 1, where: str = "", detail: str = "") -> None:
        if count > 0:
            self.problems.append(problem(kind, count, where, detail))

    def finish(self) -> None:
        self.details.close()
        for where, count in self._invalid.items():
            self.say("invalid", count, where)


def head_of_file(path: Path) -> bytes:
    """The first bytes of what a file holds, inflated, as UTF-8 if they are UTF-16."""
    head = next(iter(FileBlocks(path)), b"")
    return JsonText([head]).read() if head[:2] in UTF16_MARKS else head
