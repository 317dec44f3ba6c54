"""A client's socket to its master, where both are on one host; written and read by who asks."""

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from tracer.rpc.channels import CALL_S, lost
from tracer.rpc.frames import (
    FREED,
    LARGE_BYTES,
    FrameError,
    FrameReader,
    Parts,
    chunk_frames,
    freed_frame,
    small_frame,
)
from tracer.rpc.hello import hello_message, read_hello
from tracer.rpc.local_socket import Messages, receive_message, send_message, write_message
from tracer.rpc.local_wire import descriptors_of, read_welcome, unreachable
from tracer.rpc.messages import Hello
from tracer.rpc.pulse import LISTEN_S, SILENT, Pulse
from tracer.rpc.slab import ReceivedSlab, Slab
from tracer.runtime.interfaces import StepError


class LocalClientStream:
    """One call at a time. Raises StepError if the stream breaks, TimeoutError if it is late.

    `listen` begins to listen for the master's pulse, where it is slow to answer.
    """

    def __init__(
        self, path: str, address: str, client: str, secret: str, listen: Callable[[], Pulse]
    ) -> None:
        self._listen = listen
        self.peer = "the master"
        self._address = address
        self._lock = threading.Lock()
        self._is_closed = False
        self._number = 0
        self._freed: deque[int] = deque()  # the master hears of them with the next step
        try:
            self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError as error:
            raise self._lost(unreachable(path, error)) from None
        self._slab = Slab.make()
        self._messages = Messages(self._sock)
        self._reader = FrameReader()
        try:
            self._sock.settimeout(CALL_S)
            self._join(path, Hello(client, "", "both", 0, secret))
        except TimeoutError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise self._lost(unreachable(path, error)) from None
        except FrameError as error:
            self.close()
            raise self._lost(f"nobody answers at its socket {path} ({error})") from None
        except BaseException:
            self.close()
            raise

    def _join(self, path: str, hello: Hello) -> None:
        self._sock.connect(path)
        self.peer = read_hello(receive_message(self._sock)[0]).task
        send_message(self._sock, hello_message(hello), descriptors_of(self._slab))
        answer, descriptors = receive_message(self._sock)
        read_welcome(answer, descriptors)
        if descriptors:
            self._reader.block_at = ReceivedSlab(descriptors[0], self._freed.append).block

    def exchange(self, kind: int, parts: Parts, timeout_s: float) -> tuple[int, memoryview]:
        """(Ok or Err, payload) of one call of this kind."""
        with self._lock:
            try:
                return self._exchange(kind, parts, timeout_s)
            finally:
                if self._is_closed:
                    self._sock.close()

    def _exchange(self, kind: int, parts: Parts, timeout_s: float) -> tuple[int, memoryview]:
        self._number += 1
        deadline = time.monotonic() + timeout_s
        self._sock.settimeout(timeout_s)
        try:
            for buffers, _ in self._frames(kind, self._number, parts):
                write_message(self._sock, b"".join(buffers))
            return self._await(self._number, deadline)
        except TimeoutError:
            raise
        except (EOFError, OSError):
            raise self._lost(self._messages.how_it_ended) from None
        except FrameError as error:
            raise self._lost(str(error)) from None

    def _await(self, call_id: int, deadline: float) -> tuple[int, memoryview]:
        pulse = None
        try:
            while (left := deadline - time.monotonic()) > 0:
                self._sock.settimeout(min(LISTEN_S, left))
                try:
                    if (answer := self._read(call_id)) is not None:
                        return answer
                except TimeoutError:
                    pulse = pulse or self._listen()
                    if pulse.is_lost():
                        raise self._lost(SILENT) from None
            raise TimeoutError
        finally:
            if pulse is not None:
                pulse.stop()

    def _frames(self, kind: int, call_id: int, parts: Parts) -> Iterator[Parts]:
        if self._freed:
            yield freed_frame([self._freed.popleft() for _ in range(len(self._freed))])
        shared = self._slab and self._slab.frame(kind, call_id, parts)
        if shared:
            yield shared
        elif parts[1] <= LARGE_BYTES:
            yield small_frame(kind, call_id, parts)
        else:
            yield from chunk_frames(kind, call_id, parts)

    def _read(self, call_id: int) -> tuple[int, memoryview] | None:
        """Takes in what one read brings; the answer if it is among it."""
        answer = None
        for message in self._messages.read():
            for kind, number, payload in self._reader.frames(message):
                if kind == FREED and self._slab is not None:
                    self._slab.free_all(payload)
                elif number == call_id:
                    answer = kind, payload
        return answer

    def _lost(self, why: str) -> StepError:
        return lost(self.peer, self._address, "UNAVAILABLE", why)

    def close(self) -> None:
        """Also from another thread, while a step is waited for: that one then fails."""
        self._is_closed = True
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        if not self._lock.locked():
            self._sock.close()
        if self._slab is not None:
            self._slab.close()
