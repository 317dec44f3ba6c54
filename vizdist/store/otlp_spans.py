"""OTLP/JSON in its dialects: walks a document's spans and reads ids, numbers and attributes.

The standard form is camelCase with hex ids and 64-bit integers as strings; snake_case, base64 ids and
plain numbers are read too (case I16).
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

DEPTH_LIMIT = 64  #: nested attribute values deeper than this are cut

Raw = Mapping[str, Any]


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def camel_keys(raw: Any) -> dict[str, Any]:
    """A mapping whose snake_case keys are spelled in camelCase; {} for anything else."""
    if not isinstance(raw, Mapping):
        return {}
    return {camel(key) if "_" in key else key: value for key, value in raw.items()}


def _objects(raw: Any) -> Iterator[dict[str, Any]]:
    for item in raw if isinstance(raw, list) else ():
        yield camel_keys(item)


def iterate_spans(document: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every (resource, span) of a document, keys in camelCase."""
    for resource_spans in _objects(camel_keys(document).get("resourceSpans")):
        resource = camel_keys(resource_spans.get("resource"))
        scopes = resource_spans.get("scopeSpans")
        if scopes is None:  # until OTLP 0.15
            scopes = resource_spans.get("instrumentationLibrarySpans")
        for scope_spans in _objects(scopes):
            for span in _objects(scope_spans.get("spans")):
                yield resource, span


def number_of_id(text: Any, digits: int) -> int:
    """An id of `digits` hex digits, any case, or the same bytes in base64; 0 if there is none.

    Shorter hex ids (64-bit trace ids) are read as they are.
    """
    if not text or not isinstance(text, str):
        return 0
    if len(text) <= digits:
        try:
            return int(text, 16)
        except ValueError:
            pass
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return 0
    return int.from_bytes(data, "big") if len(data) == digits // 2 else 0


def span_id_of(span: Raw) -> int:
    return number_of_id(span.get("spanId"), 16)


def integer(value: Any, default: int = 0) -> int:
    """A 64-bit integer written as a number or as text; `default` if it is none or too large."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if -(1 << 63) <= number < 1 << 63 else default


def value_of(raw: Any, depth: int = 0) -> Any:
    """What an AnyValue holds; None for an empty one, which means "not available"."""
    if depth > DEPTH_LIMIT:
        return "…"
    value = camel_keys(raw)
    for key, item in value.items():
        if key == "intValue":
            return integer(item, 0)
        if key == "arrayValue":
            return [value_of(v, depth + 1) for v in _list(camel_keys(item).get("values"))]
        if key == "kvlistValue":
            return attributes_of(camel_keys(item).get("values"), depth + 1)
        if key in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
            return item
    return None


def _list(raw: Any) -> list[Any]:
    return raw if isinstance(raw, list) else []


def attributes_of(raw: Any, depth: int = 0) -> dict[str, Any]:
    """A KeyValue list as a mapping; what is not one is left out."""
    items: Iterable[Any] = raw if isinstance(raw, list) else ()
    return {
        str(item["key"]): value_of(item.get("value"), depth)
        for item in items
        if isinstance(item, Mapping) and "key" in item
    }
