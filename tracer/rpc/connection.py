"""Calls with one peer, both ways, over the streams of a pair: frames in, frames out.

`control` carries what is small, `bulk` what is large. Both are the one stream of a client, and of a
local socket, where large payloads need no stream. When a stream ends the connection is lost: every
call in flight fails at once.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count

from tracer.rpc.frames import ERR, OK, Buffer, FrameError, FrameReader, Parts, small_frame
from tracer.rpc.messages import decode_error, encode_error
from tracer.rpc.pipe import Outgoing, Pipe
from tracer.rpc.spans import GRPC
from tracer.rpc.tensor_codec import UNREADABLE
from tracer.runtime import turn
from tracer.runtime.interfaces import StepError

_log = logging.getLogger(__name__)

#: what an answer's payload is handed to, or the error instead of one
OnAnswer = Callable[[memoryview, StepError | None], None]
NOTHING: Parts = ([], 0)
_EMPTY = memoryview(b"")


class Connection:
    """`wire` is what the trace says of the way its messages take."""

    def __init__(
        self,
        handlers: Mapping[int, "Handler"],
        control: Pipe,
        bulk: Pipe,
        wire: Mapping[str, str] = GRPC,
    ) -> None:
        self.peer = ""  #: the other task
        self.address = ""  #: where it serves; empty for a client
        self.control = control
        self.bulk = bulk
        self.wire = wire
        self.error: StepError | None = None  #: why it was lost
        self.sites: Mapping[int, int] = {}  #: of the spans of calls that are served here
        self.running: set[int] = set()  #: steps that the peer runs here
        self._handlers = handlers
        self._pending: dict[int, OnAnswer] = {}
        self._ids = count(1)
        self.reader = FrameReader()

    def call(self, kind: int, payload: Parts, on_answer: OnAnswer) -> None:
        """Any thread. `on_answer` runs once, on the thread that has the answer or sees the loss."""
        call_id = next(self._ids)
        self._pending[call_id] = on_answer
        if self.error is None:
            self._send(kind, call_id, payload)
        elif self._pending.pop(call_id, None):  # lost before the call was in the table
            on_answer(_EMPTY, self.error)

    def tell(self, kind: int, payload: Parts, *, now: bool) -> None:
        """A message without an answer; not `now`: it rides with the next frame."""
        frame = small_frame(kind, 0, payload)
        if now:
            self.control.send(frame)
        else:
            self.control.let_ride(frame)

    def answer(self, call_id: int, payload: Parts) -> None:
        self._send(OK, call_id, payload)

    def refuse(self, call_id: int, error: StepError) -> None:
        text = encode_error(error)
        self._send(ERR, call_id, ([text], len(text)))

    def _send(self, kind: int, call_id: int, payload: Parts) -> None:
        frame = self.control.frame(kind, call_id, payload)
        if frame is not None:
            self.control.send(frame)
        else:
            self.bulk.send_large(Outgoing(kind, call_id, payload))

    def receive(self, message: Buffer) -> None:
        """Handles one message of either stream, and what it made ready; on the loop.

        Raises FrameError. Any other error is a fault of what was called, and ends no connection.
        """
        try:
            turn.run(partial(self._dispatch, message))
        except FrameError:
            raise
        except Exception:  # noqa: BLE001
            _log.exception("while handling a message of %s", self.peer)

    def _dispatch(self, message: Buffer) -> None:
        for kind, call_id, payload in self.reader.frames(message):
            if kind == OK:
                self._answered(call_id, payload, None)
            elif kind == ERR:
                self._answered(call_id, _EMPTY, decode_error(payload))
            else:
                self._serve(kind, call_id, payload)

    def _answered(self, call_id: int, payload: memoryview, error: StepError | None) -> None:
        on_answer = self._pending.pop(call_id, None)
        if on_answer is not None:
            on_answer(payload, error)

    def _serve(self, kind: int, call_id: int, payload: memoryview) -> None:
        handler = self._handlers.get(kind)
        if handler is None:
            raise FrameError(f"frame kind {kind} is no call that is served here")
        try:
            handler(self, call_id, payload)
        except StepError as error:
            self.refuse(call_id, error)
        except UNREADABLE as error:
            raise FrameError(f"a request of kind {kind} cannot be read: {error}") from error

    def lose(self, error: StepError) -> None:
        """Fails every call in flight with `error`; on the loop. The first loss counts."""
        if self.error is not None:
            return
        self.error = error
        self.control.close()
        self.bulk.close()
        while self._pending:
            on_answer = self._pending.popitem()[1]
            try:
                turn.run(partial(on_answer, _EMPTY, error))
            except Exception:  # noqa: BLE001
                _log.exception("%s: a call in flight could not be told of %s", self.peer, error)


Handler = Callable[[Connection, int, memoryview], None]
