"""The span file: OTLP/JSON lines in gzip members, written from templates.

Spans that look alike (same site, row, fields and flags) share one template, so that a span costs
one formatting and its share of the compression. A line is one OTLP `TracesData`; ids are hex and
64-bit integers are text, as OTLP/JSON has them. A member is one append, so a reader meets whole
members.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
from isal import isal_zlib  # a fifth of zlib's CPU, and smaller

from tracer import __version__
from tracer.model.schema import SCHEMA_VERSION, SPAN_KINDS
from tracer.model.trace_folder import Flag
from tracer.record.drain import Annotation, Batch, HomeReader, Records, SiteInfo
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
OTEL_KIND: Final = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_VALUES: Final = {"key": '{"stringValue":%s}', "frame": '{"stringValue":"%d"}'}  #: by field
_ERROR_STATUS = '"status":{"code":2}'
_LINKS = '"links":['
_NAME = re.compile(r'"name":"(?:[^"\\]|\\.)*"')  # the first in a span is its own


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
    otel = OTEL_KIND[site.origin.get("otel", kind.otel)]
    parts.append(f'"name":{_literal(quoted(site.name))},"kind":{otel}')
    parts.append('"startTimeUnixNano":"%d","endTimeUnixNano":"%d"')
    fields += ["start", "end"]
    if "link" in present:
        what = attributes_json({"link.kind": "data"})
        parts.append(f'{_LINKS}{{"traceId":"%016x%016x","spanId":"%016x","attributes":[{what}]}}]')
        fields += ["trace_hi", "trace_lo", "link"]
    if flags & Flag.ERROR:
        parts.append(_ERROR_STATUS)
    attributes = [_literal(attributes_json(static))]
    for name, attribute in dynamic:
        value = _VALUES.get(name, '{"intValue":"%d"}')
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
    if note.name:
        text = _NAME.sub(lambda _: f'"name":{quoted(note.name)}', text, count=1)
    if note.links and _LINKS in text:
        text = text.replace(_LINKS, f"{_LINKS}{_links_json(note)},", 1)
    elif note.links:
        text = _with(text, f"{_LINKS}{_links_json(note)}]")
    for more in _more_json(note):
        text = _with(text, more)
    return text


def _with(text: str, more: str) -> str:
    return f"{text[:-1]},{more}}}"


def _links_json(note: Annotation) -> str:
    return ",".join(
        f'{{"traceId":"{trace}","spanId":"{span}",{_carried_json(attributes, dropped)}}}'
        for trace, span, attributes, dropped in note.links
    )


def _more_json(note: Annotation) -> Iterator[str]:
    """What only users' spans carry."""
    if note.events:
        yield f'"events":[{",".join(starmap(_event_json, note.events))}]'
    if note.is_ok:
        yield '"status":{"code":1}'
    for what, number in note.dropped.items():
        yield f'"dropped{what.capitalize()}Count":{number}'


def _event_json(when: int, name: str, attributes: Mapping[str, Any], dropped: int) -> str:
    told = f'"timeUnixNano":"{when}","name":{quoted(name)}'
    return f"{{{told},{_carried_json(attributes, dropped)}}}"


def _carried_json(attributes: Mapping[str, Any], dropped: int) -> str:
    """The attributes of an event or link."""
    count = f',"droppedAttributesCount":{dropped}' if dropped else ""
    return f'"attributes":[{attributes_json(attributes)}]{count}'


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
        self._resource = f'{{"attributes":[{attributes_json(told)}]}}'
        self._heads = [self._head("vizdist", __version__)]  #: of a line, by number of the scope
        self._scopes: dict[tuple[str, str], int] = {}
        self._scope_of = np.zeros(0, np.int64)  #: by site
        self._templates: dict[tuple[int, int, int, int], Template] = {}

    def _head(self, scope: str, version: str) -> str:
        told = f'{{"name":{quoted(scope)},"version":{quoted(version)}}}'
        return (
            f'{{"resourceSpans":[{{"resource":{self._resource},'
            f'"scopeSpans":[{{"scope":{told},"spans":['
        )

    def _scopes_of(self, batch: Batch) -> npt.NDArray[np.int64]:
        """The scope of each span: 0 is ours, users' spans have others."""
        if new := batch.home.sites[len(self._scope_of) :]:
            numbers = [self._scope_number(site.origin) if site.origin else 0 for site in new]
            self._scope_of = np.concatenate([self._scope_of, np.array(numbers, np.int64)])
        of_spans: npt.NDArray[np.int64] = self._scope_of[batch.records["site"]]
        return of_spans

    def _scope_number(self, origin: Mapping[str, str]) -> int:
        known = origin["scope"], origin["version"]
        if known not in self._scopes:
            self._scopes[known] = len(self._heads)
            self._heads.append(self._head(*known))
        return self._scopes[known]

    def encode(self, batch: Batch) -> Encoded:
        scopes = self._scopes_of(batch)
        bits = present_bits(batch.records, batch.home.sites, batch.home.keys)
        told = batch.records
        alike = (told["flags"], bits, told["row"], told["site"], scopes)
        order = np.lexsort(alike)
        changes = [np.flatnonzero(np.diff(column[order])) + 1 for column in alike]
        edges = np.unique(np.concatenate([[0], *changes, [len(order)]])).tolist()
        texts: list[str] = []
        for first, last in pairwise(edges):
            group = batch.records[order[first:last]]
            template = self._template(batch, group[0], int(bits[order[first]]))
            texts += _format(template, group, batch.home)
        self._annotate(texts, batch, order)
        scopes = scopes[order]
        ends = list(_line_ends(texts, scopes))
        sizes = [last - first for first, last in pairwise(ends)]
        lines = [
            f"{self._heads[scopes[first]]}{','.join(texts[first:last])}]}}]}}]}}\n".encode()
            for first, last in pairwise(ends)
        ]
        return Encoded(order, np.repeat(np.arange(len(lines)), sizes), lines)

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


def _line_ends(texts: list[str], scopes: npt.NDArray[np.int64]) -> Iterator[int]:
    """Where lines begin and end: a line has one scope and is neither long nor large."""
    changes = {0, *(np.flatnonzero(np.diff(scopes)) + 1).tolist()}
    first = size = 0
    for at, text in enumerate(texts):
        if at in changes or at - first == LINE_SPANS or size + len(text) > LINE_BYTES:
            yield at
            first, size = at, 0
        size += len(text)
    yield len(texts)


def _format(template: Template, group: Records, home: HomeReader) -> Iterator[str]:
    columns = [_column(name, group, home) for name in template.fields]
    return map(template.text.__mod__, zip(*columns, strict=True))


def _column(name: str, group: Records, home: HomeReader) -> list[Any]:
    match name:
        case "key":
            return list(map(_quoted_key, home.keys.texts(group["key"])))
        case "frame":
            return list(home.keys.frames(group["key"]).tolist())
        case "iteration":
            return list(home.keys.iterations(group["key"]).tolist())
        case _:
            return list(group[name].tolist())


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
