"""Segments: spans as sorted Arrow columns on disk, memory-mapped; written for foreign files."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracer.model.trace_folder import COLUMN_LIST, ROWS_METADATA
from vizdist.store.problems import TraceError

Array = npt.NDArray[Any]

TEXT_COLUMNS = tuple(column.name for column in COLUMN_LIST if column.type == "text")
NUMBER_COLUMNS = {column.name: column.type for column in COLUMN_LIST if column.type != "text"}


class RowKey(NamedTuple):
    """A row of the timeline: nothing in it overlaps."""

    task: str
    lane: str
    depth: int


@dataclass(frozen=True, slots=True)
class Segment:
    """One file's spans, sorted by (row, start).

    `columns` holds every column of COLUMN_LIST; text columns as codes into `texts`. `row` counts in
    `rows`.
    """

    rows: tuple[RowKey, ...]
    columns: Mapping[str, Array]
    texts: Mapping[str, tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.columns["row"])


def read_segment(path: Path) -> Segment:
    """Maps a segment into memory. Raises TraceError if it is not one, or not in order."""
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        table = table.unify_dictionaries().combine_chunks()
        table.validate(full=True)
        rows = tuple(
            RowKey(str(row["task"]), str(row["lane"]), int(row["depth"]))
            for row in json.loads((table.schema.metadata or {})[ROWS_METADATA])
        )
        columns, texts = _columns_of_table(table)
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{path.name} is not a column segment: {error}") from None
    segment = Segment(rows, columns, texts)
    if len(set(rows)) < len(rows) or not _is_in_order(segment):
        raise TraceError(f"{path.name} is not sorted by (row, start)")
    return segment


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
    column = table.column(name)
    if column.type != kind:
        column = column.cast(kind)
    if column.null_count:
        raise ValueError(f"column {name} has gaps")
    return column.chunk(0) if column.num_chunks == 1 else pa.array([], kind)


def _is_in_order(segment: Segment) -> bool:
    row, start = segment.columns["row"], segment.columns["start"]
    if not len(row):
        return True
    if int(row[-1]) >= len(segment.rows):
        return False
    later_row = row[1:] > row[:-1]
    same_row = row[1:] == row[:-1]
    return bool(np.all(later_row | (same_row & (start[1:] >= start[:-1]))))


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


def read_segments(paths: Iterable[Path]) -> list[Segment]:
    return [segment for path in sorted(paths) if len(segment := read_segment(path))]
