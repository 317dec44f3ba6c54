"""OTLP/JSON just as the standard spells it, read into structs: several times as fast as mappings.

A line that is anything else (another spelling, a field that is not known, a number that is none)
is left to `otlp_spans`, which is patient. What no column needs is checked to be JSON and not kept;
attributes are kept of lines that may hold one which columns know.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Raw

from vizdist.store.otlp_spans import NO_TIME, value_of

Integer = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]  #: written as a number or as text

_UNREAD = Raw(b"null")


class _Form(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False, kw_only=True):
    """Fields in camelCase, and no others."""


class Value(_Form):
    """An AnyValue: one of its fields is set."""

    string_value: str | None = None
    int_value: Integer | None = None
    bool_value: Any = None
    double_value: Any = None
    array_value: Any = None
    kvlist_value: Any = None
    bytes_value: Any = None

    def held(self) -> Any:
        """What it holds, as `value_of` reads it; None for nothing."""
        if self.string_value is not None:
            return self.string_value
        if self.int_value is not None:
            return self.int_value
        if self.bool_value is not None:
            return self.bool_value
        if self.double_value is not None:
            return self.double_value
        more = {
            name: getattr(self, name) for name in ("array_value", "kvlist_value", "bytes_value")
        }
        return value_of({name: value for name, value in more.items() if value is not None})


class Attribute(_Form):
    key: str
    value: Value


class Link(msgspec.Struct, rename="camel", gc=False):
    span_id: str


class Status(msgspec.Struct, gc=False):
    code: Any = None


class Span(_Form):
    """One span, but for its attributes."""

    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    name: str = ""
    kind: int = 0
    start_time_unix_nano: Integer = NO_TIME
    end_time_unix_nano: Integer = NO_TIME
    links: Sequence[Link] = ()
    status: Status | None = None
    trace_state: Raw = _UNREAD
    flags: Raw = _UNREAD
    events: Raw = _UNREAD
    dropped_attributes_count: Raw = _UNREAD
    dropped_events_count: Raw = _UNREAD
    dropped_links_count: Raw = _UNREAD


class _Unread(Span):
    attributes: Raw = _UNREAD


class _Read(Span):
    attributes: Sequence[Attribute] = ()


AnySpan = TypeVar("AnySpan", _Unread, _Read)


class _ScopeSpans(_Form, Generic[AnySpan]):
    spans: list[AnySpan] = []
    scope: Raw = _UNREAD
    schema_url: Raw = _UNREAD


class _ResourceSpans(_Form, Generic[AnySpan]):
    scope_spans: list[_ScopeSpans[AnySpan]] = []
    resource: Any = None
    schema_url: Raw = _UNREAD


class _Document(_Form, Generic[AnySpan]):
    resource_spans: list[_ResourceSpans[AnySpan]]


# lax: 64-bit integers may be texts, as the standard wants them, or plain numbers
_READER = msgspec.json.Decoder(_Document[_Read], strict=False)
_SKIPPER = msgspec.json.Decoder(_Document[_Unread], strict=False)


class Found(NamedTuple):
    """Spans of one resource and the attributes of each."""

    resource: Any
    spans: Sequence[Span]
    attributes: Sequence[Sequence[Attribute]]


def standard_spans(text: bytes, wanted: Collection[bytes]) -> list[Found] | None:
    """All spans of a document; None if it is not in the standard form.

    Attributes are read if the text holds one of the `wanted` parts, else there are none.
    """
    try:
        if not text.isascii():
            text.decode()  # what is not read would not be looked at
        if any(part in text for part in wanted) or b"\\u" in text:
            found = _walk(_READER.decode(text))
            return [Found(r, spans, [one.attributes for one in spans]) for r, spans in found]
        return [Found(r, spans, [()] * len(spans)) for r, spans in _walk(_SKIPPER.decode(text))]
    except (ValueError, RecursionError):
        return None


def _walk(document: _Document[AnySpan]) -> Iterator[tuple[Any, list[AnySpan]]]:
    for resource_spans in document.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            yield resource_spans.resource, scope_spans.spans
