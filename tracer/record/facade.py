"""OpenTelemetry's tracing API over the recorder: a user's own spans join the run.

    leave = install(recorder)          # in a process of ours, before it imports the user's code

A span's parent is what is current where it starts: another span of his, else the step that is going
on there, else the run. The API's context carries both, so threads and coroutines that take the
context along keep the parent.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace import SpanKind
from opentelemetry.util import types

from tracer.model.step import SpanContext
from tracer.record.otel_settings import is_disabled
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.record.span_limits import limits_from
from tracer.record.user_span import UserSpan, otel_context, own_context

KIND: Final = "user.span"
ENCLOSING: Final = "enclosing"  #: link of a step's root to what was current when it began
_Links = Sequence[trace.Link] | None


class Inside(trace.NonRecordingSpan):
    """Stands in the API's context for a span of ours while code may run inside it."""

    def __init__(self, recorder: Recorder, place: SpanContext) -> None:
        super().__init__(otel_context(place))
        self.recorder = recorder
        self.place = place
        self.is_over = False


class TracerProvider(trace.TracerProvider):
    """Records where `recorder` does, and inside spans of other recorders where those do."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.limits = limits_from()
        self._followed: list[Recorder] = []
        self._has_tracers = False

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,  # noqa: ARG002 (nothing here goes by it)
        attributes: types.Attributes = None,  # noqa: ARG002
    ) -> trace.Tracer:
        self._has_tracers = True
        for recorder in self._followed:
            recorder.enter = functools.partial(_enter, recorder)
        return Tracer(self, instrumenting_module_name, instrumenting_library_version or "")

    def follow(self, recorders: Sequence[Recorder]) -> None:
        """Code inside their spans has those as parents; that costs nothing without a tracer."""
        for recorder in self._followed:
            recorder.enter = None
        self._followed = list(recorders)
        if self._has_tracers:
            for recorder in recorders:
                recorder.enter = functools.partial(_enter, recorder)

    def place_of(self, context: otel.Context | None) -> tuple[Recorder, SpanContext]:
        """Where a span that starts now belongs, and who records it."""
        current = trace.get_current_span(context)
        if isinstance(current, UserSpan) or (isinstance(current, Inside) and not current.is_over):
            return current.recorder, current.place
        span = current.get_span_context()
        if span.is_valid and not isinstance(current, Inside):  # of another process, or made by hand
            return self.recorder, own_context(span)
        return self.recorder, self.recorder.run


class Tracer(trace.Tracer):
    def __init__(self, provider: TracerProvider, name: str, version: str) -> None:
        self._provider = provider
        self._scope = name, version

    def start_span(
        self,
        name: str,
        context: otel.Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: types.Attributes = None,
        links: _Links = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
    ) -> trace.Span:
        recorder, place = self._provider.place_of(context)
        site, own_name = 0, ""
        if place.sampled:
            site, own_name = recorder.user_site(KIND, name, kind.name, self._scope)
        if not site:
            return Inside(recorder, place)
        start = 0 if start_time is None else recorder.reading_of(start_time)
        span = UserSpan(
            recorder,
            recorder.open(site, place, 0, start),
            self._provider.limits,
            record_exception,
            set_status_on_exception,
        )
        if own_name:
            span.update_name(own_name)
        if attributes:
            span.set_attributes(attributes)
        if links:
            span.add_links(links)
        return span

    def start_as_current_span(  # type: ignore[override]
        self, *args: Any, **settings: Any
    ) -> "Current":
        """As the API has it, as a context manager or a decorator."""
        end_on_exit = settings.pop("end_on_exit", True)
        return Current(functools.partial(self.start_span, *args, **settings), end_on_exit)


class Current:
    """A span that is current within a `with` block, or within each call of a function."""

    __slots__ = ("_ends", "_outer", "_span", "_start")

    def __init__(self, start: Callable[[], trace.Span], ends: Any) -> None:
        self._start = start
        self._ends = bool(ends)

    def __enter__(self) -> trace.Span:
        self._span = self._start()
        self._outer = otel.get_current()
        otel.attach(trace.set_span_in_context(self._span, self._outer))
        return self._span

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace_back: TracebackType | None,
    ) -> None:
        _restore(self._span, self._outer)
        if isinstance(error, Exception) and isinstance(self._span, UserSpan):
            self._span.failed(error)
        if self._ends:
            self._span.end()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call_async(*args: Any, **named: Any) -> Any:
                with Current(self._start, self._ends):
                    return await function(*args, **named)

            return call_async

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            with Current(self._start, self._ends):
                return function(*args, **named)

        return call


def _restore(span: trace.Span, outer: otel.Context) -> None:
    """Makes `outer` current again where `span` is.

    Where it is not, this runs elsewhere than it began (a generator that another task closes), or
    code inside left a span of its own current, and neither is ours to undo.
    """
    if trace.get_current_span() is span:
        otel.attach(outer)


def _enter(recorder: Recorder, place: SpanContext, *, is_root: bool) -> Callable[[], None]:
    """A span of ours begins on this thread; returns what to do when it ends."""
    outer = otel.get_current()
    enclosing = trace.get_current_span(outer)
    if is_root and place.step and isinstance(enclosing, UserSpan) and enclosing.is_recording():
        other = enclosing.place
        link = [other.trace_id, f"{other.span:016x}", {"link.kind": ENCLOSING}, 0]
        if place.sampled:
            recorder.tell(place.span, {"links": [link]})
    inside = Inside(recorder, place)
    otel.attach(trace.set_span_in_context(inside, outer))

    def leave() -> None:
        inside.is_over = True
        _restore(inside, outer)

    return leave


_PROVIDER: Final = TracerProvider(NO_RECORDER)


def install(recorder: Recorder, *others: Recorder) -> Callable[[], None]:
    """Makes spans of any code in this process join the record, until what it returns is called.

    Spans outside all of ours go to `recorder`. A provider that was set before stays, as the API has
    it.
    """
    if is_disabled():
        return lambda: None
    if trace.get_tracer_provider() is not _PROVIDER:
        trace.set_tracer_provider(_PROVIDER)
    _PROVIDER.recorder = recorder
    _PROVIDER.follow([recorder, *others])

    def leave() -> None:
        _PROVIDER.recorder = NO_RECORDER
        _PROVIDER.follow([])

    return leave
