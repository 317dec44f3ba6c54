"""OTLP traces from anywhere: JSON lines or one JSON document, protobuf, each also as gzip."""

import codecs
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from vizdist.store.gzip_members import FileBlocks
from vizdist.store.importing import DETAILS_FILE, Sink, head_of_file
from vizdist.store.otlp_columns import StandardSpans
from vizdist.store.otlp_proto import spans_of_message
from vizdist.store.otlp_reader import Line, SpanFile
from vizdist.store.otlp_record import Place, record_of, task_of
from vizdist.store.otlp_spans import iterate_spans
from vizdist.store.problems import refusal
from vizdist.store.reading import Reading
from vizdist.store.text_repair import mend

DOCUMENT_BYTES = 2 << 30  #: a single document is read whole; a larger one is refused
_MARKS = (b'"resourceSpans"', b'"resource_spans"')

Pair = tuple[dict[str, Any], dict[str, Any]]


def sniff(path: Path) -> bool:
    head = head_of_file(path)
    return any(mark in head for mark in _MARKS) or _is_protobuf(path, head)


def _is_protobuf(path: Path, head: bytes) -> bool:
    """ExportTraceServiceRequest, TracesData (field 1, a message) or the file exporter's records."""
    suffixes = {suffix.lower() for suffix in path.suffixes}
    return bool(suffixes & {".pb", ".proto", ".binpb"}) and head[:1] in (b"\n", b"\0")


def load(path: Path, sink: Sink) -> None:
    head = head_of_file(path)
    if not any(mark in head for mark in _MARKS):
        _load_document(path, sink, _read_protobuf(path, sink))
    elif has_lines(path):
        load_lines(path, sink, path.name)
    else:
        _load_document(path, sink, _read_json(path, sink))


def has_lines(path: Path) -> bool:
    """Whether every line is a document of its own."""
    if ".jsonl" in path.suffixes:
        return True
    first, _, rest = head_of_file(path).partition(b"\n")
    if not rest.strip():
        return False
    try:
        orjson.loads(first.removeprefix(codecs.BOM_UTF8))
    except orjson.JSONDecodeError:
        return False
    return True


def load_lines(path: Path, sink: Sink, name: str, file_task: str = "") -> None:
    """A file of JSON lines; its spans point to their lines, so no details are copied.

    `name` is the file as the column `file` has it, `file_task` whose spans it holds if nothing says
    so.
    """
    reader = SpanFile(path, sink.limit)
    sink.reading = Reading(path, lambda: reader.offset)
    sink.say("line", add_lines(reader.lines(salvage=True), sink, name, file_task), name)
    sink.say("damaged" if reader.damage else "torn", reader.unread, name)


def add_lines(lines: Iterable[Line], sink: Sink, name: str, file_task: str = "") -> int:
    """Adds the spans of some lines; returns how many lines hold none that can be read.

    One that is not whole is no bad line yet: it is told as the torn end of its file.
    """
    bad = 0
    standard = StandardSpans(sink, name, file_task)
    for line in lines:
        text = line.text.strip()
        if not text:
            continue
        place = Place(name, line.member, line.line)
        if standard.add(text, place):
            continue
        document = _parse(text, sink, name)
        if document is not None:
            _add_all(iterate_spans(document), sink, name, place, file_task)
        elif line.whole:
            bad += 1
        else:
            sink.say("torn", len(line.text), name)
    standard.close()
    return bad


def _add_all(
    pairs: Iterable[Pair], sink: Sink, name: str, place: Place | None, file_task: str = ""
) -> None:
    """Adds spans that lie at `place`, or whose details are copied because they lie nowhere."""
    last: object = None
    task = ""
    for resource, span in pairs:
        if resource is not last:
            last, task = resource, task_of(resource, file_task)
        sink.add(record_of(span, task, place or Place(DETAILS_FILE, *sink.details.add(span))), name)


def _parse(text: bytes, sink: Sink, name: str) -> Any:
    """A JSON text, mended if need be; None if it is beyond repair."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        mended, repairs = mend(text)
    try:
        document = orjson.loads(mended)
    except orjson.JSONDecodeError:
        return None
    for kind, count in repairs.items():
        sink.say(kind, count, name)
    return document


def _load_document(path: Path, sink: Sink, pairs: Iterable[Pair]) -> None:
    _add_all(pairs, sink, path.name, None)


def _read_json(path: Path, sink: Sink) -> Iterator[Pair]:
    document = _parse(_read_whole(path, sink), sink, path.name)
    if document is None:
        raise refusal("not-json", path.name)
    for part in document if isinstance(document, list) else [document]:
        yield from iterate_spans(part)


def _read_protobuf(path: Path, sink: Sink) -> Iterator[Pair]:
    data = _read_whole(path, sink)
    if data.startswith(b"\n"):
        yield from spans_of_message(data, path.name)
        return
    at = 0
    while at + 4 <= len(data):
        (size,) = struct.unpack_from(">I", data, at)
        yield from spans_of_message(data[at + 4 : at + 4 + size], path.name)
        at += 4 + size


def _read_whole(path: Path, sink: Sink) -> bytes:
    blocks = FileBlocks(path, sink.limit)
    parts, total = [], 0
    for block in blocks:
        parts.append(block)
        total += len(block)
        if total > DOCUMENT_BYTES:
            raise refusal("document", path.name, f"{DOCUMENT_BYTES >> 20:,} MiB")
    sink.say("torn", blocks.torn, path.name)
    return b"".join(parts)
