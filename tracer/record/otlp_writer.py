"""The span file: OTLP/JSON lines in gzip members, written from templates.

Spans that look alike (same site, row, fields and flags) share one template, so that a span costs
one formatting and its share of the compression. A line is one OTLP `TracesData`; ids are hex and
64-bit integers are text, as OTLP/JSON has them. A member is one append, so a reader meets whole
members.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
from isal import isal_zlib  # a fifth of zlib's CPU, and smaller

from tracer import __version__
from tracer.model.schema import SCHEMA_VERSION, SPAN_KINDS
from tracer.model.trace_folder import Flag
from tracer.record.drain import Annotation, Batch, Records, SiteInfo
from tracer.record.fields import (
    field_attributes,
    flag_attributes,
    present_bits,
    present_fields,
)
from tracer.record.lanes import row_text

LINE_SPANS: Final = 256
LINE_BYTES: Final = (
    256 << 10
)  #: a line is closed before it grows beyond, so that members stay small
GZIP_FORM: Final = 31  #: zlib's word for a gzip header and a 32 KiB window
MEMBER_BYTES: Final = 4 << 20  #: of text, before compression
OTEL_KIND: Final = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3}
_ERROR_STATUS = '"status":{"code":2}'


def quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def value_json(value: Any) -> str:
    """A clean attribute value as OTLP's AnyValue."""
    match value:
        case bool():
            return f'{{"boolValue":{"true" if value else "false"}}}'
        case int():
            return f'{{"intValue":"{value}"}}'
        case float():
            return f'{{"doubleValue":{_double(value)}}}'
        case list():
            return f'{{"arrayValue":{{"values":[{",".join(map(value_json, value))}]}}}}'
        case _:
            return f'{{"stringValue":{quoted(str(value))}}}'


def _double(value: float) -> str:
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return repr(value)


def attributes_json(attributes: Mapping[str, Any]) -> str:
    return ",".join(
        f'{{"key":{quoted(name)},"value":{value_json(value)}}}'
        for name, value in attributes.items()
    )


class Template(NamedTuple):
    """A %-format and the record fields it takes, in order. Its attributes come last."""

    text: str
    fields: tuple[str, ...]


def make_template(site: SiteInfo, row: int, bits: int, flags: int) -> Template:
    kind = SPAN_KINDS[site.kind]
    lane, depth = row_text(site.lane, row)
    static = {
        "vizdist.kind": site.kind,
        "vizdist.lane": lane,
        "vizdist.depth": depth,
        **site.attributes,
        **dict.fromkeys(flag_attributes(flags), True),
    }
    dynamic = list(field_attributes(site.kind, bits, flags))
    present = present_fields(bits)
    parts = ['"traceId":"%016x%016x","spanId":"%016x"']
    fields = ["trace_hi", "trace_lo", "span"]
    if "parent" in present:
        parts.append('"parentSpanId":"%016x"')
        fields.append("parent")
    parts.append(f'"name":{_literal(quoted(site.name))},"kind":{OTEL_KIND[kind.otel]}')
    parts.append('"startTimeUnixNano":"%d","endTimeUnixNano":"%d"')
    fields += ["start", "end"]
    if "link" in present:
        what = attributes_json({"link.kind": "data"})
        parts.append(f'"links":[{{"traceId":"%016x%016x","spanId":"%016x","attributes":[{what}]}}]')
        fields += ["trace_hi", "trace_lo", "link"]
    if flags & Flag.ERROR:
        parts.append(_ERROR_STATUS)
    attributes = [_literal(attributes_json(static))]
    for name, attribute in dynamic:
        value = '{"stringValue":%s}' if name == "key" else '{"intValue":"%d"}'
        attributes.append(f'{{"key":{_literal(quoted(attribute))},"value":{value}}}')
        fields.append(name)
    parts.append(f'"attributes":[{",".join(attributes)}]')
    return Template(f"{{{','.join(parts)}}}", tuple(fields))


def _literal(text: str) -> str:
    return text.replace("%", "%%")


def annotated(text: str, note: Annotation) -> str:
    """A span's JSON with the attributes and error of its annotation."""
    if note.attributes:
        text = f"{text[:-2]},{attributes_json(note.attributes)}]}}"
    if note.error:
        message = f'"status":{{"code":2,"message":{quoted(note.error)}}}'
        text = text.replace(_ERROR_STATUS, message, 1)
    return text


