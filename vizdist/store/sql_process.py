"""The process that answers one SQL query over the mapped columns of a trace, and then ends.

It reads what to do from its standard input and writes the answer to its standard output, as JSON.
Text that comes from a browser runs in it, so it is locked before it looks at that text: it may open
no file, write none, take no more memory than it needs, and it is killed when its time is over. One
SELECT is allowed, over the two tables below and the table functions that only count.

    spans   every span: the columns of the trace's segments, with task, lane, depth and duration
    rows    the rows of the timeline: row, task, lane, depth
"""

import resource
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import orjson
import pyarrow as pa

from tracer.model.trace_folder import COLUMN_LIST
from vizdist.store.row_order import row_order
from vizdist.store.segments import RowKey, Segment, read_segment

MEMORY_MB: Final = 512  #: of the query
PROCESS_MB: Final = 1536  #: of the whole process, mapped files not counted
CELL_LETTERS: Final = 2_000
ANSWER_BYTES: Final = 4 << 20
SAFE_INTEGER: Final = 1 << 53  #: larger ones are sent as text, as JavaScript would round them

CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "memory_limit": f"{MEMORY_MB}MB",
    "threads": "2",
}
#: Others read files, settings, other queries or, by address, this process's memory.
TABLE_FUNCTIONS: Final = frozenset({"range", "generate_series", "unnest"})
#: A span's place in its file is of no use here; ids are written as everywhere else.
_HIDDEN: Final = ("row", "file", "member", "line")
_IDS: Final = ("trace_hi", "trace_lo", "span", "parent", "link")


class QueryError(Exception):
    """A query that cannot be answered; the text says why."""


def open_tables(paths: Sequence[Path]) -> duckdb.DuckDBPyConnection:
    """A connection that holds the tables and can open nothing else any more."""
    connection = duckdb.connect(":memory:", config=CONFIG)
    segments = [segment for segment in map(read_segment, paths) if len(segment)]
    keys = sorted({row for segment in segments for row in segment.rows}, key=row_order)
    connection.register("rows_of_trace", _rows_table(keys))
    connection.execute("CREATE TABLE rows AS SELECT * FROM rows_of_trace")
    connection.register("recorded", _spans_table(segments, keys))
    connection.execute(f"CREATE VIEW spans AS {_spans_view()}")
    connection.execute("SET lock_configuration = true")
    return connection


def _rows_table(keys: Sequence[RowKey]) -> Any:
    columns = {
        "row": pa.array(range(len(keys)), pa.uint32()),
        "task": pa.array([key.task for key in keys], pa.string()),
        "lane": pa.array([key.lane for key in keys], pa.string()),
        "depth": pa.array([key.depth for key in keys], pa.int32()),
    }
    return pa.table(columns)


def _spans_table(segments: Sequence[Segment], keys: Sequence[RowKey]) -> Any:
    """The mapped columns themselves; of all but `row` nothing is copied."""
    place = {key: number for number, key in enumerate(keys)}
    tables = []
    for segment in segments:
        columns = {name: _column(segment, name) for name, *_ in COLUMN_LIST}
        own = np.array([place[key] for key in segment.rows], np.uint32)
        columns["row"] = pa.array(own[segment.columns["row"]])
        tables.append(pa.table(columns))
    return pa.concat_tables(tables) if tables else _empty_table()


def _column(segment: Segment, name: str) -> Any:
    cells = pa.array(segment.columns[name])
    if name not in segment.texts:
        return cells
    return pa.DictionaryArray.from_arrays(cells, pa.array(segment.texts[name], pa.string()))


def _empty_table() -> Any:
    kinds = {
        name: pa.string() if kind == "text" else pa.type_for_alias(kind)
        for name, kind, _ in COLUMN_LIST
    }
    return pa.schema(kinds.items()).empty_table()


def _spans_view() -> str:
    names = [column.name for column in COLUMN_LIST if column.name not in _HIDDEN]
    told = [f"format('{{:016x}}', {name}) AS {name}" if name in _IDS else name for name in names]
    return (
        f'SELECT task, lane, depth, "end" - start AS duration, {", ".join(_quoted(told))} '
        "FROM recorded JOIN rows USING (row)"
    )


def _quoted(names: Sequence[str]) -> Iterator[str]:
    """`end` is a word of SQL's own."""
    yield from ('"end"' if name == "end" else name for name in names)


def check(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raises QueryError unless it is one SELECT that asks nothing but tables."""
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(str(error)) from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise QueryError("one SELECT is allowed, and nothing else; the tables are spans and rows")
    tree = connection.execute("SELECT json_serialize_sql($1)", [sql]).fetchall()[0][0]
    parsed = orjson.loads(tree)
    if parsed.get("error"):
        raise QueryError(str(parsed.get("error_message", "it cannot be parsed")))
    for name in _table_functions(parsed):
        if name not in TABLE_FUNCTIONS:
            allowed = ", ".join(sorted(TABLE_FUNCTIONS))
            raise QueryError(f"{name}() is not allowed in FROM; allowed are {allowed}")


def _table_functions(tree: Any) -> Iterator[str]:
    """Names of the functions that stand where a table may; an unknown form has no name."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("type") == "TABLE_FUNCTION":
                function = node.get("function") or {}
                yield str(function.get("function_name", "")).lower()
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def answer(
    connection: duckdb.DuckDBPyConnection, sql: str, max_rows: int, seconds: float
) -> dict[str, Any]:
    """Columns and rows of a query; raises QueryError."""
    timer = threading.Timer(seconds, connection.interrupt)
    timer.start()
    begin = time.perf_counter()
    try:
        check(connection, sql)
        connection.execute(sql)
        rows = connection.fetchmany(max_rows + 1)
        columns = [{"name": one[0], "type": str(one[1])} for one in connection.description or ()]
    except duckdb.InterruptException:
        raise QueryError(f"it took more than {seconds:g} s; ask for less") from None
    except (duckdb.OutOfMemoryException, MemoryError):
        raise QueryError(f"it needs more than {MEMORY_MB} MB of memory; ask for less") from None
    except duckdb.Error as error:
        raise QueryError(str(error)) from None
    finally:
        timer.cancel()
    return {
        "columns": columns,
        "rows": [[_cell(cell) for cell in row] for row in rows[:max_rows]],
        "is_cut": len(rows) > max_rows,
        "ms": round((time.perf_counter() - begin) * 1000),
    }


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and -SAFE_INTEGER < value < SAFE_INTEGER:
        return value
    text = str(value)
    return text if len(text) <= CELL_LETTERS else text[:CELL_LETTERS] + "…"


def lock() -> None:
    """From here on no file can be opened or written, and memory is bounded."""
    for what, most in (
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, PROCESS_MB << 20),
    ):
        resource.setrlimit(what, (most, most))


def main() -> int:
    job: Mapping[str, Any] = orjson.loads(sys.stdin.buffer.read())
    connection = open_tables([Path(path) for path in job["segments"]])
    lock()
    try:
        told = answer(connection, job["sql"], job["max_rows"], job["seconds"])
    except QueryError as error:
        told = {"error": str(error)}
    text = orjson.dumps(told)
    if len(text) > ANSWER_BYTES:
        text = orjson.dumps({"error": "the answer is too large; ask for fewer or shorter cells"})
    sys.stdout.buffer.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
