"""The recorder of one task: spans in, ring records out; the process never encodes or sends.

    rec = Recorder(scratch, "worker:0")
    site = rec.site("op.run", name="w/read", attributes={"vizdist.op": "ReadVariableOp"})
    writer = rec.writer()                                 # of this thread
    writer.begin(site, ctx, start) … writer.end(start, end)
    waiting = rec.open(site, ctx) … waiting.close()       # ends on any thread
    with rec.span("graph.prune", ctx) as span: …          # rare kinds, any attributes

`rec.open` and `rec.span` record nothing under a context that is not sampled; whoever uses a writer
looks at `ctx.sampled` first.
"""
# ruff: noqa: ARG002, ARG005 (NO_RECORDER takes what a recorder takes)

import os
import platform
import random
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

from msgspec.msgpack import encode as packed

from tracer.model.schema import DETAILS, kinds_beyond
from tracer.model.step import SpanContext, trace_of_step
from tracer.record.attributes import clean_all, clean_text
from tracer.record.clock import OFFSET_NS, Clock, SystemClock
from tracer.record.home import COLLECTOR_LOCK, SITES_FILE, Home, is_locked
from tracer.record.lanes import Lane
from tracer.record.open_span import NoSpan, OpenSpan, RareSpan
from tracer.record.ring import CAPACITY, RECORD_BYTES, Place
from tracer.record.room import STOP_FILE, full_files
from tracer.record.sites import Sites
from tracer.record.writer import Writer

Enter = Callable[..., Callable[[], None]]

WAIT_LIMIT_S: Final = 10.0  #: how long a step boundary waits at most where a ring is over-full
RUN_ID: Final = "vizdist.run.id"
LAST_NS: Final = (1 << 63) - 1  #: since the epoch
NAMED_SITES: Final = 1000  #: names of users' spans that are interned; further ones are told each

_EMPTY: Final[Mapping[str, object]] = {}


class _Seat:
    """A thread's hold on a writer; when the thread ends, the writer is free for another one."""

    def __init__(self, writer: Writer, idle: list[Writer]) -> None:
        self.writer = writer
        self._idle = idle

    def __del__(self) -> None:
        self.writer.abandon()
        self._idle.append(self.writer)


