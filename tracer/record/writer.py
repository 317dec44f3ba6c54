"""What a thread records with: functions over its ring and its stack of open spans.

They are closures, not methods, because a record must cost less than a microsecond: a closure's cells are
read twice as fast as attributes of self.
"""

import random
from collections.abc import Callable
from mmap import mmap
from pathlib import Path
from typing import Protocol

from tracer.model.step import SpanContext
from tracer.record.lanes import DEPTH_MASK, Lane
from tracer.record.rare import RareRing
from tracer.record.ring import BEGUN, ENDED, HALF, WHOLE, Place, Ring

Open = tuple[mmap, int, int, Lane, int]  #: buffer, offset, number of the record, lane, row


class Begin(Protocol):
    def __call__(self, site: int, ctx: SpanContext, start: int) -> int: ...


class End(Protocol):
    def __call__(
        self,
        start: int,
        end: int,
        ready: int = 0,
        num_bytes: int = 0,
        key: int = 0,
        link: int = 0,
        flags: int = 0,
        extra: int = 0,
    ) -> None: ...


class Record(Protocol):
    def __call__(
        self,
        site: int,
        ctx: SpanContext,
        start: int,
        end: int,
        ready: int = 0,
        num_bytes: int = 0,
        key: int = 0,
        link: int = 0,
        flags: int = 0,
        extra: int = 0,
        span: int = 0,
    ) -> int: ...


class Reserve(Protocol):
    def __call__(
        self, site: int, row: int, ctx: SpanContext, start: int, key: int
    ) -> tuple[Place, int]: ...


class Writer:
    """One thread's way to record. Times are ns since the epoch; ids are 64-bit, never 0."""

    __slots__ = (
        "_stack",
        "_take",
        "annotate",
        "begin",
        "end",
        "first_span",
        "record",
        "reserve",
        "ring",
    )

    def __init__(self, folder: Path, number: int, capacity: int, lane_of: list[Lane]) -> None:
        self.ring = Ring(folder, number, capacity)
        self.first_span = random.SystemRandom().randrange(1 << 62)
        self._take = self.ring.places().__next__
        self._stack: list[Open] = []
        self.begin: Begin = self._make_begin(lane_of)
        self.end: End = self._make_end()
        self.record: Record = self._make_record(lane_of)
        self.reserve: Reserve = self._make_reserve()
        self.annotate: Callable[[bytes], None] = RareRing(folder, number).append

    def _make_begin(self, lane_of: list[Lane]) -> Begin:
        take, stack, base, pack = self._take, self._stack, self.first_span, BEGUN.pack_into
        push = stack.append

        def begin(site: int, ctx: SpanContext, start: int) -> int:
            """Opens a span on this thread, child of `ctx.span`; returns its id."""
            lane = lane_of[site]
            if stack and stack[-1][3] is lane:
                row = stack[-1][4] + 1
            else:
                row = _row_below(stack, lane)
                if row < 0:
                    row = lane.take_chain(start)
            buffer, offset, number = take()
            span = base + number
            hi, lo, parent, step, _ = ctx
            pack(buffer, offset, site, row, step, 0, hi, lo, span, parent, start, number)
            push((buffer, offset, number, lane, row))
            return span

        return begin

    def _make_end(self) -> End:
        pop, pack = self._stack.pop, ENDED.pack_into

        def end(
            start: int,
            end: int,
            ready: int = 0,
            num_bytes: int = 0,
            key: int = 0,
            link: int = 0,
            flags: int = 0,
            extra: int = 0,
        ) -> None:
            """Closes the span this thread opened last."""
            buffer, offset, number, lane, row = pop()
            at = offset + HALF
            pack(buffer, at, start, end, ready, num_bytes, link, extra, key, flags, number)
            if not row & DEPTH_MASK:
                lane.release_chain(row, end)

        return end

    def _make_record(self, lane_of: list[Lane]) -> Record:
        take, stack, base, pack = self._take, self._stack, self.first_span, WHOLE.pack_into

        def record(
            site: int,
            ctx: SpanContext,
            start: int,
            end: int,
            ready: int = 0,
            num_bytes: int = 0,
            key: int = 0,
            link: int = 0,
            flags: int = 0,
            extra: int = 0,
            span: int = 0,
        ) -> int:
            """A span that is already over; returns its id (`span` if given)."""
            lane = lane_of[site]
            if stack and stack[-1][3] is lane:
                row = stack[-1][4] + 1
            else:
                row = _row_below(stack, lane)
                if row < 0:
                    row = lane.take_slot(start)
                    lane.release_slot(row, end)
            buffer, offset, number = take()
            span = span or base + number
            hi, lo, parent, step, _ = ctx
            pack(
                buffer, offset, site, row, step, key, hi, lo, span, parent, start, number,
                start, end, ready, num_bytes, link, extra, key, flags, number,
            )  # fmt: skip
            return span

        return record

    def _make_reserve(self) -> Reserve:
        take, base, pack = self._take, self.first_span, BEGUN.pack_into

        def reserve(
            site: int, row: int, ctx: SpanContext, start: int, key: int
        ) -> tuple[Place, int]:
            """A begun record that any thread may end, and its span id."""
            place = buffer, offset, number = take()
            hi, lo, parent, step, _ = ctx
            span = base + number
            pack(buffer, offset, site, row, step, key, hi, lo, span, parent, start, number)
            return place, span

        return reserve

    def abandon(self) -> None:
        """The thread is gone; what it left open stays so, and the next thread starts afresh."""
        self._stack.clear()

    def num_recorded(self) -> int:
        """Spans begun so far. The writer must not be used after."""
        return self._take()[2] - 1


def _row_below(stack: list[Open], lane: Lane) -> int:
    """The row under this thread's innermost open span in the lane; -1: it has none."""
    for _, _, _, other, row in reversed(stack):
        if other is lane:
            return row + 1
    return -1
