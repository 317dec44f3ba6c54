"""OTLP/JSON in its dialects: walks a document's spans and reads ids, numbers and attributes.

The standard form is camelCase with hex ids and 64-bit integers as strings; snake_case, base64 ids
and plain numbers are read too (case I16).
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

NO_TIME = 1 << 62  #: in place of an instant that cannot be read: later than any that is taken
DEPTH_LIMIT = 64  #: nested attribute values deeper than this are cut

Raw = Mapping[str, Any]


def camel(name: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


def camel_keys(raw: Any) -> dict[str, Any]:
    """A mapping whose snake_case keys are spelled in camelCase; {} for anything else."""
    if not isinstance(raw, dict):
        return {}
    if "_" not in "".join(raw):
        return raw
    return {camel(key) if "_" in key else key: value for key, value in raw.items()}


def objects(raw: Any) -> Iterator[dict[str, Any]]:
    for item in raw if isinstance(raw, list) else ():
        yield camel_keys(item)


def iterate_spans(document: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every (resource, span) of a document, keys in camelCase."""
    for resource_spans in objects(camel_keys(document).get("resourceSpans")):
        resource = camel_keys(resource_spans.get("resource"))
        for scope_spans in objects(resource_spans.get(scopes_key(resource_spans))):
            for span in objects(scope_spans.get("spans")):
                yield resource, span


def scopes_key(resource_spans: Raw) -> str:
    """What a resource's spans stand under; until OTLP 0.15 it had another name."""
    is_new = resource_spans.get("scopeSpans") is not None
    return "scopeSpans" if is_new else "instrumentationLibrarySpans"


def with_spans(document: Any, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The document with these spans alone, under the resources and scopes that they have.

    What holds no span any more is left out; keys that are known are in camelCase.
    """
    resources = []
    for resource_spans in objects(camel_keys(document).get("resourceSpans")):
        key = scopes_key(resource_spans)
        scopes = [
            {**scope_spans, "spans": kept}
            for scope_spans in objects(resource_spans.get(key))
            if (kept := list(filter(is_wanted, objects(scope_spans.get("spans")))))
        ]
        if scopes:
            resources.append({**resource_spans, key: scopes})
    return {"resourceSpans": resources}


def number_of_id(text: Any, digits: int) -> int:
    """An id of `digits` hex digits, any case, or the same bytes in base64; 0 if there is none.

    Shorter hex ids (64-bit trace ids) are read as they are.
    """
    if not text or not isinstance(text, str):
        return 0
    if len(text) <= digits and text.isalnum():
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
    if value is None:
        return default
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if -(1 << 63) <= number < 1 << 63 else default


def value_of(raw: Any, depth: int = 0) -> Any:
    """What an AnyValue holds; None for an empty one, which means "not available"."""
    if depth > DEPTH_LIMIT:
        return "…"
    for key, item in raw.items() if isinstance(raw, dict) else ():
        reader = _READERS.get(key)
        if reader is not None:
            return reader(item, depth)
    return None


def attributes_of(raw: Any, depth: int = 0) -> dict[str, Any]:
    """A KeyValue list as a mapping; what is not one is left out."""
    found: dict[str, Any] = {}
    for item in raw if isinstance(raw, list) else ():
        try:
            value = item["value"]
            text = value.get("stringValue")  # most are texts: this way is four times as fast
            found[str(item["key"])] = value_of(value, depth) if text is None else text
        except (TypeError, KeyError, AttributeError):
            found |= _without_value(item)
    return found


def _without_value(item: Any) -> dict[str, Any]:
    return {str(item["key"]): None} if isinstance(item, dict) and "key" in item else {}


def _list_of(raw: Any, depth: int) -> list[Any]:
    values = raw.get("values") if isinstance(raw, dict) else None
    return [value_of(v, depth + 1) for v in values] if isinstance(values, list) else []


def _mapping_of(raw: Any, depth: int) -> dict[str, Any]:
    return attributes_of(raw.get("values") if isinstance(raw, dict) else None, depth + 1)


_READERS: dict[str, Callable[[Any, int], Any]] = {
    spelled: reader
    for name, reader in {
        "stringValue": lambda value, _: value,
        "intValue": lambda value, _: integer(value),
        "boolValue": lambda value, _: value,
        "doubleValue": lambda value, _: value,
        "bytesValue": lambda value, _: value,
        "arrayValue": _list_of,
        "kvlistValue": _mapping_of,
    }.items()
    for spelled in (name, re.sub("([A-Z])", lambda m: "_" + m[0].lower(), name))
}


def key_values(attributes: Mapping[str, Any], depth: int = 0) -> list[dict[str, Any]]:
    """The reverse of `attributes_of`, for plain values and exact decimals."""
    return [{"key": str(k), "value": _any_value(v, depth)} for k, v in attributes.items()]


def _any_value(value: Any, depth: int) -> dict[str, Any]:
    if value is None:
        return {}
    if depth > DEPTH_LIMIT:
        return {"stringValue": "…"}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return {"intValue": str(value)}
    if isinstance(value, Decimal | float):
        return {"doubleValue": float(value)}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": key_values(value, depth + 1)}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any_value(item, depth + 1) for item in value]}}
    return {"stringValue": str(value)}