class Recorder:
    """Records for one task (not one process); all methods may be called on any thread."""

    def __init__(
        self,
        scratch: Path,
        task: str,
        resource: Mapping[str, object] = _EMPTY,
        clock: Clock | None = None,
        ring_capacity: int = CAPACITY,
        detail: str = DETAILS[-1],
    ) -> None:
        self.task = task
        self.now, self._epoch_offset = _reading(clock)
        #: called when a rare span begins, with its context; what it returns when that ends
        self.enter: Enter | None = None
        self.new_span: Callable[[], int] = _span_ids()
        self._scratch = scratch
        self._stop = str(scratch / STOP_FILE)
        self._full = full_files(scratch)
        self._capacity = ring_capacity
        self._left_out = kinds_beyond(detail)
        #: where spans belong that are part of no step
        self.run = trace_of_step(str(resource.get(RUN_ID, "")), "run", 0)
        self._resource = {
            "service.name": "vizdist",
            "service.instance.id": task,
            "vizdist.task": task,
            "host.name": platform.node(),
            **clean_all(resource),
        }
        self._home = Home.make(scratch, task)
        self._sites = Sites(self._home.folder / SITES_FILE)
        self.lane_of: list[Lane] = self._sites.lane_of  #: by site number
        self._rare_sites: dict[tuple[str, str, str], int] = {}
        self._user_sites: dict[tuple[str, str, tuple[str, str]], int] = {}
        self.site_of_wait = self.site("record.wait")
        self._settle()
        _register_for_fork(self)

    def _settle(self) -> None:
        """Starts with no writers in the folder at hand."""
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_choked = False
        self.unrecorded_steps = 0
        self._seats = threading.local()
        self._writers: list[Writer] = []
        self._idle: list[Writer] = []
        self._home.announce(
            self.task, self._resource | {"process.pid": os.getpid()}, self._epoch_offset
        )

    def site(
        self,
        kind: str,
        *,
        name: str = "",
        lane: str = "",
        attributes: Mapping[str, object] = _EMPTY,
    ) -> int:
        """The number of a span's static part. Call it where things are set up, not in a step.

        0 is that of spans that are not recorded, for their kind is beyond the detail asked for.
        """
        if kind in self._left_out:
            return 0
        return self._sites.site(kind, name, lane, attributes)

    def user_site(self, kind: str, name: str, otel: str, scope: tuple[str, str]) -> tuple[int, str]:
        """The site of a span that is not ours, and its name where that is not the site's.

        `otel` is OpenTelemetry's kind, `scope` the name and version of what made the span. There
        may be no end of names.
        """
        known = name, otel, scope
        if (site := self._user_sites.get(known)) is not None:
            return site, ""
        is_named = len(self._user_sites) < NAMED_SITES
        origin = {"otel": otel, "scope": scope[0], "version": scope[1]}
        site = self._sites.site(kind, name if is_named else "", "", _EMPTY, origin)
        if is_named:
            self._user_sites[known] = site
        return site, "" if is_named else name

    def key(self, text: str) -> int:
        """The number of a rendezvous key; 0 is the empty one."""
        return self._sites.key(text)

    def reading_of(self, epoch_ns: int) -> int:
        """What `now` read at that time, which is within what a record can hold."""
        return min(max(int(epoch_ns), 0), LAST_NS) - self._epoch_offset

    def epoch_ns(self) -> int:
        return self.now() + self._epoch_offset

    def writer(self) -> Writer:
        """This thread's writer; look it up once a dispatch."""
        try:
            seat: _Seat = self._seats.seat
        except AttributeError:
            seat = self._seats.seat = _Seat(self._free_writer(), self._idle)
        return seat.writer

    def _free_writer(self) -> Writer:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            writer = Writer(
                self, self._home.folder, len(self._writers), self._capacity, self.lane_of
            )
            if self._left_out:
                writer.leave_out()
            self._writers.append(writer)
            return writer

    def open(self, site: int, ctx: SpanContext, key: int = 0, start: int = 0) -> OpenSpan:
        """Opens a span, at `start` or now, that may end on any thread and in any order."""
        if not (ctx.sampled and site):
            return NoSpan(ctx, self.now())
        return self.writer().open(site, ctx, key, start)

    def span(
        self, kind: str, ctx: SpanContext, name: str = "", lane: str = "", **attributes: object
    ) -> RareSpan:
        """A span of a rare kind around a `with` block; attributes may be set until it ends."""
        known = kind, name, lane
        site = self._rare_sites.get(known)
        if site is None:
            site = self._rare_sites[known] = self.site(kind, name=name, lane=lane)
        return RareSpan(self, site, ctx, attributes)

    def annotate(self, span: int, attributes: Mapping[str, object], error: str = "") -> None:
        """Adds attributes to a span that has not ended; `error` is its status message."""
        entry: dict[str, Any] = {"attributes": clean_all(attributes)}
        if error:
            entry["error"] = clean_text(error)
        self.tell(span, entry)

    def tell(self, span: int, entry: Mapping[str, Any]) -> None:
        """The same with all that `drain.Annotation` can hold; values are clean."""
        if not span:  # it is not recorded
            return
        self.writer().annotate(packed({"span": span, **entry}))

    def step_boundary(self) -> None:
        """Between two steps: waits for the collector where a ring is over-full; records that."""
        if not self._is_over_full(self._full):
            return
        start, limit = self.now(), time.monotonic() + WAIT_LIMIT_S
        while (
            self._is_over_full(self._full // 2)
            and is_locked(self._scratch / COLLECTOR_LOCK)
            and time.monotonic() < limit
        ):
            time.sleep(0.001)
        self._is_choked = time.monotonic() >= limit
        self.writer().record(self.site_of_wait, self.run, start, self.now())

    def takes_step(self) -> bool:
        """Asked once before each step that is to be recorded; counts those that cannot be."""
        has_room = self.has_room()
        self.unrecorded_steps += not has_room
        return has_room

    def has_room(self) -> bool:
        """False: record no step now.

        The collector said so: the trace is as large as it may be, or its disk is full. Or a ring is
        over-full and nobody takes what it holds: the collector is gone, or was waited for in vain.
        """
        if os.path.exists(self._stop):  # noqa: PTH110 (before every step: a Path costs double)
            return False
        self._is_choked = self._is_choked and self._is_over_full(self._full // 2)
        if self._is_choked or not self._is_over_full(self._full):
            return not self._is_choked
        return is_locked(self._scratch / COLLECTOR_LOCK)

    def _is_over_full(self, enough: int) -> bool:
        return any(writer.ring.num_waiting(enough) > enough for writer in self._writers)

    def close(self) -> None:
        """Says how many spans were recorded; what is recorded after is lost."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                recorded = sum(writer.ring.num_begun() for writer in self._writers)
                self._home.close(recorded, self.unrecorded_steps)
                self._sites.close()

    def after_fork(self) -> None:
        """In a forked child: the rings belong to the parent, so go on in a folder of our own."""
        if self._is_closed:  # its descriptors may be somebody else's by now
            return
        self.new_span = _span_ids()
        for writer in self._writers:
            writer.disown()
        self._home.leave()
        self._home = Home.make(self._scratch, self.task)
        self._sites.reopen(self._home.folder / SITES_FILE)
        self._settle()


def _reading(clock: Clock | None) -> tuple[Callable[[], int], int]:
    """How to read the clock, and what makes its readings ns since the epoch.

    Records hold bare readings of the system's counter, which cost half of a sum; whoever reads the
    rings adds the offset.
    """
    if clock is None or isinstance(clock, SystemClock):
        return time.perf_counter_ns, OFFSET_NS
    return clock.now_ns, 0


def _span_ids() -> Callable[[], int]:
    return count(random.SystemRandom().randrange(1, 1 << 62)).__next__


def _register_for_fork(recorder: Recorder) -> None:
    alive = weakref.WeakMethod(recorder.after_fork)

    def after_fork() -> None:
        if (reopen := alive()) is not None:
            reopen()

    os.register_at_fork(after_in_child=after_fork)


class _NoRecorder(Recorder):
    """Has every method and records nothing."""

    def __init__(self) -> None:
        self.task = ""
        self.enter = None
        self.run = trace_of_step("", "run", 0, sampled=False)
        self.now, self._epoch_offset = SystemClock.now_ns, 0
        self.new_span = _span_ids()
        self._writer = _NoWriter()

    def site(
        self,
        kind: str,
        *,
        name: str = "",
        lane: str = "",
        attributes: Mapping[str, object] = _EMPTY,
    ) -> int:
        return 0

    def user_site(self, kind: str, name: str, otel: str, scope: tuple[str, str]) -> tuple[int, str]:
        return 0, ""

    def key(self, text: str) -> int:
        return 0

    def writer(self) -> Writer:
        return self._writer

    def open(self, site: int, ctx: SpanContext, key: int = 0, start: int = 0) -> OpenSpan:
        return NoSpan(ctx, self.now())

    def span(
        self, kind: str, ctx: SpanContext, name: str = "", lane: str = "", **attributes: object
    ) -> RareSpan:
        return RareSpan(self, 0, ctx._replace(sampled=False), attributes)

    def annotate(self, span: int, attributes: Mapping[str, object], error: str = "") -> None:
        pass

    def tell(self, span: int, entry: Mapping[str, Any]) -> None:
        pass

    def step_boundary(self) -> None:
        pass

    def takes_step(self) -> bool:
        return True

    def has_room(self) -> bool:
        return True

    def close(self) -> None:
        pass


class _NoWriter(Writer):
    def __init__(self) -> None:
        self.begin = lambda site, ctx, start: ctx.span
        self.end = lambda *args, **kwargs: None
        self.record = lambda *args, **kwargs: 0
        nowhere: Place = bytearray(RECORD_BYTES), 0, 0, 0, 0
        self.take = lambda: nowhere

    def hold(self, site: int, start: int) -> int:
        return 0

    def let_go(self, site: int, row: int, end: int) -> None:
        pass


NO_RECORDER: Final[Recorder] = _NoRecorder()
