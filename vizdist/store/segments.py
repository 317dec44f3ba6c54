"""Segments: spans as sorted Arrow columns on disk, memory-mapped; written for foreign files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracer.model.trace_folder import COLUMN_LIST, ROWS_METADATA, Flag
from vizdist.store.problems import TraceError

Array = npt.NDArray[Any]

TEXT_COLUMNS = tuple(column.name for column in COLUMN_LIST if column.type == "text")
NUMBER_COLUMNS = {column.name: column.type for column in COLUMN_LIST if column.type != "text"}

#: what spans hold in columns that their segment was written without, being of an earlier version
ADDED: Mapping[str, int | str] = {"frame": "", "frame_id": 0, "iteration": -1}
ROOT_KIND = "session.run"
LATEST = 8  #: roots that a segment remembers, for what they say of the run
NEVER = 1 << 62  #: later than any time
FEW = 4  #: ids that are looked for one by one rather than in an index
NEVER_HIDDEN = Flag.ERROR | Flag.UNFINISHED


class RowKey(NamedTuple):
    """A row of the timeline: nothing in it overlaps."""

    task: str
    lane: str
    depth: int


class Ended(NamedTuple):
    """Of the client requests that ended in a segment: the highest whole step, the latest roots."""

    step: int
    latest: tuple[tuple[int, int, int], ...]  #: (end, place, step)


@dataclass(frozen=True, eq=False)
class Segment:
    """One file's spans, sorted by (row, start), with what is kept in memory of them.

    `columns` holds every column of COLUMN_LIST; text columns as codes into `texts`. `row` counts in
    `rows`. `start` and `end` are of all its spans; `flagged` are places no other span may hide.
    """

    path: Path
    rows: tuple[RowKey, ...]
    columns: Mapping[str, Array]
    texts: Mapping[str, tuple[str, ...]]
    start: int
    end: int
    flagged: Array
    ended: Ended

    def __len__(self) -> int:
        return len(self.columns["row"])

    def again(self) -> Mapping[str, Array]:
        """Its columns in a mapping of their own: what is looked at once does not stay in memory."""
        try:
            return _mapped(self.path)[1]
        except (OSError, pa.ArrowException):  # merged into another since, which took its file away
            return self.columns

    def is_kind(self, kind: str) -> Array:
        """A mask of the spans of a kind."""
        kinds = self.texts["kind"]
        code = kinds.index(kind) if kind in kinds else -1
        mask: Array = self.columns["kind"] == code
        return mask

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Where each row's spans begin and end."""
        every = np.arange(len(self.rows))
        row = self.columns["row"]
        return np.searchsorted(row, every), np.searchsorted(row, every, "right")

    @cached_property
    def extents(self) -> tuple[Array, Array, Array]:
        """Of every row the first start, the last end, and whether a span of it is of a step."""
        low, high = self.bounds
        held = np.flatnonzero(high > low)
        first = np.full(len(low), NEVER, np.int64)
        last = np.full(len(low), -NEVER, np.int64)
        is_stepped = np.zeros(len(low), np.bool_)
        if len(held):
            columns = self.again()
            first[held] = columns["start"][low[held]]
            last[held] = np.maximum.reduceat(columns["end"], low[held])
            is_stepped[held] = np.maximum.reduceat(columns["step"], low[held]) > 0
        return first, last, is_stepped

    @cached_property
    def by_id(self) -> tuple[Array, Array]:
        """Span ids in order, and where they lie."""
        order = np.argsort(self.columns["span"], kind="stable").astype(np.uint32)
        return self.columns["span"][order], order

    def places(self, ids: Array) -> Array:
        """Where spans lie by their ids, -1 for those that are not here."""
        if len(ids) <= FEW and "by_id" not in vars(self):
            found = [np.flatnonzero(self.columns["span"] == one)[:1] for one in ids]
            return np.array([int(one[0]) if len(one) else -1 for one in found], np.int64)
        sorted_ids, order = self.by_id
        at = np.minimum(np.searchsorted(sorted_ids, ids), len(order) - 1)
        return np.where(sorted_ids[at] == ids, order[at].astype(np.int64), -1)

    @cached_property
    def runs(self) -> tuple[Array, Array]:
        """Where spans of another row or trace begin than the one before, and where they end."""
        if not len(self):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        columns = self.again()
        row, trace = columns["row"], columns["trace_lo"]
        is_new = (row[1:] != row[:-1]) | (trace[1:] != trace[:-1])
        begins = np.concatenate(([0], np.flatnonzero(is_new) + 1))
        return begins, np.append(begins[1:], len(row))


def read_segment(path: Path) -> Segment:
    """Maps a segment into memory. Raises TraceError if it is not one, or not in order.

    It is looked through in a mapping of its own, so that pages that nobody asks for again do not
    stay; what stays mapped is touched only where somebody asks.
    """
    try:
        rows, columns, texts = _mapped(path)
        facts = _look_through(rows, *_mapped(path)[1:])
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{path.name} is not a column segment: {error}") from None
    return Segment(path, rows, columns, texts, *facts)


