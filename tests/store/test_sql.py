"""SQL answers from the mapped columns, and cannot read, write, change or outlast anything else."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.sample_trace import move_segment, training_step, write_trace
from vizdist.store.sql import MAX_LETTERS, PLACE_SECONDS, SqlError, run_sql
from vizdist.store.sql_process import QueryError, answer, open_tables
from vizdist.store.trace import Trace, open_trace

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Three steps in two segments."""
    folder = tmp_path_factory.mktemp("runs")
    two = [span for n in (1, 2) for span in training_step(n, at=n * 2000)]
    path = write_trace(folder / "mlp.trace", two)
    move_segment(write_trace(folder / "more.trace", training_step(3, at=6000)), path)
    return open_trace(path)


@pytest.fixture(scope="module")
def tables(trace: Trace) -> Iterator[Any]:
    """What the process of a query has, without its locks."""
    with open_tables([segment.path for segment in trace.segments]) as connection:
        yield connection


def rows(trace: Trace, sql: str, **bounds: Any) -> list[list[Any]]:
    found: list[list[Any]] = run_sql(trace, sql, **bounds)["rows"]
    return found


def test_all_segments_are_one_table(trace: Trace) -> None:
    sql = "SELECT task, kind, count(*), sum(duration) FROM spans GROUP BY ALL ORDER BY ALL LIMIT 3"
    assert rows(trace, sql) == [
        ["ps:0", "op.run", 6, 450],
        ["ps:0", "rendezvous.send", 3, 30],
        ["ps:0", "rpc.server", 3, 330],
    ]


def test_words_ids_and_times_are_as_everywhere(trace: Trace) -> None:
    sql = """SELECT name, lane, span, start, step, version, key LIKE '%edge_1_w%'
             FROM spans WHERE kind = 'rendezvous.recv' AND step = 3"""
    detail = trace.span(303)
    assert rows(trace, sql) == [["w", "recv", detail.id, str(detail.start), 3, -1, True]]


def test_rows_beyond_the_most_are_cut_and_said(trace: Trace) -> None:
    told = run_sql(trace, "SELECT name FROM spans", max_rows=5)
    assert (len(told["rows"]), told["is_cut"]) == (5, True)
    assert not run_sql(trace, "SELECT count(*) FROM rows")["is_cut"]


def test_a_mistake_is_said_in_the_words_of_the_engine(trace: Trace) -> None:
    with pytest.raises(SqlError, match="nmae"):
        rows(trace, "SELECT nmae FROM spans")


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH 'x.db'",
        "INSTALL httpfs",
        "LOAD json",
        "COPY spans TO '/tmp/x.csv'",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "EXPORT DATABASE '/tmp/x'",
        "PRAGMA database_list",
        "SET memory_limit = '9GB'",
        "RESET lock_configuration",
        "CREATE TABLE x AS SELECT 1",
        "DROP VIEW spans",
        "CALL pragma_version()",
        "SELECT 1; DROP VIEW spans",
        "",
    ],
)
def test_only_one_select_is_allowed(tables: Any, sql: str) -> None:
    with pytest.raises(QueryError, match="one SELECT is allowed"):
        answer(tables, sql, 10, 5)


@pytest.mark.parametrize(
    "source",
    [
        "read_text('{file}')",
        "read_csv('{file}')",
        "read_blob('{file}')",
        "glob('/*')",
        "arrow_scan(1, 2, 3)",
        "pandas_scan(1)",
        "query('SELECT 1')",
        "query_table('rows')",
        "duckdb_settings()",
        "json_execute_serialized_sql('x')",
    ],
)
def test_no_function_reads_what_is_not_the_trace(tables: Any, tmp_path: Path, source: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hidden")
    asked = source.format(file=secret)
    for sql in (
        f"SELECT * FROM {asked}",
        f"WITH a AS (SELECT * FROM {asked}) SELECT (SELECT count(*) FROM a)",
        f"SELECT 1 WHERE EXISTS (FROM {asked})",
    ):
        with pytest.raises(QueryError, match="is not allowed in FROM") as refused:
            answer(tables, sql, 10, 5)
        assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("name", ["'{file}'", "{file}", "trace", "segments", "paths", "job"])
def test_no_file_and_no_variable_is_a_table(tables: Any, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("hidden")
    with pytest.raises(QueryError) as refused:
        answer(tables, f"SELECT * FROM {name.format(file=secret)}", 10, 5)
    assert "hidden" not in str(refused.value)


def test_the_process_of_a_query_can_open_no_file(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("hidden")
    script = "from vizdist.store.sql_process import lock; lock(); open('secret.txt')"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert b"Too many open files" in done.stderr


@pytest.mark.parametrize(
    "sql",
    [
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r",
        "SELECT count(*) FROM range(1000000000000)",
    ],
)
def test_what_would_never_end_is_ended(trace: Trace, sql: str) -> None:
    with pytest.raises(SqlError, match=r"more than 0.5 s"):
        rows(trace, sql, seconds=0.5)


@pytest.mark.parametrize(
    "sql",
    ["SELECT length(repeat('x', 3000000000))", "SELECT list(n) FROM range(1000000000) r(n)"],
)
def test_what_needs_all_memory_gets_none(trace: Trace, sql: str) -> None:
    with pytest.raises(SqlError, match="memory"):
        rows(trace, sql)


def test_who_finds_no_place_is_refused_soon_and_holds_no_thread(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = []

    class NoPlace:
        def acquire(self, timeout: float) -> bool:
            waited.append(timeout)
            return False

    monkeypatch.setattr("vizdist.store.sql._PLACES", NoPlace())
    with pytest.raises(SqlError, match="2 queries run already; ask again when one has ended"):
        rows(trace, "SELECT 1", seconds=9.0)
    assert waited == [PLACE_SECONDS]
    assert PLACE_SECONDS < 1


def test_a_novel_is_no_query(trace: Trace) -> None:
    with pytest.raises(SqlError, match="has at most 10,000 letters"):
        rows(trace, "SELECT 1" + " " * MAX_LETTERS)


def test_a_trace_without_spans_has_empty_tables(tmp_path: Path) -> None:
    trace = open_trace(write_trace(tmp_path / "x.trace", []))
    assert rows(trace, "SELECT count(*), any_value(task) FROM spans") == [[0, None]]
