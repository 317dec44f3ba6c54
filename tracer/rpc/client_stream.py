"""A client's stream to its master, driven by the thread that asks.

Who waits for the answer runs the loop: no other thread has to be woken on the way.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import grpc

from tracer.rpc.channels import CALL_S, STREAM, STREAM_SERVICE, Metadata
from tracer.rpc.frames import LARGE_BYTES, FrameReader, Parts, chunk_frames, small_frame
from tracer.rpc.hello import hello_message, read_hello
from tracer.rpc.messages import Hello
from tracer.runtime.interfaces import StepError

_T = TypeVar("_T")

#: loops that wait for their next stream; none is closed, because gRPC's poller may still hold an
#: event for it, and would then fail those of other loops
_idle_loops: deque[asyncio.AbstractEventLoop] = deque()


class ClientStream:
    """One call at a time. Raises grpc.RpcError if the stream breaks, TimeoutError if it is late."""

    def __init__(self, address: str, options: Any, metadata: Metadata, client: str) -> None:
        self._loop = _idle_loops.pop() if _idle_loops else asyncio.new_event_loop()
        self._reader = FrameReader()
        self._number = 0
        self._channel: Any = None
        self._call: Any = None
        try:
            opening = self._open(address, options, metadata, Hello(client, "", "both", 0))
            self.peer = self._drive(opening, CALL_S)
        except BaseException:
            self.close()
            raise

    async def _open(self, address: str, options: Any, metadata: Metadata, hello: Hello) -> str:
        """The name of the task at the other end."""
        self._channel = grpc.aio.insecure_channel(address, options=options)
        method: Any = self._channel.stream_stream(f"/{STREAM_SERVICE}/{STREAM}")
        self._call = method(metadata=metadata)
        peer = read_hello(await self._call.read()).task
        await self._call.write(hello_message(hello))
        return peer

    def exchange(self, kind: int, parts: Parts, timeout_s: float) -> tuple[int, memoryview]:
        """(Ok or Err, payload) of one call of this kind."""
        self._number += 1
        return self._drive(self._exchange(kind, self._number, parts), timeout_s)

    async def _exchange(self, kind: int, call_id: int, parts: Parts) -> tuple[int, memoryview]:
        for message in _messages(kind, call_id, parts):
            await self._call.write(message)
        while (message := await self._call.read()) is not grpc.aio.EOF:
            for answer, number, payload in self._reader.frames(message):
                if number == call_id:
                    return answer, payload
        raise StepError("UNAVAILABLE", f"{self.peer} ended its stream with this client")

    def _drive(self, work: Coroutine[Any, Any, _T], timeout_s: float) -> _T:
        task = self._loop.create_task(work)
        late = self._loop.call_later(timeout_s, task.cancel)
        try:
            return self._loop.run_until_complete(task)
        except asyncio.CancelledError:
            raise TimeoutError from None
        except BaseException:  # also Ctrl-C, which leaves the task unfinished
            task.cancel()
            raise
        finally:
            late.cancel()

    def close(self) -> None:
        if self._loop.is_running():  # another thread waits on it for a step
            self._loop.call_soon_threadsafe(self._call.cancel)
            return
        self._loop.run_until_complete(self._close())
        _idle_loops.append(self._loop)

    async def _close(self) -> None:
        if self._call is not None:
            self._call.cancel()
        if self._channel is not None:
            await self._channel.close()


def _messages(kind: int, call_id: int, parts: Parts) -> Iterator[bytes]:
    if parts[1] <= LARGE_BYTES:
        yield b"".join(small_frame(kind, call_id, parts)[0])
        return
    for buffers, _ in chunk_frames(kind, call_id, parts):
        yield b"".join(buffers)
