"""All of one span: its columns, and its attributes fetched from the span file on demand."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tracer.model.trace_folder import Flag
from vizdist.store.otlp_reader import read_lines
from vizdist.store.otlp_spans import attributes_of, camel_keys, iterate_spans, span_id_of
from vizdist.store.spans import Spans

FEW = 16  #: spans of a line that are cut out of it; for more the whole line is read
_DECODER = json.JSONDecoder()
_TRACE_ID = '{"traceId":"'
_BEFORE_ID = len(_TRACE_ID) + 32 + len('",')

FLAG_NAMES = {value: name.lower() for name, value in vars(Flag).items() if isinstance(value, int)}


@dataclass(frozen=True, slots=True)
class SpanDetail:
    """One span whole. Ids are 16 (32) hex digits, a frame's decimal as in keys, "" for none.

    Times are ns since the epoch.
    """

    index: int
    id: str
    trace_id: str
    parent: str
    link: str
    kind: str
    name: str
    op: str
    device: str
    key: str
    frame: str
    frame_id: str
    iteration: int
    task: str
    lane: str
    depth: int
    row: int
    step: int
    start: int
    end: int
    ready: int
    wait: int
    bytes: int
    version: int
    flags: tuple[str, ...]
    status: str
    attributes: Mapping[str, Any]
    events: tuple[Mapping[str, Any], ...]
    attributes_missing: bool


def hex_id(number: int) -> str:
    return f"{number:016x}" if number else ""


def flag_names(flags: int) -> tuple[str, ...]:
    return tuple(name for value, name in FLAG_NAMES.items() if flags & value)


def detail_of(spans: Spans, index: int, folder: Path) -> SpanDetail:
    """The span at a place in the table; `folder` is what the column `file` is relative to."""
    own = spans.take(np.array([index], np.int64)).columns
    number = {name: int(column[0]) for name, column in own.items()}
    text = {name: spans.words[name][number[name]] for name in spans.words}
    row = spans.rows[number["row"]]
    raw = raw_span(spans, index, folder)
    return SpanDetail(
        index=index,
        id=hex_id(number["span"]),
        trace_id=f"{number['trace_hi']:016x}{number['trace_lo']:016x}",
        parent=hex_id(number["parent"]),
        link=hex_id(number["link"]),
        kind=text["kind"],
        name=text["name"],
        op=text["op"],
        device=text["device"],
        key=text["key"],
        frame=text["frame"],
        frame_id=str(number["frame_id"] or ""),
        iteration=number["iteration"],
        task=row.task,
        lane=row.lane,
        depth=row.depth,
        row=number["row"],
        step=number["step"],
        start=number["start"],
        end=number["end"],
        ready=number["ready"],
        wait=number["wait"],
        bytes=number["bytes"],
        version=number["version"],
        flags=flag_names(number["flags"]),
        status=message_of(raw),
        attributes=attributes_of((raw or {}).get("attributes", ())),
        events=tuple(_event(event) for event in (raw or {}).get("events", ())),
        attributes_missing=raw is None,
    )


def message_of(raw: Mapping[str, Any] | None) -> str:
    """What a span says of its failure."""
    return str(camel_keys((raw or {}).get("status")).get("message") or "")


def _event(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "name": str(event.get("name", "")),
        "time": int(event.get("timeUnixNano", 0)),
        "attributes": attributes_of(event.get("attributes", ())),
    }


def raw_span(spans: Spans, index: int, folder: Path) -> Mapping[str, Any] | None:
    """The span as its file has it; None if the file or the line is gone."""
    return next(raw_spans(spans, [index], folder))[1]


def raw_spans(
    spans: Spans, places: Iterable[int], folder: Path
) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    """(place, span as its file has it); a gzip member is inflated once for all its spans."""
    wanted = list(map(int, places))
    taken = spans.take(np.array(wanted, np.int64))  # whole columns of a long run are large
    numbers = (taken.columns[name].tolist() for name in ("file", "member", "line", "span"))
    members: dict[tuple[int, int], dict[int, list[tuple[int, int]]]] = {}
    for place, file, member, line, span in zip(wanted, *numbers, strict=True):
        members.setdefault((file, member), {}).setdefault(line, []).append((place, span))
    for (file, member), lines in members.items():
        path = _inside(folder, spans.words["file"][file])
        texts = read_lines(path, member, lines.keys()) if path else {}
        for line, here in lines.items():
            known = _spans_of_line(texts.get(line, b""), {span for _, span in here})
            yield from ((place, known.get(span)) for place, span in here)


def _inside(folder: Path, name: str) -> Path | None:
    """The span file, unless it is gone or lies outside the trace."""
    path = (folder / name).resolve()
    is_there = bool(name) and path.is_relative_to(folder.resolve()) and path.is_file()
    return path if is_there else None


def _spans_of_line(text: bytes, ids: Collection[int]) -> dict[int, Mapping[str, Any]]:
    """The spans of these ids, if they are there. A few are cut out: a line may hold hundreds."""
    line = text.decode() if len(ids) <= FEW and text.isascii() else ""
    found: dict[int, Mapping[str, Any]]
    found = {one: span for one in ids if (span := _cut_out(line, one))}
    if len(found) < len(ids):
        found = {span_id_of(span): span for span in _all_of_line(text)}
    return found


def _cut_out(text: str, span: int) -> dict[str, Any] | None:
    """A span that begins as our writer's do; None for any other. Links begin alike."""
    ids = f'"spanId":"{span:016x}"'
    at = text.find(ids)
    while at >= 0:
        begin = at - _BEFORE_ID
        if begin >= 0 and text.startswith(_TRACE_ID, begin):
            try:
                found, _ = _DECODER.raw_decode(text, begin)
            except (ValueError, RecursionError):
                return None
            if "startTimeUnixNano" in found:
                return dict(found)
        at = text.find(ids, at + 1)
    return None


def _all_of_line(text: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return
    for _, span in iterate_spans(document):
        yield span
