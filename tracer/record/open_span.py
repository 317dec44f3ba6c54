"""Spans as objects: those that end on any thread, and rare ones with attributes of any kind."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tracer.model.step import SpanContext
from tracer.model.trace_folder import Flag
from tracer.record.lanes import Lane
from tracer.record.ring import ENDED, Place

if TYPE_CHECKING:
    from tracer.record.recorder import Recorder
    from tracer.record.writer import Writer


def error_text(error: BaseException | str) -> str:
    return error if isinstance(error, str) else f"{type(error).__name__}: {error}"


class OpenSpan:
    """A span that may end on any thread and in any order: a waiting recv, a call, an async kernel.

    It fills a slot of its lane until it is closed. `Writer.open` makes them.
    """

    __slots__ = (
        "_context",
        "_flags",
        "_key",
        "_lane",
        "_place",
        "_recorder",
        "_row",
        "span",
        "start",
    )

    def __init__(
        self,
        recorder: "Recorder",
        ctx: SpanContext,
        key: int,
        lane: Lane,
        row: int,
        place: Place,
        start: int,
    ) -> None:
        self.span = place[4]
        self.start = start
        self._recorder = recorder
        self._context = ctx
        self._key = key
        self._lane = lane
        self._row = row
        self._place = [place]
        self._flags = 0

    @property
    def context(self) -> SpanContext:
        """What the children of this span run under."""
        return self._context.under(self.span)

    def close(
        self,
        end: int = 0,
        num_bytes: int = 0,
        link: int = 0,
        flags: int = 0,
        extra: int = 0,
        ready: int = 0,
    ) -> None:
        """Ends the span, `end` or now. Only the first close counts: an abort may race."""
        try:
            buffer, _, at, number, _ = self._place.pop()
        except IndexError:
            return
        end = end or self._recorder.now()
        ENDED.pack_into(
            buffer, at, self.start, end, ready, num_bytes, link, extra,
            self._key, flags | self._flags, number,
        )  # fmt: skip
        self._lane.release_slot(self._row, end)

    def set(self, name: str, value: object) -> None:
        """Sets an attribute; before `close`."""
        self._recorder.annotate(self.span, {name: value})

    def fail(self, error: BaseException | str) -> None:
        """Marks the span as failed, for this reason; before `close`."""
        self._flags |= Flag.ERROR
        self._recorder.annotate(self.span, {}, error=error_text(error))


class NoSpan(OpenSpan):
    """Stands for any span under a context that is not sampled."""

    __slots__ = ()

    def __init__(self, ctx: SpanContext, start: int) -> None:
        self._context = ctx
        self.span = 0
        self.start = start

    @property
    def context(self) -> SpanContext:
        return self._context

    def close(
        self,
        end: int = 0,
        num_bytes: int = 0,
        link: int = 0,
        flags: int = 0,
        extra: int = 0,
        ready: int = 0,
    ) -> None:
        pass

    def set(self, name: str, value: object) -> None:
        pass

    def fail(self, error: BaseException | str) -> None:
        pass


class RareSpan:
    """`with rec.span(kind, ctx) as span`: nested on its thread; an exception makes it an error."""

    __slots__ = (
        "_end",
        "_flags",
        "_leave",
        "_recorder",
        "_site",
        "_start",
        "_told",
        "_writer",
        "context",
        "span",
        "wait_ns",
    )

    def __init__(
        self, recorder: "Recorder", site: int, ctx: SpanContext, attributes: Mapping[str, object]
    ) -> None:
        self._recorder = recorder
        self._site = site
        self._told = dict(attributes)
        self._flags = 0
        self._start = 0
        self._end = 0
        self._writer: Writer | None = None
        self._leave: Callable[[], None] | None = None
        self.span = 0
        self.wait_ns = 0  #: of its time, for kinds whose `extra` this is
        self.context = ctx

    def __enter__(self) -> Self:
        is_root = not self.context.span
        if self.context.sampled and self._site:
            self._writer = self._recorder.writer()
            self._start = self._recorder.now()
            self.span = self._writer.begin(self._site, self.context, self._start)
            self.context = self.context.under(self.span)
            self._tell()
        if (enter := self._recorder.enter) is not None:
            self._leave = enter(self.context, is_root=is_root)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._leave is not None:
            self._leave()
        if self._writer is None:
            return
        self.stop_clock()
        if error is not None:
            self.fail(error)
        self._tell()
        self._writer.end(self._start, self._end, extra=self.wait_ns, flags=self._flags)

    def stop_clock(self) -> None:
        """Ends its time here, before the block ends: what is still told of it takes none."""
        if not self._end:
            self._end = self._recorder.now()

    def set(self, name: str, value: object) -> None:
        self._told[name] = value

    def fail(self, error: BaseException | str) -> None:
        """Marks the span as failed, for this reason."""
        self._flags |= Flag.ERROR
        if self._writer is not None:
            self._recorder.annotate(self.span, {}, error=error_text(error))

    def _tell(self) -> None:
        if self._told:
            self._recorder.annotate(self.span, self._told)
            self._told = {}
