"""Lines of a span file as OTLP's protobuf request: what is exported is what the file holds."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

Raw = Mapping[str, Any]


def request_of(lines: Iterable[bytes]) -> ExportTraceServiceRequest:
    """The spans of these lines, in order."""
    documents = map(orjson.loads, lines)
    return ExportTraceServiceRequest(
        resource_spans=[
            _resource_spans(one) for document in documents for one in document["resourceSpans"]
        ]
    )


def num_spans(request: ExportTraceServiceRequest) -> int:
    scopes = (scope for one in request.resource_spans for scope in one.scope_spans)
    return sum(len(scope.spans) for scope in scopes)


def _resource_spans(raw: Raw) -> ResourceSpans:
    return ResourceSpans(
        resource=Resource(attributes=_attributes(raw["resource"])),
        scope_spans=[
            ScopeSpans(scope=InstrumentationScope(**one["scope"]), spans=map(_span, one["spans"]))
            for one in raw["scopeSpans"]
        ],
    )


def _span(raw: Raw) -> Span:
    span = Span(
        trace_id=bytes.fromhex(raw["traceId"]),
        span_id=bytes.fromhex(raw["spanId"]),
        parent_span_id=bytes.fromhex(raw.get("parentSpanId", "")),
        name=raw["name"],
        kind=raw["kind"],
        start_time_unix_nano=int(raw["startTimeUnixNano"]),
        end_time_unix_nano=int(raw["endTimeUnixNano"]),
        attributes=_attributes(raw),
        dropped_attributes_count=raw.get("droppedAttributesCount", 0),
        dropped_events_count=raw.get("droppedEventsCount", 0),
        dropped_links_count=raw.get("droppedLinksCount", 0),
    )
    if "links" in raw:
        span.links.extend(map(_link, raw["links"]))
    if "events" in raw:
        span.events.extend(map(_event, raw["events"]))
    if "status" in raw:
        span.status.CopyFrom(Status(**raw["status"]))
    return span


def _link(raw: Raw) -> Span.Link:
    return Span.Link(
        trace_id=bytes.fromhex(raw["traceId"]),
        span_id=bytes.fromhex(raw["spanId"]),
        trace_state=raw.get("traceState", ""),
        attributes=_attributes(raw),
        dropped_attributes_count=raw.get("droppedAttributesCount", 0),
    )


def _event(raw: Raw) -> Span.Event:
    return Span.Event(
        time_unix_nano=int(raw["timeUnixNano"]),
        name=raw["name"],
        attributes=_attributes(raw),
        dropped_attributes_count=raw.get("droppedAttributesCount", 0),
    )


def _attributes(owner: Raw) -> list[KeyValue]:
    found = []
    for item in owner.get("attributes", ()):
        ((kind, value),) = item["value"].items()
        if kind == "arrayValue":
            found.append(KeyValue(key=item["key"], value=_array(value)))
        else:
            found.append(_key_value(item["key"], kind, value))
    return found


@lru_cache(1 << 14)  # most attributes recur: kind, lane, device, op
def _key_value(key: str, kind: str, value: Any) -> KeyValue:
    return KeyValue(key=key, value=_any(kind, value))


def _array(raw: Raw) -> AnyValue:
    items = (next(iter(value.items())) for value in raw["values"])
    values = [_array(value) if kind == "arrayValue" else _any(kind, value) for kind, value in items]
    return AnyValue(array_value=ArrayValue(values=values))


def _any(kind: str, value: Any) -> AnyValue:
    """64-bit integers are text in OTLP/JSON, and so are the doubles that JSON cannot hold."""
    match kind:
        case "stringValue":
            return AnyValue(string_value=value)
        case "intValue":
            return AnyValue(int_value=int(value))
        case "doubleValue":
            return AnyValue(double_value=float(value))
        case "boolValue":
            return AnyValue(bool_value=value)
    raise ValueError(f"an attribute of kind {kind}")
