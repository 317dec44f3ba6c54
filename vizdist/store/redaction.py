"""Takes out of a trace what names somebody's machines, files, models and data.

Kept: times, sizes, counts, ids, kinds, op types, devices, tasks, RPC methods. Any other word gets
a pseudonym (`fc1/weight` → `n1/n2`), the same one wherever it stands, so that graph, wires
and spans still belong together. What is free text or of unknown meaning (errors, logs, events,
users' attributes, hosts, addresses, processes) is left out.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tracer.model.graph import CONTROL_LOOP
from tracer.model.graph_table import NodeRow, chunks_of_rows
from tracer.model.schema import COMMON_ATTRIBUTES, SPAN_KINDS
from tracer.model.trace_folder import Manifest
from vizdist.store.details import hex_id
from vizdist.store.graphs import stored_tables
from vizdist.store.otlp_record import task_of
from vizdist.store.otlp_spans import (
    NO_TIME,
    attributes_of,
    camel_keys,
    integer,
    key_values,
    number_of_id,
    objects,
    scopes_key,
)
from vizdist.store.trace import Trace

REDACTED: Final = "redacted"
#: digits; shorter numbers tell an index or a size, longer ones may tell anything
LONG_NUMBER: Final = 6

#: attributes whose text says nothing of whose run it was
KEPT_TEXTS: Final = frozenset(
    {
        "vizdist.kind", "vizdist.op", "vizdist.device", "vizdist.device.physical", "vizdist.peer",
        "vizdist.edge.kind", "vizdist.graph.id", "vizdist.graph.handle", "vizdist.graph.stage",
        "vizdist.session.handle", "vizdist.strategy", "rpc.system.name", "rpc.method",
        "rpc.response.status_code", "network.transport", "vizdist.frame.id", "vizdist.pass.name",
        "vizdist.fault", "vizdist.fault.kind", "vizdist.session.targets", "vizdist.partial_run",
    }
)  # fmt: skip
#: attributes whose words get pseudonyms
NAMING_TEXTS: Final = frozenset(
    {
        "vizdist.node", "vizdist.rendezvous.key", "vizdist.workload", "vizdist.lane",
        "vizdist.frame.name", "vizdist.pass.removed_nodes", "vizdist.pass.added_nodes",
        "vizdist.pass.changed_nodes",
    }
)  # fmt: skip
_SCHEMA_VERSION: Final = "vizdist.schema.version"
_LINK_KINDS: Final = ("data", "enclosing")

#: words of the runtime's own in names, keys, lanes and devices
_OWN_WORDS: Final = frozenset(
    re.findall(
        r"\S+",
        """job replica task device CPU GPU cpu cuda ps worker chief localhost client master launcher
        collector gradients train init loss update read Read Assign assign recv send feed feeds
        fetch fetches executor partition rpc edge learning_rate view step data stream copies
        loc weight bias caches channel worker_stub device_status client_graph graph_handle kernel
        recv_call recv_response rendezvous on""",
    )
)
_WORD = re.compile(
    r"\d+(?:\.\d+){3}"  # an address of IP, or of a network card, is one word
    r"|(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,}[0-9a-fA-F.]*"
    r"|[\w-]+"
)
_PREFIX = re.compile(rf"edge_\d+_|_(?:recv|send)_|update_|{CONTROL_LOOP}")
_SUFFIX = re.compile(r"(?:_[SG]?\d{1,5})+$")  # more digits may be anybody's number
_TOKEN = re.compile(r"[^\s,;()'\"]+")  # of a sentence
_TASK = re.compile(r"(?:ps|worker|chief|localhost):\d+|collector(?: \(\d+\))?|launcher|client")
KEY_PARTS: Final = 5  #: of a rendezvous key
_HEX_TEXT = re.compile(r"[0-9a-f]*")
_VERSION = re.compile(r"\d+\.\d+")
_OTEL_WORD = re.compile(r"(?:SPAN_KIND|STATUS_CODE)_[A-Z]+")


class AsItIs:
    """Changes nothing: what an export without `--redact` asks."""

    def text(self, text: str) -> str:
        return text

    def task(self, name: str) -> str:
        return name

    def kind(self, kind: str) -> str:
        return kind

    def document(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        return document

    def manifest(self, manifest: Manifest) -> Manifest:
        return manifest


class Redactor(AsItIs):
    """Of one trace. Not thread-safe; pseudonyms are numbered in order of appearance."""

    def __init__(self, trace: Trace) -> None:
        rows = [row for graph in trace.graphs for rows in graph.stages.values() for row in rows]
        self._nodes = {row.name for row in rows}
        self._is_foreign = trace.is_foreign
        ops = () if trace.is_foreign else (*trace.all.words["op"], *(row.op for row in rows))
        known = (*SPAN_KINDS, *ops, *filter(_TASK.fullmatch, trace.tasks))
        self._kept = _OWN_WORDS | {part for text in known for part in re.split(r"[./:]", text)}
        self._kept |= {word for text in known for word in _WORD.findall(text)}
        self._kept |= {kind.lane for kind in SPAN_KINDS.values()}
        self._kept |= set() if trace.is_foreign else _methods(trace) | _numbers(trace)
        self._pseudonyms: dict[str, str] = {}
        self._tables = dict(_new_chunks(trace, self))

    def text(self, text: str) -> str:
        """Each word that is not the runtime's own replaced; numbers and marks stay."""
        return _WORD.sub(lambda found: self._word(found[0]), text)

    def task(self, name: str) -> str:
        """A task of a cluster keeps its name; of a foreign one it may be a host or a command."""
        return name if _TASK.fullmatch(name) else f"task {self._word(name)}"

    def kind(self, kind: str) -> str:
        """A kind of the schema; a foreign category may be any text."""
        return kind if kind in SPAN_KINDS else self.text(kind)

    def _word(self, word: str) -> str:
        if prefix := _PREFIX.match(word):
            return prefix[0] + self._word(word[prefix.end() :])
        suffix = found[0] if (found := _SUFFIX.search(word)) else ""
        base = word.removesuffix(suffix)
        if (
            not base
            or (base.isdigit() and len(base) < LONG_NUMBER)
            or not self._kept.isdisjoint((word, base))
        ):
            return word
        known = self._pseudonyms
        return known.setdefault(base, f"n{len(known) + 1}") + suffix

    def row(self, row: NodeRow) -> NodeRow:
        """A node of a graph table."""
        return row._replace(
            name=self.text(row.name),
            inputs=tuple(map(self.text, row.inputs)),
            reason=_TOKEN.sub(self._in_sentence, row.reason),
            source="",
            attrs={name: self._value(value) for name, value in row.attrs.items()},
        )

    def _in_sentence(self, found: re.Match[str]) -> str:
        """Names in our own words of why a node was placed."""
        parts = re.split("[:@^]", found[0])
        is_name = "/" in found[0] or not self._nodes.isdisjoint(parts)
        return self.text(found[0]) if is_name else found[0]

    def _value(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case list() | tuple():
                return [self._value(item) for item in value]
            case dict():
                return {self.text(str(name)): self._value(item) for name, item in value.items()}
            case _:
                return value

    def document(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """An OTLP document without what is not known to be harmless."""
        return {
            "resourceSpans": [
                {
                    "resource": self._resource(camel_keys(resource_spans.get("resource"))),
                    "scopeSpans": [{"spans": list(self._spans(resource_spans))}],
                }
                for resource_spans in objects(camel_keys(document).get("resourceSpans"))
            ]
        }

    def _resource(self, resource: Mapping[str, Any]) -> dict[str, Any]:
        version = str(attributes_of(resource.get("attributes")).get(_SCHEMA_VERSION, ""))
        kept = {_SCHEMA_VERSION: version} if _VERSION.fullmatch(version) else {}
        task = self.task(task_of(resource, ""))
        return {"attributes": key_values(kept | {"vizdist.task": task})}

    def _spans(self, resource_spans: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Those of all scopes as of one, which says nothing of itself."""
        for scope in objects(resource_spans.get(scopes_key(resource_spans))):
            for span in objects(scope.get("spans")):
                yield self._span(span)

    def _span(self, span: Mapping[str, Any]) -> dict[str, Any]:
        attributes = attributes_of(span.get("attributes"))
        shown = dict(self._attributes(str(attributes.get("vizdist.kind", "")), attributes))
        shown |= self._tables.get(str(span.get("spanId", "")).lower(), {})
        times = ("startTimeUnixNano", "endTimeUnixNano")
        return {
            **_ids(span),
            **{name: str(integer(span.get(name), NO_TIME)) for name in times},
            **{name: n for name in ("kind", "flags") if _is_code(n := span.get(name))},
            "name": self.text(str(span.get("name", ""))),
            "links": list(map(_link, objects(span.get("links")))),
            "status": _status(camel_keys(span.get("status"))),
            "attributes": key_values(shown),
        }

    def _attributes(self, kind: str, attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        known = SPAN_KINDS.get(kind)
        units = {**COMMON_ATTRIBUTES, **(known.attributes if known else {})}
        for name, value in attributes.items():
            if name not in units:
                continue
            if name in NAMING_TEXTS or (name in KEPT_TEXTS and self._is_foreign):
                yield name, self.text(str(value))
            elif name in KEPT_TEXTS or _is_measure(value, units[name]):
                yield name, value

    def manifest(self, manifest: Manifest) -> Manifest:
        """What may be said of the run as a whole."""
        tasks = [
            replace(task, task=self.task(task.task), pid=0, address="", error=_hidden(task.error))
            for task in manifest.tasks
        ]
        run = hashlib.blake2b(manifest.run_id.encode(), digest_size=6).hexdigest()
        return Manifest(
            run_id=f"{REDACTED}-{run}",
            schema_version=manifest.schema_version,
            workload=self.text(manifest.workload),
            strategy=manifest.strategy,
            versions=manifest.versions,
            tasks=tasks,
            started_ns=manifest.started_ns,
            ended_ns=manifest.ended_ns,
            steps=manifest.steps,
            outcome=manifest.outcome,
            error=_hidden(manifest.error),
            recorded=manifest.recorded,
            written=manifest.written,
            unrecorded_steps=manifest.unrecorded_steps,
            stopped=_hidden(manifest.stopped),
            clocks={f"host {n}": c for n, c in enumerate(manifest.clocks.values(), 1)},
            totals=manifest.totals,
        )


def _methods(trace: Trace) -> set[str]:
    """Names of our services' methods."""
    spans = trace.all
    codes = spans.columns["name"][spans.is_kind("rpc.client", "rpc.server")]
    return {spans.words["name"][code] for code in np.unique(codes).tolist()}


def _numbers(trace: Trace) -> set[str]:
    """Incarnations and frame ids, which are random, as keys hold them."""
    parts = [key.split(";") for key in trace.all.words["key"]]
    every = {part[1] for part in parts if len(part) == KEY_PARTS}
    every |= {part[4].partition(":")[0] for part in parts if len(part) == KEY_PARTS}
    return {number for number in every if _HEX_TEXT.fullmatch(number)}


def _is_measure(value: Any, unit: str) -> bool:
    """Whether a value is a number of some unit, or an id, and no text in their place."""
    if unit == "hex" and isinstance(value, str):
        return _HEX_TEXT.fullmatch(value) is not None
    return bool(unit) and isinstance(value, bool | int | float)


def _hidden(text: str) -> str:
    return REDACTED if text else ""


def _link(link: Mapping[str, Any]) -> dict[str, Any]:
    kind = attributes_of(link.get("attributes")).get("link.kind")
    known = {"attributes": key_values({"link.kind": kind})} if kind in _LINK_KINDS else {}
    return _ids(link) | known


def _ids(span: Mapping[str, Any]) -> dict[str, str]:
    """As hex: what is no id may be any text."""
    lengths = {"traceId": 32, "spanId": 16, "parentSpanId": 16}
    return {
        name: f"{number_of_id(span[name], digits):0{digits}x}"
        for name, digits in lengths.items()
        if span.get(name)
    }


def _is_code(value: Any) -> bool:
    """A number, or a word of OpenTelemetry's own in its place."""
    return isinstance(value, int) or bool(isinstance(value, str) and _OTEL_WORD.fullmatch(value))


def _status(status: Mapping[str, Any]) -> dict[str, Any]:
    code = status.get("code")
    said = {"message": REDACTED} if status.get("message") else {}
    return ({"code": code} if _is_code(code) else {}) | said


def _new_chunks(trace: Trace, redactor: Redactor) -> Iterator[tuple[str, dict[str, Any]]]:
    """Span id of a `graph.chunk` → the piece of the redacted table that it carries instead.

    A table stays in as many pieces as it was, so that no span comes or goes.
    """
    for table in stored_tables(trace.all, trace.details_folder):
        rows = [redactor.row(row) for row in table.rows]
        chunks = chunks_of_rows(table.graph_id, table.stage, rows, pieces=len(table.spans))
        yield from zip(map(hex_id, table.spans), chunks, strict=True)
