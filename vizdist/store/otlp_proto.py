"""OTLP protobuf messages as the same mappings that OTLP/JSON gives."""

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from vizdist.store.problems import refusal

_VALUE_NAMES = {
    "string_value": "stringValue",
    "bool_value": "boolValue",
    "int_value": "intValue",
    "double_value": "doubleValue",
}


def spans_of_message(data: bytes, name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every (resource, span) of a TracesData or ExportTraceServiceRequest (the same form)."""
    message = TracesData()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise refusal("not-protobuf", name) from None
    for resource_spans in message.resource_spans:
        resource = {"attributes": _attributes(resource_spans.resource.attributes)}
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                yield resource, _span(span)


def _span(span: Span) -> dict[str, Any]:
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex(),
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": span.start_time_unix_nano,
        "endTimeUnixNano": span.end_time_unix_nano,
        "attributes": _attributes(span.attributes),
        "links": [
            {"traceId": link.trace_id.hex(), "spanId": link.span_id.hex()} for link in span.links
        ],
        "events": [
            {
                "name": event.name,
                "timeUnixNano": event.time_unix_nano,
                "attributes": _attributes(event.attributes),
            }
            for event in span.events
        ],
        "status": {"code": int(span.status.code), "message": span.status.message},
    }


def _attributes(items: "Any | list[KeyValue]") -> list[dict[str, Any]]:
    return [{"key": item.key, "value": _value(item.value)} for item in items]


def _value(value: AnyValue) -> dict[str, Any]:
    field = value.WhichOneof("value")
    if field in _VALUE_NAMES:
        return {_VALUE_NAMES[field]: getattr(value, field)}
    if field == "array_value":
        return {"arrayValue": {"values": [_value(item) for item in value.array_value.values]}}
    if field == "kvlist_value":
        return {"kvlistValue": {"values": _attributes(value.kvlist_value.values)}}
    if field == "bytes_value":
        return {"bytesValue": value.bytes_value.hex()}
    return {}
