"""All of one span: its columns, and its attributes fetched from the span file on demand."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tracer.model.trace_folder import Flag
from vizdist.store.otlp_reader import read_line
from vizdist.store.otlp_spans import attributes_of, iterate_spans, span_id_of
from vizdist.store.spans import Spans

FLAG_NAMES = {value: name.lower() for name, value in vars(Flag).items() if isinstance(value, int)}


@dataclass(frozen=True, slots=True)
class SpanDetail:
    """One span whole. Ids are 16 (32) hex digits, "" for none; times are ns since the epoch."""

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
    row = spans.rows[int(spans.row[index])]
    raw = raw_span(spans, index, folder)
    text = {name: spans.words[name][int(spans.columns[name][index])] for name in spans.words}
    number = {name: int(column[index]) for name, column in spans.columns.items()}
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
        status=str((raw or {}).get("status", {}).get("message", "")),
        attributes=attributes_of((raw or {}).get("attributes", ())),
        events=tuple(_event(event) for event in (raw or {}).get("events", ())),
        attributes_missing=raw is None,
    )


def _event(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "name": str(event.get("name", "")),
        "time": int(event.get("timeUnixNano", 0)),
        "attributes": attributes_of(event.get("attributes", ())),
    }


def raw_span(spans: Spans, index: int, folder: Path) -> Mapping[str, Any] | None:
    """The span as its file has it; None if the file or the line is gone."""
    name = spans.words["file"][int(spans.columns["file"][index])]
    path = (folder / name).resolve()
    if not name or not path.is_relative_to(folder.resolve()) or not path.is_file():
        return None
    text = read_line(path, int(spans.columns["member"][index]), int(spans.columns["line"][index]))
    wanted = int(spans.span[index])
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return next((s for _, s in iterate_spans(document) if span_id_of(s) == wanted), None)
