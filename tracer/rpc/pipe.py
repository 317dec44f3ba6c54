"""One stream's outgoing side: frames gather, and leave as messages.

Frames sent within a turn (`tracer.runtime.turn`) leave when its piece ends; large ones a chunk at a
time, so that small ones get in between.
"""

import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tracer.rpc.frames import (
    ERR,
    LARGE_BYTES,
    MESSAGE_BYTES,
    Buffer,
    Parts,
    chunk_frames,
    small_frame,
)
from tracer.rpc.loop import RpcLoop
from tracer.rpc.messages import encode_error
from tracer.runtime import turn
from tracer.runtime.interfaces import StepError

RIDE_S = 0.01  #: how long a frame that may ride waits for another one

Ended = Callable[[bool], None]


class Outgoing:
    """A large frame on its way out. `on_end` is called once: was all of it sent?"""

    def __init__(
        self, kind: int, call_id: int, payload: Parts, on_end: Ended | None = None
    ) -> None:
        self._call_id = call_id
        self._chunks = chunk_frames(kind, call_id, payload)
        self.error: StepError | None = None  #: why it was given up
        self._is_told = False
        self._on_end = on_end

    def give_up(self, error: StepError) -> None:
        """Ends it between two chunks; the peer gets the error. Any thread."""
        self.error = error

    def next_chunk(self) -> Parts | None:
        """None once all is sent or given up."""
        if self.error is not None and not self._is_told:
            text = encode_error(self.error)
            self._is_told = True
            self._chunks = iter((small_frame(ERR, self._call_id, ([text], len(text))),))
        chunk = next(self._chunks, None)
        if chunk is None:
            self._end(is_sent=self.error is None)
        return chunk

    def close(self) -> None:
        self._chunks = iter(())
        self._end(is_sent=False)

    def _end(self, *, is_sent: bool) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(is_sent)


class Pipe:
    """What all kinds have in common; each says how its messages get out."""

    def __init__(self, loop: RpcLoop) -> None:
        self._loop = loop
        self._frames: deque[Parts] = deque()
        self._transfers: deque[Outgoing] = deque()
        self._is_ticking = False  # a look at what may ride is due
        self._riding = threading.Lock()
        self._flush_bound = self._flush  # one object, which a turn knows again
        self._is_closed = False

    def frame(self, kind: int, call_id: int, payload: Parts) -> Parts | None:
        """The one frame that carries the payload; None: it is for `send_large`."""
        return small_frame(kind, call_id, payload) if payload[1] <= LARGE_BYTES else None

    def send(self, frame: Parts) -> None:
        """Any thread. After `close` frames are dropped: who waits for an answer is told by then."""
        self._frames.append(frame)
        turn.at_end(self._flush_bound)

    def send_large(self, transfer: Outgoing) -> None:
        self._transfers.append(transfer)
        if self._is_closed:  # looked at after the append, as `close` empties after it said so
            self._drop()
        turn.at_end(self._flush_bound)

    def let_ride(self, frame: Parts) -> None:
        """Sends with the next frame, or within 10 to 20 ms."""
        self._frames.append(frame)
        with self._riding:
            if self._is_ticking:
                return
            self._is_ticking = True
        self._loop.soon(self._tick_later)

    def _tick_later(self) -> None:
        self._loop.later(RIDE_S, self._tick)

    def _tick(self) -> None:
        with self._riding:
            self._is_ticking = False
        if self._frames:
            self._rouse()

    def _flush(self) -> None:
        """Messages may leave; any thread."""
        raise NotImplementedError

    def _rouse(self) -> None:
        """The same, on the loop."""
        raise NotImplementedError

    def _next_message(self) -> bytes:
        return b"".join(self._next_buffers())

    def _next_buffers(self) -> list[Buffer]:
        buffers: list[Buffer] = []
        room = MESSAGE_BYTES
        while self._frames and room > 0:
            parts, num_bytes = self._frames.popleft()
            buffers += parts
            room -= num_bytes
        if self._transfers and room > 0:
            buffers += self._next_chunk()
        return buffers

    def _next_chunk(self) -> list[Buffer]:
        """Of the transfer whose turn it is; several large frames share the stream."""
        while self._transfers:
            transfer = self._transfers.popleft()
            chunk = transfer.next_chunk()
            if chunk is not None:
                self._transfers.append(transfer)
                return chunk[0]
        return []

    def close(self) -> None:
        """On the loop."""
        self._is_closed = True
        self._drop()
        self._rouse()

    def _drop(self) -> None:
        self._frames.clear()
        with suppress(IndexError):  # another thread may empty it as well
            while True:
                self._transfers.popleft().close()


class StreamPipe(Pipe):
    """Of a gRPC stream, which allows one unfinished write: what comes meanwhile joins the next."""

    def __init__(self, loop: RpcLoop) -> None:
        super().__init__(loop)
        self._is_called = False  # the loop has been asked to wake the pump
        self._wake = loop.future()

    def _flush(self) -> None:
        if self._loop.is_current():
            self._rouse()
        elif not self._is_called:
            self._is_called = True
            self._loop.soon(self._answer_call)

    def _answer_call(self) -> None:
        # first the flag, then the look: a frame added after the look calls again
        self._is_called = False
        self._rouse()

    def _rouse(self) -> None:
        if not self._wake.done():
            self._wake.set_result(None)

    async def pump(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Writes until closed; runs on the loop, once per stream. Errors of `write` end it."""
        while not self._is_closed:
            message = self._next_message()
            if message:
                await write(message)
            else:
                self._wake = self._loop.future()
                if not self._frames and not self._transfers and not self._is_closed:
                    await self._wake
