"""A span of a user's own code, made with OpenTelemetry's API and recorded as our own are.

It fills a slot of the lane `user` while it is open; what the API lets it carry besides (attributes,
events, links, a status) is told once, when it ends, through the ring of rare entries.
"""

import traceback
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode
from opentelemetry.util import types

from tracer.model.step import SpanContext
from tracer.model.trace_folder import Flag
from tracer.record.attributes import clean_text
from tracer.record.open_span import OpenSpan, error_text
from tracer.record.recorder import Recorder
from tracer.record.span_limits import Attributes, SpanLimits

SAMPLED: Final = trace.TraceFlags(trace.TraceFlags.SAMPLED)
NOT_SAMPLED: Final = trace.TraceFlags(trace.TraceFlags.DEFAULT)
_HALF: Final = (1 << 64) - 1  #: of a trace id; also the last ns that OTLP can hold
_UNSET: Final = Status()
_EMPTY: Final[Mapping[str, object]] = {}


def otel_context(ctx: SpanContext) -> trace.SpanContext:
    """The same place in OpenTelemetry's terms."""
    return trace.SpanContext(
        ctx.trace_hi << 64 | ctx.trace_lo,
        ctx.span,
        is_remote=False,
        trace_flags=SAMPLED if ctx.sampled else NOT_SAMPLED,
    )


def own_context(span: trace.SpanContext) -> SpanContext:
    """The other way round; such a place is in no step that we know of."""
    hi, lo = span.trace_id >> 64, span.trace_id & _HALF
    return SpanContext(hi, lo, span.span_id, 0, span.trace_flags.sampled)


def _within_otlp(epoch_ns: float) -> int:
    """A time as a user gave it, made one that OTLP can hold."""
    return min(max(int(epoch_ns), 0), _HALF)


class UserSpan(trace.Span):
    """`recorder` and `place` are where its children belong."""

    __slots__ = (
        "_attributes",
        "_dropped_events",
        "_dropped_links",
        "_error",
        "_events",
        "_limits",
        "_links",
        "_name",
        "_open",
        "_records_exception",
        "_sets_status",
        "_status",
        "place",
        "recorder",
    )

    def __init__(
        self,
        recorder: Recorder,
        span: OpenSpan,
        limits: SpanLimits,
        records_exception: bool,
        sets_status: bool,
    ) -> None:
        """The last two say what becomes of an exception that leaves a `with` block of the span."""
        self.recorder = recorder
        self.place = span.context
        self._open = [span]  #: empty once it is over: whoever ends it takes the span out
        self._limits = limits
        self._attributes = Attributes(limits.attributes, limits.value_length)
        self._events: list[Any] = []
        self._links: list[Any] = []
        self._dropped_events = self._dropped_links = 0
        self._status, self._error = _UNSET, ""
        self._name = ""
        self._records_exception, self._sets_status = records_exception, sets_status

    def get_span_context(self) -> trace.SpanContext:
        return otel_context(self.place)

    def is_recording(self) -> bool:
        return bool(self._open)

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        if self._open:
            self._attributes.add(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        self.set_attributes({key: value})

    def add_event(
        self, name: str, attributes: types.Attributes = None, timestamp: int | None = None
    ) -> None:
        if not self._open:
            return
        if 0 <= self._limits.events <= len(self._events):
            self._dropped_events += 1
            return
        when = self.recorder.epoch_ns() if timestamp is None else _within_otlp(timestamp)
        told = self._carried(attributes, self._limits.event_attributes)
        self._events.append([when, clean_text(str(name)), *told])

    def add_link(self, context: trace.SpanContext, attributes: types.Attributes = None) -> None:
        if not (self._open and context.is_valid):
            return
        if 0 <= self._limits.links <= len(self._links):
            self._dropped_links += 1
            return
        told = self._carried(attributes, self._limits.link_attributes)
        ids = f"{context.trace_id:032x}", f"{context.span_id:016x}"
        self._links.append([*ids, *told])

    def add_links(self, links: Sequence[trace.Link]) -> None:
        for link in links:
            self.add_link(link.context, link.attributes)

    def _carried(self, attributes: types.Attributes, limit: int) -> tuple[dict[str, Any], int]:
        carried = Attributes(limit, self._limits.value_length)
        carried.add(attributes or _EMPTY)
        return carried.kept, carried.dropped

    def update_name(self, name: str) -> None:
        if self._open:
            self._name = clean_text(str(name))

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """OK is the last word; unset says nothing."""
        if isinstance(status, StatusCode):
            status = Status(status, description)
        if status.is_unset or self._status.status_code is StatusCode.OK or not self._open:
            return
        self._status, self._error = status, clean_text(str(status.description or ""))

    def record_exception(
        self,
        exception: BaseException,
        attributes: types.Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        kind = type(exception)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        told: dict[str, Any] = {
            "exception.type": f"{module}{kind.__qualname__}",
            "exception.message": str(exception),
            "exception.stacktrace": "".join(traceback.format_exception(exception)),
            "exception.escaped": str(escaped),
        }
        told.update(attributes or _EMPTY)
        self.add_event("exception", told, timestamp)

    def end(self, end_time: int | None = None) -> None:
        """Only the first end counts, whichever thread it comes from."""
        try:
            span = self._open.pop()
        except IndexError:
            return
        end = self.recorder.now() if end_time is None else self.recorder.reading_of(end_time)
        is_error = self._status.status_code is StatusCode.ERROR
        try:
            if entry := self._entry():
                self.recorder.tell(span.span, entry)
        finally:
            span.close(end, flags=Flag.ERROR if is_error else 0)

    def _entry(self) -> dict[str, Any]:
        """What is told besides times and ids; empty things are left out."""
        dropped = {
            "attributes": self._attributes.dropped,
            "events": self._dropped_events,
            "links": self._dropped_links,
        }
        entry = {
            "attributes": self._attributes.kept,
            "error": self._error,
            "is_ok": self._status.status_code is StatusCode.OK,
            "name": self._name,
            "events": self._events,
            "links": self._links,
            "dropped": {name: number for name, number in dropped.items() if number},
        }
        return {name: value for name, value in entry.items() if value}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace_back: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            self.failed(error)
        self.end()

    def failed(self, error: Exception) -> None:
        if self._records_exception:
            self.record_exception(error)
        if self._sets_status:
            self.set_status(StatusCode.ERROR, error_text(error))
