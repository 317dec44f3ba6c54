"""One OTLP span as a row of columns: our attributes by the schema, others by OTel's conventions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tracer.model.schema import SPAN_KINDS
from tracer.model.trace_folder import Flag
from vizdist.store.columns import BY_CONTAINMENT, SpanRecord
from vizdist.store.otlp_spans import NO_TIME, attributes_of, camel_keys, integer, number_of_id

CATEGORIES = ("unspecified", "internal", "server", "client", "producer", "consumer")
STATUS_ERROR = (2, "STATUS_CODE_ERROR")

LINKED_KIND = "rendezvous.recv"  #: its first link is to its send; links of other kinds are no data

#: OTel's RPC kinds: category → our kind; the attribute was renamed in semantic conventions 1.39
RPC_KINDS = {"client": "rpc.client", "server": "rpc.server"}
RPC_SYSTEMS = ("rpc.system.name", "rpc.system")

_DIGITS = 20  #: of a 64-bit number


@dataclass(frozen=True, slots=True)
class Place:
    """Where a span lies in its file."""

    file: str
    member: int
    line: int


def record_of(span: Mapping[str, Any], task: str, place: Place) -> SpanRecord:
    """`span` in camelCase; `task` is whose span it is."""
    attributes = attributes_of(span.get("attributes"))
    kind = _kind_of(span, attributes)
    trace = number_of_id(span.get("traceId"), 32)
    return SpanRecord(
        task=task,
        lane=_lane_of(attributes) or default_lane(kind),
        start=integer(span.get("startTimeUnixNano"), NO_TIME),
        end=integer(span.get("endTimeUnixNano"), NO_TIME),
        name=text_of(span.get("name")) or kind,
        kind=kind,
        trace_hi=trace >> 64,
        trace_lo=trace & ((1 << 64) - 1),
        span=number_of_id(span.get("spanId"), 16),
        parent=number_of_id(span.get("parentSpanId"), 16),
        link=_data_link(span, kind),
        flags=_flags_of(span, attributes),
        file=place.file,
        member=place.member,
        line=place.line,
        **_own_columns(attributes),
    )


def _own_columns(attributes: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name in attributes:
        if name in OWN_COLUMNS:
            column, read = OWN_COLUMNS[name]
            found[column] = read(attributes[name])
    return found


def _frame_id(value: Any) -> int:
    """An unsigned 64-bit number, which OTLP has room for in a text only."""
    text = text_of(value)
    number = int(text) if text.isdecimal() and len(text) <= _DIGITS else 0
    return number if number < 1 << 64 else 0


def category_of(kind: Any) -> str:
    """OpenTelemetry's kind of a span, which is a number or a word."""
    if isinstance(kind, str):
        return kind.removeprefix("SPAN_KIND_").lower()
    known = isinstance(kind, int) and 0 <= kind < len(CATEGORIES)
    return CATEGORIES[kind if known else 0]


def _kind_of(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> str:
    told = attributes.get("vizdist.kind")
    if told is not None:
        return text_of(told)
    if (name := text_of(span.get("name"))) in SPAN_KINDS:
        return name
    category = category_of(span.get("kind", 0))
    if any(name in attributes for name in RPC_SYSTEMS):
        return RPC_KINDS.get(category, category)
    return category


def default_lane(kind: str) -> str:
    known = SPAN_KINDS.get(kind)
    return known.lane if known else "spans"


def _lane_of(attributes: Mapping[str, Any]) -> str:
    """The last of LANE_ATTRIBUTES that is told."""
    told = [(read, attributes.get(name)) for name, read in LANE_ATTRIBUTES.items()]
    return next((read(value) for read, value in reversed(told) if value is not None), "")


def _data_link(span: Mapping[str, Any], kind: str) -> int:
    """The send that a recv is linked to."""
    links = span.get("links")
    if not links or kind != LINKED_KIND or not isinstance(links, list):
        return 0
    return number_of_id(camel_keys(links[0]).get("spanId"), 16)


def _flags_of(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> int:
    flags = 0
    for name in attributes:
        if name in FLAG_ATTRIBUTES:
            flags |= FLAG_ATTRIBUTES[name](attributes[name])
    status = span.get("status")
    if isinstance(status, dict) and status.get("code") in STATUS_ERROR:
        flags |= Flag.ERROR
    return flags


def text_of(value: Any) -> str:
    """Text for a column; lone surrogates, which no file may hold, are replaced."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def task_of(resource: Mapping[str, Any], file_task: str = "") -> str:
    """Whose spans a resource's are: our task, else service and instance."""
    attributes = attributes_of(camel_keys(resource).get("attributes"))
    if "vizdist.task" in attributes:
        return text_of(attributes["vizdist.task"])
    if file_task:
        return file_task
    service = text_of(attributes.get("service.name")) or "process"
    instance = attributes.get("service.instance.id", attributes.get("process.pid"))
    return service if instance is None else f"{service} {text_of(instance)}"


#: Attributes that say in which lane a span lies, and how; a later one counts more.
LANE_ATTRIBUTES: Mapping[str, Callable[[Any], str]] = {
    "thread.id": lambda value: f"thread {value}",
    "thread.name": lambda value: f"thread {value}",
    "vizdist.lane": text_of,
}

#: Our attributes that are columns of their own: the column, and how a value is read.
OWN_COLUMNS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "vizdist.depth": ("depth", partial(integer, default=BY_CONTAINMENT)),
    "vizdist.ready_ns": ("ready", integer),
    "vizdist.wait_ns": ("wait", integer),
    "vizdist.bytes": ("bytes", integer),
    "vizdist.step.number": ("step", lambda value: integer(value) & 0xFFFFFFFF),
    "vizdist.op": ("op", text_of),
    "vizdist.device": ("device", text_of),
    "vizdist.rendezvous.key": ("key", text_of),
    "vizdist.frame.name": ("frame", text_of),
    "vizdist.frame.id": ("frame_id", _frame_id),
    "vizdist.iteration": ("iteration", partial(integer, default=-1)),
    "vizdist.variable.version": ("version", partial(integer, default=-1)),
}


def _flag_if_true(flag: int) -> Callable[[Any], int]:
    return lambda value: flag if value is True else 0


_EDGE_FLAGS = {"control": Flag.CONTROL, "feed": Flag.CLIENT_EDGE, "fetch": Flag.CLIENT_EDGE}
FLAG_ATTRIBUTES: Mapping[str, Callable[[Any], int]] = {
    "vizdist.unfinished": _flag_if_true(Flag.UNFINISHED),
    "vizdist.dead": _flag_if_true(Flag.DEAD),
    "vizdist.remote": _flag_if_true(Flag.REMOTE),
    "vizdist.deferred": _flag_if_true(Flag.DEFERRED),
    "vizdist.dropped": _flag_if_true(Flag.DROPPED),
    "vizdist.edge.kind": lambda value: _EDGE_FLAGS.get(text_of(value), 0),
}
