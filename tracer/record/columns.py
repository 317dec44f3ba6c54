"""The store's columns, written while the run goes on, so that opening a trace needs no import.

Every flush writes one small segment, sorted by (row, start). Eight segments of one size class are
merged into one of the next, so that a long run has few; at the end the rest is merged too, up to
SEGMENT_ROWS spans a segment. Rows keep their numbers for the whole run.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracer.model.trace_folder import COLUMN_LIST, ROWS_METADATA, SEGMENT_ROWS, SEGMENT_SUFFIX
from tracer.record.drain import HomeReader, Records, SiteInfo
from tracer.record.fields import VERSION, WAIT, extra_of, site_flags
from tracer.record.keys import FRAME_ID, ITERATION, KEY, Keys, tells
from tracer.record.lanes import row_text

FAN_IN: Final = 8  #: segments of one size class that are merged into one
MOST_WORDS: Final = 1 << 16  #: of a column that are kept once its spans are written

Column = npt.NDArray[Any]
TEXT_COLUMNS: Final = tuple(column.name for column in COLUMN_LIST if column.type == "text")
_AS_RECORDED: Final = (
    "start", "end", "ready", "bytes", "step", "trace_hi", "trace_lo", "span", "parent", "link",
)  # fmt: skip


class Words:
    """The texts of one column and their codes."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def codes(self, texts: Iterable[str]) -> Column:
        codes = self._codes
        return np.array([codes.setdefault(text, len(codes)) for text in texts], np.int32)

    def texts(self) -> list[str]:
        return list(self._codes)

    def forget_many(self) -> None:
        """Where no code is in use any more: keys of loops come without end."""
        if len(self._codes) > MOST_WORDS:
            self._codes.clear()


