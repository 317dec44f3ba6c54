"""The outgoing side of a unix socket: whoever has something to send writes it, and never waits."""

import socket
import threading
from collections import deque
from collections.abc import Callable

from tracer.rpc.frames import LARGE_BYTES, Buffer, Parts, freed_frame, small_frame
from tracer.rpc.local_socket import Sender
from tracer.rpc.loop import RpcLoop
from tracer.rpc.pipe import RIDE_S, Pipe
from tracer.rpc.slab import SHARED_BYTES, Slab


class LocalPipe(Pipe):
    """Frames gather until it is attached to a socket."""

    def __init__(self, loop: RpcLoop) -> None:
        super().__init__(loop)
        self.slab = Slab.make()
        self._sock: socket.socket | None = None
        self._sender: Sender | None = None  # while it is open
        self._is_full = False  # the socket has not taken all of the last message
        self._writing = threading.Lock()
        self._freed: deque[int] = deque()  # blocks of the peer's slab
        self._freed_is_due = False
        self._on_broken: Callable[[OSError], None] = lambda _: None

    def attach(self, sock: socket.socket, on_broken: Callable[[OSError], None]) -> None:
        """On the loop; `on_broken` is called there too."""
        self._sock = sock
        self._on_broken = on_broken
        self._sender = Sender(sock)
        self._flush()

    def frame(self, kind: int, call_id: int, payload: Parts) -> Parts | None:
        """By shared memory if that is worth it and there is room."""
        if payload[1] >= SHARED_BYTES and self.slab is not None:
            shared = self.slab.frame(kind, call_id, payload)
            if shared is not None:
                return shared
        return small_frame(kind, call_id, payload) if payload[1] <= LARGE_BYTES else None

    def free_later(self, offset: int) -> None:
        """Nobody here looks into a block any more; the peer hears of it with the next frame.

        The garbage collector may call this at any point of any thread: it takes no lock.
        """
        self._freed.append(offset)
        if not self._freed_is_due:
            self._freed_is_due = True
            self._loop.soon(self._freed_later)

    def _freed_later(self) -> None:
        self._loop.later(RIDE_S, self._freed_tick)

    def _freed_tick(self) -> None:
        self._freed_is_due = False
        self._flush()

    def _flush(self) -> None:
        # whoever finds the lock taken may go: its holder looks again once it has let go
        while self._can_write() and self._writing.acquire(blocking=False):
            try:
                self._write()
            finally:
                self._writing.release()

    _rouse = _flush

    def _can_write(self) -> bool:
        has_more = self._frames or self._transfers or self._freed
        return bool(has_more and self._sender is not None and not self._is_full)

    def _write(self) -> None:
        """All that is there, as long as the socket takes it."""
        try:
            while self._sender is not None and not self._is_full:
                message = self._next_message()
                if not message:
                    return
                if not self._sender.send(message):
                    self._is_full = True
                    self._loop.soon(self._await_room)
        except OSError as error:
            self._break(error)

    def _break(self, error: OSError) -> None:
        self._sender = None
        self._loop.soon(lambda: self._on_broken(error))

    def _next_buffers(self) -> list[Buffer]:
        buffers = super()._next_buffers()
        if self._freed:
            freed = [self._freed.popleft() for _ in range(len(self._freed))]
            buffers += freed_frame(freed)[0]
        return buffers

    def _await_room(self) -> None:
        if self._sock is not None:
            self._loop.asyncio.add_writer(self._sock, self._write_rest)

    def _write_rest(self) -> None:
        if self._sock is None or self._sender is None:
            return
        try:
            if not self._sender.send_rest():
                return
        except OSError as error:
            self._break(error)
        self._loop.asyncio.remove_writer(self._sock)
        self._is_full = False
        self._flush()

    def close(self) -> None:
        """On the loop."""
        with self._writing:
            super().close()
            self._sender = None
            sock, self._sock = self._sock, None
        if sock is not None:
            self._loop.asyncio.remove_writer(sock)
            self._loop.asyncio.remove_reader(sock)
            sock.close()
        if self.slab is not None:
            self.slab.close()