_Mapped = tuple[tuple[RowKey, ...], dict[str, Array], dict[str, tuple[str, ...]]]


def _mapped(path: Path) -> _Mapped:
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    table = table.unify_dictionaries().combine_chunks()
    table.validate()
    rows = tuple(
        RowKey(str(row["task"]), str(row["lane"]), int(row["depth"]))
        for row in json.loads((table.schema.metadata or {})[ROWS_METADATA])
    )
    return rows, *_columns_of_table(table)


def _look_through(
    rows: Sequence[RowKey], columns: Mapping[str, Array], texts: Mapping[str, Sequence[str]]
) -> tuple[int, int, Array, Ended]:
    """Facts of a segment; ValueError if a span has a word or row that is not there, or no order."""
    if len(set(rows)) < len(rows) or not _is_in_order(columns, len(rows)):
        raise ValueError("it is not sorted by (row, start)")
    for name in TEXT_COLUMNS:
        codes = columns[name].view(np.uint32)  # so that a negative one is too large
        if len(codes) and int(codes.max()) >= len(texts[name]):
            raise ValueError(f"column {name} names words that are not there")
    start, end, flags = columns["start"], columns["end"], columns["flags"]
    flagged = np.flatnonzero(flags & NEVER_HIDDEN)
    return (
        int(start.min()) if len(start) else 0,
        int(end.max()) if len(end) else 0,
        flagged,
        _ended(columns, texts["kind"]),
    )


def _ended(columns: Mapping[str, Array], kinds: Sequence[str]) -> Ended:
    place = roots_of(columns, kinds)
    step, end = columns["step"][place], columns["end"][place]
    is_whole = (columns["flags"][place] & NEVER_HIDDEN) == 0
    at = np.argsort(end, kind="stable")[-LATEST:]
    latest = zip(end[at].tolist(), place[at].tolist(), step[at].tolist(), strict=True)
    return Ended(int(step[is_whole].max(initial=0)), tuple(latest))


def roots_of(columns: Mapping[str, Array], kinds: Sequence[str]) -> Array:
    """Where the roots of steps lie."""
    code = kinds.index(ROOT_KIND) if ROOT_KIND in kinds else -1
    found = np.flatnonzero(columns["kind"] == code)
    return found[columns["step"][found] > 0]


def _columns_of_table(table: Any) -> tuple[dict[str, Array], dict[str, tuple[str, ...]]]:
    columns: dict[str, Array] = {}
    texts: dict[str, tuple[str, ...]] = {}
    for name, type_name in NUMBER_COLUMNS.items():
        columns[name] = _one_chunk(table, name, pa.type_for_alias(type_name)).to_numpy()
    for name in TEXT_COLUMNS:
        chunk = _one_chunk(table, name, pa.dictionary(pa.int32(), pa.string()))
        columns[name] = chunk.indices.to_numpy()
        texts[name] = tuple(chunk.dictionary.to_pylist())
    return columns, texts


def _one_chunk(table: Any, name: str, kind: Any) -> Any:
    """The column as one array of the agreed type; copies nothing when it already is."""
    if name in ADDED and name not in table.column_names:
        return pa.array([ADDED[name]] * len(table)).cast(kind)
    column = table.column(name)
    if column.type != kind:
        column = column.cast(kind)
    if column.null_count:
        raise ValueError(f"column {name} has gaps")
    return column.chunk(0) if column.num_chunks == 1 else pa.array([], kind)


def _is_in_order(columns: Mapping[str, Array], num_rows: int) -> bool:
    row, start = columns["row"], columns["start"]
    if not len(row):
        return True
    falls = np.flatnonzero(start[1:] < start[:-1])  # where another row must begin
    changes = np.flatnonzero(row[1:] != row[:-1])
    is_rising = bool((row[changes + 1] > row[changes]).all())
    return is_rising and int(row[-1]) < num_rows and bool(np.isin(falls, changes).all())


def write_segment(
    path: Path,
    rows: Sequence[RowKey],
    numbers: Mapping[str, Array],
    texts: Mapping[str, tuple[Array, Sequence[str]]],
) -> None:
    """Writes columns (text as codes and words) in order of (row, start), atomically."""
    order = np.lexsort((numbers["start"], numbers["row"]))
    arrays = [
        pa.DictionaryArray.from_arrays(
            pa.array(texts[column.name][0][order], pa.int32()),
            pa.array(texts[column.name][1], pa.string()),
        )
        if column.type == "text"
        else pa.array(numbers[column.name][order], pa.type_for_alias(column.type))
        for column in COLUMN_LIST
    ]
    table = pa.Table.from_arrays(arrays, names=[column.name for column in COLUMN_LIST])
    table = table.replace_schema_metadata({ROWS_METADATA: json.dumps([r._asdict() for r in rows])})
    draft = path.with_name(path.name + ".part")
    with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    draft.replace(path)
