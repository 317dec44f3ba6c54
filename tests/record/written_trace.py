"""A sink fed by real rings, and its output read back in the plainest way."""

import base64
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from tracer.model.trace_folder import COLUMN_LIST, COLUMNS, ROWS_METADATA, Manifest
from tracer.record.clock import FakeClock
from tracer.record.manifest import write_manifest
from tracer.record.recorder import Recorder
from tracer.record.sink import Sink


class WrittenTrace:
    """A trace folder, its scratch folder and the sink between them."""

    def __init__(
        self,
        folder: Path,
        wrote: Callable[[Path, int], None] = lambda _path, _size: None,
        **options: Any,
    ) -> None:
        self.folder, self.scratch = folder / "a.trace", folder / "scratch"
        self.folder.mkdir(parents=True)
        self.scratch.mkdir()
        self.options = options
        write_manifest(self.folder, Manifest("run"))
        self.sink = Sink(self.folder, self.scratch, wrote=wrote)

    def recorder(self, task: str = "worker:0") -> Recorder:
        return Recorder(self.scratch, task, clock=FakeClock(), **self.options)

    def finish(self) -> None:
        self.sink.turn(0, at_end=True)
        self.sink.close()
        self.sink.tell()


def members_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """(offset, text) of the gzip members of a file."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        engine = zlib.decompressobj(31)
        text = engine.decompress(data[at:])
        assert engine.eof
        yield at, text
        at = len(data) - len(engine.unused_data)


def lines_of(path: Path) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """(member, line, document) of a span file."""
    for offset, text in members_of(path):
        for number, line in enumerate(text.splitlines()):
            yield offset, number, json.loads(line)


def spans_in(document: dict[str, Any]) -> list[dict[str, Any]]:
    spans: list[dict[str, Any]] = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return spans


def as_proto(document: dict[str, Any]) -> TracesData:
    """Parses by protobuf's own JSON rules, which have base64 where OTLP has hex ids."""
    for span in spans_in(document):
        for owner in (span, *span.get("links", ())):
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in owner:
                    owner[name] = base64.b64encode(bytes.fromhex(owner[name])).decode()
    return json_format.ParseDict(document, TracesData())


def value(any_value: Any) -> Any:
    return getattr(any_value, any_value.WhichOneof("value"))


def segment_paths(trace: Path) -> list[Path]:
    return sorted((trace / COLUMNS).glob("*.arrow"))


def read_table(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the timeline and spans of a segment; checks its form on the way."""
    table = pa.ipc.open_file(path).read_all()
    assert table.column_names == [column.name for column in COLUMN_LIST]
    row, start = table.column("row").to_numpy(), table.column("start").to_numpy()
    assert np.array_equal(np.lexsort((start, row)), np.arange(len(row)))
    return json.loads(table.schema.metadata[ROWS_METADATA]), table.to_pylist()