class Rows:
    """The row table of the trace: (task, lane, depth), in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, int], int] = {}

    def numbers(self, task: str, records: Records, sites: Sequence[SiteInfo]) -> Column:
        packed = records["site"].astype(np.uint64) << np.uint64(32) | records["row"]
        distinct, where = np.unique(packed, return_inverse=True)
        numbers = [
            self._number(task, *row_text(sites[one >> 32].lane, one & 0xFFFFFFFF))
            for one in distinct.tolist()
        ]
        return np.array(numbers, np.uint32)[where]

    def _number(self, task: str, lane: str, depth: int) -> int:
        return self._numbers.setdefault((task, lane, depth), len(self._numbers))

    def table(self) -> list[dict[str, Any]]:
        return [{"task": task, "lane": lane, "depth": depth} for task, lane, depth in self._numbers]


class Places(NamedTuple):
    """Where spans were written: file within the trace folder, offset of the member, line."""

    file: str
    member: Column
    line: Column


class _Written(NamedTuple):
    first: int
    last: int
    num_spans: int
    path: Path


class Columns:
    """Takes the spans of all tasks and keeps the folder `columns/` of the trace."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._rows = Rows()
        self._words = {name: Words() for name in TEXT_COLUMNS}
        self._pending: list[dict[str, Column]] = []
        self._classes: list[list[_Written]] = [[]]  #: small segments by size class
        self._num_segments = 0

    def add(
        self, home: HomeReader, records: Records, places: Places, names: Mapping[int, str]
    ) -> None:
        """Takes spans that stand in the span file; places are in the order of the records.

        `names` are those of spans that are not called as their sites.
        """
        at, sites = records["site"], home.sites
        extra = records["extra"]
        is_wait, is_version = (
            np.array([extra_of(site.kind) == name for site in sites])[at]
            for name in (WAIT, VERSION)
        )
        has_key, has_frame, has_iteration = (
            np.array([tells(site.kind, name) for site in sites])[at]
            for name in (KEY, FRAME_ID, ITERATION)
        )
        flags = np.array([site_flags(site) for site in sites], np.uint32)[at]
        chunk = {name: records[name] for name in _AS_RECORDED} | {
            "row": self._rows.numbers(home.task, records, sites),
            "wait": np.where(is_wait, extra, 0),
            "version": np.where(is_version & (extra != 0), extra, -1),
            "flags": flags | records["flags"],
            "key": self._key_codes(home.keys, np.where(has_key, records["key"], 0)),
            "frame_id": np.where(has_frame, home.keys.frames(records["key"]), 0),
            "iteration": np.where(has_iteration, home.keys.iterations(records["key"]), -1),
            "file": np.repeat(self._words["file"].codes([places.file]), len(records)),
            "member": places.member,
            "line": places.line,
        }
        for name, texts in _site_texts(sites).items():
            chunk[name] = self._words[name].codes(texts)[at]
        if names:
            at = np.flatnonzero(np.isin(records["span"], list(names)))
            texts = [names[span] for span in records["span"][at].tolist()]
            chunk["name"][at] = self._words["name"].codes(texts)
        self._pending.append(chunk)

    def _key_codes(self, keys: Keys, numbers: Column) -> Column:
        distinct, where = np.unique(numbers, return_inverse=True)
        return self._words["key"].codes(keys.texts(distinct))[where]

    def flush(self) -> None:
        """Writes what was added as one segment."""
        if not self._pending:
            return
        names = [column.name for column in COLUMN_LIST]
        columns = {n: np.concatenate([chunk[n] for chunk in self._pending]) for n in names}
        number = self._num_segments
        self._classes[0].append(self._write(columns, number, number))
        self._pending.clear()
        self._num_segments += 1
        self._forget_words()
        self._merge_full_classes()

    def close(self, progress: Callable[[], None]) -> None:
        """Writes the rest and merges all small segments; calls `progress` after each merge."""
        self.flush()
        small = sorted(one for size in self._classes for one in size)
        group: list[_Written] = []
        for one in small:
            if group and sum(other.num_spans for other in group) + one.num_spans > SEGMENT_ROWS:
                self._merge(group)
                progress()
                group = []
            group.append(one)
        if group:
            self._merge(group)
        self._classes = [[]]

    def _merge_full_classes(self) -> None:
        for size, segments in enumerate(self._classes):
            if len(segments) < FAN_IN:
                return
            if sum(one.num_spans for one in segments) > SEGMENT_ROWS:
                segments.pop(0)  # the oldest is large enough to stay as it is
                return
            merged = self._merge(segments)
            segments.clear()
            if size + 1 == len(self._classes):
                self._classes.append([])
            self._classes[size + 1].append(merged)

    def _merge(self, segments: Sequence[_Written]) -> _Written:
        if len(segments) == 1:
            return segments[0]
        parts = [self._read(one.path) for one in segments]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        merged = self._write(columns, segments[0].first, segments[-1].last)
        for one in segments:
            one.path.unlink()
        self._forget_words()
        return merged

    def _forget_words(self) -> None:
        for words in self._words.values():
            words.forget_many()

    def _write(self, columns: dict[str, Column], first: int, last: int) -> _Written:
        order = np.lexsort((columns["start"], columns["row"]))
        arrays = [
            self._text_array(column.name, columns[column.name][order])
            if column.type == "text"
            else pa.array(columns[column.name][order], pa.type_for_alias(column.type))
            for column in COLUMN_LIST
        ]
        schema = pa.schema(
            [(column.name, array.type) for column, array in zip(COLUMN_LIST, arrays, strict=True)],
            metadata={ROWS_METADATA: json.dumps(self._rows.table())},
        )
        path = self._folder / f"{first:08d}-{last:08d}{SEGMENT_SUFFIX}"
        draft = path.with_suffix(".part")
        with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        draft.replace(path)
        return _Written(first, last, len(order), path)

    def _text_array(self, name: str, codes: Column) -> Any:
        """The column with the words it uses."""
        texts = self._words[name].texts()
        is_used = np.zeros(len(texts), bool)
        is_used[codes] = True
        words = [texts[code] for code in np.flatnonzero(is_used).tolist()]
        own_codes = (np.cumsum(is_used) - 1)[codes].astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(own_codes), pa.array(words, pa.string()))

    def _read(self, path: Path) -> dict[str, Column]:
        """A segment of ours, text columns as the codes of the whole run."""
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        columns = {}
        for column in COLUMN_LIST:
            array = table.column(column.name).chunk(0)
            if column.type == "text":
                words = self._words[column.name].codes(array.dictionary.to_pylist())
                columns[column.name] = words[array.indices.to_numpy()]
            else:
                columns[column.name] = array.to_numpy()
        return columns


def _site_texts(sites: Sequence[SiteInfo]) -> dict[str, list[str]]:
    return {
        "kind": [site.kind for site in sites],
        "name": [site.name for site in sites],
        "op": [str(site.attributes.get("vizdist.op", "")) for site in sites],
        "device": [str(site.attributes.get("vizdist.device", "")) for site in sites],
        "frame": [str(site.attributes.get("vizdist.frame.name", "")) for site in sites],
    }