@dataclass(frozen=True, slots=True)
class Encoded:
    """Lines of a batch. Span `order[i]` of the batch stands in line `line_of[i]`."""

    order: npt.NDArray[np.int64]
    line_of: npt.NDArray[np.int64]
    lines: list[bytes]


class Encoder:
    """Encodes one recorder's spans; keeps its templates."""

    def __init__(self, resource: Mapping[str, Any]) -> None:
        told = {**resource, "vizdist.schema.version": SCHEMA_VERSION}
        self._head = (
            f'{{"resourceSpans":[{{"resource":{{"attributes":[{attributes_json(told)}]}},'
            f'"scopeSpans":[{{"scope":{{"name":"vizdist","version":"{__version__}"}},"spans":['
        )
        self._templates: dict[tuple[int, int, int, int], Template] = {}

    def encode(self, batch: Batch) -> Encoded:
        bits = present_bits(batch.records, batch.home.sites)
        alike = (batch.records["flags"], bits, batch.records["row"], batch.records["site"])
        order = np.lexsort(alike)
        changes = [np.flatnonzero(np.diff(column[order])) + 1 for column in alike]
        edges = np.unique(np.concatenate([[0], *changes, [len(order)]])).tolist()
        texts: list[str] = []
        for first, last in pairwise(edges):
            group = batch.records[order[first:last]]
            template = self._template(batch, group[0], int(bits[order[first]]))
            texts += _format(template, group, batch.home.keys)
        self._annotate(texts, batch, order)
        groups = list(_line_groups(texts))
        line_of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        return Encoded(order, line_of, [self._line(group) for group in groups])

    def _template(self, batch: Batch, record: Any, bits: int) -> Template:
        known = (int(record["site"]), int(record["row"]), bits, int(record["flags"]))
        if (template := self._templates.get(known)) is None:
            template = make_template(batch.home.sites[known[0]], *known[1:])
            self._templates[known] = template
        return template

    def _annotate(self, texts: list[str], batch: Batch, order: npt.NDArray[np.int64]) -> None:
        if not batch.annotations:
            return
        noted = np.fromiter(batch.annotations, np.uint64, len(batch.annotations))
        spans = batch.records["span"][order]
        for at in np.flatnonzero(np.isin(spans, noted)).tolist():
            texts[at] = annotated(texts[at], batch.annotations[int(spans[at])])

    def _line(self, texts: list[str]) -> bytes:
        return f"{self._head}{','.join(texts)}]}}]}}]}}\n".encode()


def _line_groups(texts: list[str]) -> Iterator[list[str]]:
    first = size = 0
    for at, text in enumerate(texts):
        if at > first and (at - first == LINE_SPANS or size + len(text) > LINE_BYTES):
            yield texts[first:at]
            first, size = at, 0
        size += len(text)
    yield texts[first:]


def _format(template: Template, group: Records, keys: list[str]) -> Iterator[str]:
    columns = [
        [_quoted_key(keys[key]) for key in group[name].tolist()]
        if name == "key"
        else group[name].tolist()
        for name in template.fields
    ]
    return map(template.text.__mod__, zip(*columns, strict=True))


@lru_cache(1 << 16)
def _quoted_key(text: str) -> str:
    return quoted(text)


class SpanFile:
    """One writer's file; nobody else ever appends to it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o644)
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes of whole members."""
        return self._size

    def append_all(self, texts: Iterable[bytes]) -> list[int]:
        """Writes a gzip member a text; returns their offsets. On OSError the file is as it was."""
        before = self._size
        try:
            return [self._append(text) for text in texts]
        except OSError:
            os.ftruncate(self._descriptor, before)
            self._size = before
            raise

    def _append(self, text: bytes) -> int:
        packer = isal_zlib.compressobj(1, isal_zlib.DEFLATED, GZIP_FORM)
        member = packer.compress(text) + packer.flush()
        offset = self._size
        num_written = os.write(self._descriptor, member)
        if num_written < len(member):
            raise OSError(f"only {num_written} of {len(member)} bytes could be written")
        self._size += len(member)
        return offset

    def close(self) -> None:
        os.close(self._descriptor)
