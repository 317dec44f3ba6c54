"""Ad-hoc SQL over a trace: each query in a process of its own, which it cannot outlive or leave.

A query can ask for more memory and time than any setting of an engine bounds (one `repeat` takes
gigabytes and hears no interrupt), so the bounds are those of a process: see `sql_process`.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

import orjson

from vizdist.store.problems import TraceError
from vizdist.store.trace import Trace

SECONDS: Final = 10.0
START_SECONDS: Final = (
    20.0  #: what a busy machine may take to start the process and map the columns
)
MAX_ROWS: Final = 1000
MAX_LETTERS: Final = 10_000
AT_ONCE: Final = 2  #: each may use the processor for ten seconds
PLACE_SECONDS: Final = 0.25  #: who waits for a place holds a thread that tiles need

_PLACES = threading.BoundedSemaphore(AT_ONCE)


class SqlError(TraceError):
    """A query that was refused, failed or took too long; the text is ready for people."""


def run_sql(
    trace: Trace, sql: str, *, max_rows: int = MAX_ROWS, seconds: float = SECONDS
) -> dict[str, Any]:
    """{columns: [{name, type}], rows: [[cell, …]], is_cut, ms}. Raises SqlError."""
    if len(sql) > MAX_LETTERS:
        raise SqlError(f"a query has at most {MAX_LETTERS:,} letters; this has {len(sql):,}")
    if not _PLACES.acquire(timeout=PLACE_SECONDS):
        raise SqlError(f"{AT_ONCE} queries run already; ask again when one has ended")
    try:
        job = {
            "segments": [str(segment.path) for segment in trace.segments],
            "sql": sql,
            "max_rows": max_rows,
            "seconds": seconds,
        }
        return _ask(orjson.dumps(job), seconds)
    finally:
        _PLACES.release()


def _ask(job: bytes, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "vizdist.store.sql_process"]
    package = str(Path(__file__).parents[2])
    environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": package}
    environment |= {"MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command,
            input=job,
            capture_output=True,
            timeout=START_SECONDS + seconds,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SqlError(f"it took more than {seconds:g} s; ask for less") from None
    if done.returncode:
        raise SqlError(_last_words(done.returncode, done.stderr))
    answer: dict[str, Any] = orjson.loads(done.stdout)
    if "error" in answer:
        raise SqlError(answer["error"])
    return answer


def _last_words(code: int, errors: bytes) -> str:
    if b"is gone" in errors or b"is not a column segment" in errors:
        return "the run went on while its spans were read; ask again"
    reason = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"the query's process was ended by {reason}: it asked for too much memory, or worse"
