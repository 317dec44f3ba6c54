"""The form of a trace folder: names in it, its manifest, its columns.

NAME.trace/
  manifest.json                          what ran, on what, how it ended, three counts
  spans/<task>.<attempt>.otlp.jsonl.gz   every span with all attributes (OTLP/JSON lines)
  columns/<segment>.arrow                the same spans as sorted columns, for the store
  logs/<task>.log                        what each process printed
  index/                                 made by the store for foreign or unmerged spans
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from tracer.model.schema import SCHEMA_VERSION

MANIFEST = "manifest.json"
SPANS = "spans"
COLUMNS = "columns"
LOGS = "logs"
INDEX = "index"
SPANS_SUFFIX = ".otlp.jsonl.gz"
SEGMENT_SUFFIX = ".arrow"
STEM_LETTERS = 50  #: of a task's name in a file's; at most 4 bytes each, and 255 is the usual limit
SEGMENT_ROWS = 1_000_000  #: spans a segment holds at most
COLUMNS_FORMAT = 1  #: raised when COLUMNS changes in a way old readers cannot follow


class Column(NamedTuple):
    """One column of a segment; `type` is an Arrow type name, `text` is dictionary-coded."""

    name: str
    type: str
    says: str


#: Sort order of a segment: (row, start). Every segment holds all columns.
COLUMN_LIST: tuple[Column, ...] = (
    Column("row", "uint32", "index into the segment's row table: (task, lane, depth)"),
    Column("start", "int64", "ns since the epoch"),
    Column("end", "int64", "ns since the epoch; of an unfinished span, when it was last seen"),
    Column("ready", "int64", "ns since the epoch when an op had its inputs; 0: not recorded"),
    Column("wait", "int64", "ns of a recv or served RPC until the value existed; 0: none"),
    Column("bytes", "int64", "bytes the transport or kernel counted; 0: none"),
    Column("step", "uint32", "ordinal step number; 0: outside any step"),
    Column("kind", "text", "a kind of the schema; a foreign span's category"),
    Column("name", "text", "what is written on the bar: node, method, or kind"),
    Column("op", "text", "op type of op.run; empty otherwise"),
    Column("device", "text", "whole device name; empty otherwise"),
    Column("key", "text", "rendezvous key; empty otherwise"),
    Column("frame", "text", "name of the loop that the span is part of; empty outside loops"),
    Column("frame_id", "uint64", "which execution of that loop; 0 outside loops"),
    Column("iteration", "int64", "iteration of that loop, from 0; -1 outside loops"),
    Column("trace_hi", "uint64", "first half of the trace id"),
    Column("trace_lo", "uint64", "second half of the trace id"),
    Column("span", "uint64", "span id"),
    Column("parent", "uint64", "span id of the parent; 0: none"),
    Column("link", "uint64", "span id of the data link's other end (recv → send); 0: none"),
    Column("version", "int64", "variable version that an op read or wrote; -1: none"),
    Column("flags", "uint32", "bits of Flag"),
    Column("file", "text", "span file, relative to the folder"),
    Column("member", "int64", "byte offset of the gzip member (or 0) that holds the span"),
    Column("line", "uint32", "line within that member"),
)

#: Key of the segment's schema metadata that holds its rows as JSON: [{task, lane, depth}]
ROWS_METADATA = b"vizdist.rows"


class Flag:
    """Bits of the column `flags`."""

    ERROR = 1
    UNFINISHED = 2
    DEAD = 4
    REMOTE = 8
    CONTROL = 16
    ORPHAN = 32
    CYCLE = 64
    DEFERRED = 128
    CLIENT_EDGE = 256  #: a feed or a fetch
    DROPPED = 512  #: the op left out what it was given: a stale gradient


@dataclass(slots=True)
class TaskRecord:
    """What the manifest says of one process or in-process task."""

    task: str
    pid: int
    address: str = ""
    devices: list[str] = field(default_factory=list)
    outcome: str = "running"  #: running | done | failed | killed | lost
    error: str = ""
    restarts: list[str] = field(default_factory=list)  #: how each life before this one ended
    recorded: int = 0
    written: int = 0
    last_seen_ns: int = 0


@dataclass(slots=True)
class Manifest:
    """manifest.json. `outcome` is running, done, failed or interrupted; counts are of spans."""

    run_id: str
    schema_version: str = SCHEMA_VERSION
    host: str = ""
    command: list[str] = field(default_factory=list)
    workload: str = ""
    strategy: str = ""
    cluster: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    tasks: list[TaskRecord] = field(default_factory=list)
    started_ns: int = 0
    ended_ns: int = 0
    steps: int = 0
    seed: int = 0
    outcome: str = "running"
    error: str = ""
    recorded: int = 0
    written: int = 0
    unrecorded_steps: int = 0  #: for want of room; `stopped` says of which
    stopped: str = ""
    export: dict[str, Any] = field(default_factory=dict)  #: endpoint, exported, not_exported, error
    options: dict[str, str] = field(default_factory=dict)
    clocks: dict[str, dict[str, int]] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> str:
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"
        return text.encode(errors="replace").decode()  # a path may hold what is no text

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what it knows and ignores the rest; raises ValueError if there is no run id."""
        raw: Mapping[str, Any] = json.loads(text)
        if not isinstance(raw, dict) or not isinstance(raw.get("run_id"), str):
            raise ValueError('a manifest is a JSON object with a text "run_id"')
        known = {k: v for k, v in raw.items() if k in cls.__dataclass_fields__}
        tasks = [
            TaskRecord(**{k: v for k, v in t.items() if k in TaskRecord.__dataclass_fields__})
            for t in known.pop("tasks", [])
        ]
        return cls(**known, tasks=tasks)


def manifest_path(folder: Path) -> Path:
    return folder / MANIFEST


def spans_path(folder: Path, task: str, attempt: int) -> Path:
    return folder / SPANS / f"{file_stem(task)}.{attempt}{SPANS_SUFFIX}"


def log_path(folder: Path, task: str) -> Path:
    return folder / LOGS / f"{file_stem(task)}.log"


def file_stem(task: str) -> str:
    """`worker:0` is written `worker-0`: a colon is not a letter everywhere.

    A task of a foreign trace may have any name, but no name leads out of the folder or is too long
    for a file system. Two tasks may share a stem.
    """
    return re.sub(r"^\.+|[^\w. -]", "-", task)[:STEM_LETTERS] or "-"
