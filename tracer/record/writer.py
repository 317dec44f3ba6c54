"""What a thread records with: functions over its ring and its stack of open spans.

They are closures, not methods, because a record must cost less than a microsecond: a closure's
cells are read twice as fast as attributes of self.
"""

from collections.abc import Callable, Sequence
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from tracer.model.step import SpanContext
from tracer.record.lanes import DEPTH_MASK, Chain, Chains, Lane
from tracer.record.open_span import OpenSpan
from tracer.record.rare import RareRing
from tracer.record.ring import BEGUN, ENDED, WHOLE, Place, Ring

if TYPE_CHECKING:
    from tracer.record.recorder import Recorder

#: buffer, offset of the second half, record number, chain
Open = tuple[mmap | bytearray, int, int, Chain]


_LEFT_OUT: Final[Open] = (bytearray(), 0, 0, Chain(Lane("")))  #: stands for a span of site 0


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


class OpenAny(Protocol):
    def __call__(self, site: int, ctx: SpanContext, key: int = 0, start: int = 0) -> OpenSpan: ...


class Writer:
    """One thread's way to record. Times are what `Recorder.now` reads; ids are 64-bit, never 0."""

    __slots__ = (
        "_chains",
        "_rare",
        "_stack",
        "annotate",
        "begin",
        "end",
        "open",
        "record",
        "ring",
        "take",
    )

    def __init__(
        self,
        recorder: "Recorder",
        folder: Path,
        number: int,
        capacity: int,
        lane_of: Sequence[Lane],
    ) -> None:
        self.ring = Ring(folder, number, capacity)
        self.take: Callable[[], Place] = self.ring.places().__next__
        self._stack: list[Open] = []
        self._chains = Chains(lane_of)
        self.begin: Begin = self._make_begin()
        self.end: End = self._make_end()
        self.record: Record = self._make_record()
        self.open: OpenAny = self._make_open(recorder, lane_of)
        self._rare = RareRing(folder, number)
        self.annotate: Callable[[bytes], None] = self._rare.append

    def _make_begin(self) -> Begin:
        take, chains, pack, push = self.take, self._chains, BEGUN.pack_into, self._stack.append

        def begin(site: int, ctx: SpanContext, start: int) -> int:
            """Opens a span on this thread, child of `ctx.span`; returns its id."""
            chain = chains[site]
            row = chain.row
            if row < 0:
                row = chain.lane.take_chain(start)
            chain.row = row + 1
            buffer, at, at_end, number, span = take()
            hi, lo, parent, step, _ = ctx
            pack(buffer, at, site, row, step, 0, hi, lo, span, parent, start, number)
            push((buffer, at_end, number, chain))
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
            buffer, at, number, chain = pop()
            pack(buffer, at, start, end, ready, num_bytes, link, extra, key, flags, number)
            chain.row = row = chain.row - 1
            if not row & DEPTH_MASK:
                chain.row = -1
                chain.lane.release_chain(row, end)

        return end

    def _make_record(self) -> Record:
        take, chains, pack = self.take, self._chains, WHOLE.pack_into

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
            chain = chains[site]
            row = chain.row
            if row < 0:
                row = chain.lane.take_slot(start)
                chain.lane.release_slot(row, end)
            buffer, at, _, number, new_span = take()
            span = span or new_span
            hi, lo, parent, step, _ = ctx
            pack(
                buffer, at, site, row, step, key, hi, lo, span, parent, start, number,
                start, end, ready, num_bytes, link, extra, key, flags, number,
            )  # fmt: skip
            return span

        return record

    def hold(self, site: int, start: int) -> int:
        """A row in the lane of `site` for many spans one after another, until `let_go`.

        For code that packs its records itself, at places that `take` gives; what else this thread
        begins in the lane meanwhile lies deeper.
        """
        chain = self._chains[site]
        row = chain.row if chain.row >= 0 else chain.lane.take_chain(start)
        chain.row = row + 1
        return row

    def let_go(self, site: int, row: int, end: int) -> None:
        chain = self._chains[site]
        if row & DEPTH_MASK:
            chain.row = row
        else:
            chain.row = -1
            chain.lane.release_chain(row, end)

    def _make_open(self, recorder: "Recorder", lane_of: Sequence[Lane]) -> OpenAny:
        take, pack, now = self.take, BEGUN.pack_into, recorder.now

        def open_any(site: int, ctx: SpanContext, key: int = 0, start: int = 0) -> OpenSpan:
            """Opens a span that any thread may end."""
            start = start or now()
            lane = lane_of[site]
            row = lane.take_slot(start)
            place = buffer, at, _, number, span = take()
            hi, lo, parent, step, _ = ctx
            pack(buffer, at, site, row, step, key, hi, lo, span, parent, start, number)
            return OpenSpan(recorder, ctx, key, lane, row, place, start)

        return open_any

    def leave_out(self) -> None:
        """From here on spans of site 0 leave nothing; what is inside belongs to what is around."""
        begin, end, record, stack = self.begin, self.end, self.record, self._stack

        def begin_known(site: int, ctx: SpanContext, start: int) -> int:
            if site:
                return begin(site, ctx, start)
            stack.append(_LEFT_OUT)
            return ctx.span

        def end_known(*times: int, **told: int) -> None:
            if stack[-1] is _LEFT_OUT:
                stack.pop()
            else:
                end(*times, **told)

        def record_known(site: int, ctx: SpanContext, *times: int, **told: int) -> int:
            return record(site, ctx, *times, **told) if site else ctx.span

        self.begin, self.end, self.record = begin_known, end_known, record_known

    def disown(self) -> None:
        """In a forked child: the rings are the parent's, so what is written here goes nowhere."""
        self.ring.disown()
        self._rare.disown()
        self.end = lambda *_, **__: None

    def abandon(self) -> None:
        """The thread is gone; what it left open stays so, and the next thread starts afresh."""
        self._stack.clear()
        self._chains.abandon()
