"""One task's ways to the others: a channel a target, a connection (two streams) a pair of tasks.

Who needs a pair's connection first opens it, and both use it; two opened at once do no harm.
"""

import asyncio
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path
from typing import Any, Literal

import grpc

from tracer.model.step import SpanContext
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.rpc.channels import (
    CALL_S,
    CONNECT_S,
    NOT_SAMPLED,
    SHUTDOWN_S,
    STREAM,
    STREAM_SERVICE,
    channel_options,
    lost,
    secret_metadata,
    step_error,
    trace_metadata,
)
from tracer.rpc.connection import Connection, Handler
from tracer.rpc.frames import FrameError
from tracer.rpc.hello import check_task, hello_message, read_hello
from tracer.rpc.local_wire import LocalConnection, LocalWire
from tracer.rpc.loop import rpc_loop
from tracer.rpc.messages import Hello
from tracer.rpc.pipe import StreamPipe
from tracer.runtime.caches import Cache
from tracer.runtime.interfaces import StepError

_log = logging.getLogger(__name__)

_LANES: tuple[Literal["control"], Literal["bulk"]] = ("control", "bulk")

_random = random.SystemRandom()

Read = Callable[[], Awaitable[Any]]
Write = Callable[[bytes], Awaitable[None]]


async def run_stream(connection: Connection, pipe: StreamPipe, read: Read, write: Write) -> None:
    """Reads and writes one stream until it ends; raises what ended it if it broke."""
    pump = asyncio.create_task(pipe.pump(write))
    try:
        while (message := await read()) is not grpc.aio.EOF:
            connection.receive(message)
    finally:
        pump.cancel()


class Transport:
    """`context` is what calls run under that have none of their own: the run's root.

    With `sockets`, a folder, tasks talk by unix sockets in it instead of gRPC streams; the rare
    calls are gRPC either way. Where `peers_cache_responses` a RecvTensor whose connection broke is
    made again.
    """

    def __init__(
        self,
        task: str,
        *,
        secret: str = "",
        recorder: Recorder = NO_RECORDER,
        context: SpanContext = NOT_SAMPLED,
        allow_proxy: bool = False,
        sockets: Path | None = None,
        peers_cache_responses: bool = False,
    ) -> None:
        self.task = task
        self.peers_cache_responses = peers_cache_responses
        self.secret = secret
        self.recorder = recorder
        self.context = context
        self.address = ""  #: where this task serves, once it does
        self.received_bytes = 0  #: of tensors from other tasks; counted on the loop
        self.loop = rpc_loop()
        self.handlers: Mapping[int, Handler] = {}  #: what peers may ask over a connection
        self.on_lost: Callable[[Connection], None] = lambda _: None
        self.local = LocalWire(self, sockets) if sockets else None
        self.num_dialed = 0
        self._options = channel_options(allow_proxy=allow_proxy)
        self._channels: Cache[str, grpc.aio.Channel] = Cache("channel", recorder)
        self._connections: dict[str, Connection] = {}
        self._lock = threading.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def connection(self, peer: str, address: str) -> Connection:
        """The pair's connection, being opened if there was none. Any thread."""
        found = self.open_connection(address)
        if found is not None:
            return found
        with self._lock:
            found = self.open_connection(address)
            if found is not None:
                return found
            made = self.local.connection() if self.local else self.stream_connection()
            made.peer, made.address = peer, address
            self._connections[address] = made
        self.loop.soon(lambda: self._start_dial(made))
        return made

    def stream_connection(self) -> Connection:
        """One whose two gRPC streams are not there yet."""
        return Connection(self.handlers, StreamPipe(self.loop), StreamPipe(self.loop))

    def _start_dial(self, connection: Connection) -> None:
        if self._is_closed:
            self.lose(connection, self._good_bye())
            return
        self.num_dialed += 1
        if self.local and isinstance(connection, LocalConnection):
            self.keep(self.local.dial(connection))
        else:
            self.keep(self._dial(connection))

    def _good_bye(self) -> StepError:
        return StepError("CANCELLED", f"{self.task} closed its connections", task=self.task)

    def open_connection(self, address: str) -> Connection | None:
        """The pair's connection if there is one."""
        found = self._connections.get(address)
        return found if found is not None and found.error is None else None

    def adopt(self, connection: Connection) -> None:
        """A peer opened a connection: use it, if there is none."""
        with self._lock:
            known = self._connections.get(connection.address)
            if connection.address and (known is None or known.error is not None):
                self._connections[connection.address] = connection

    def log_refused(self, why: Exception) -> None:
        _log.warning("%s: a stream was refused: %s", self.task, why)

    def lose(self, connection: Connection, error: StepError) -> None:
        """On the loop."""
        if connection.error is None:
            connection.lose(error)
            self.on_lost(connection)

    def keep(self, coroutine: Any) -> None:
        """Starts a coroutine that ends with this transport; on the loop."""
        task = self.loop.asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def channel(self, address: str) -> grpc.aio.Channel:
        """On the loop; one a target for as long as the task lives."""
        make = partial(grpc.aio.insecure_channel, address, options=self._options)
        return self._channels.get(address, make, self.context)

    async def _dial(self, connection: Connection) -> None:
        peer, address = connection.peer, connection.address
        number = _random.getrandbits(64)
        calls: list[Any] = []
        failure: StepError | None = None
        try:
            for lane in _LANES:
                hello = Hello(self.task, self.address, lane, number)
                calls.append(await asyncio.wait_for(self._open(connection, hello), CONNECT_S))
        except TimeoutError:
            failure = lost(peer, address, "UNAVAILABLE", f"no answer in {CONNECT_S:.0f} s")
        except grpc.aio.AioRpcError as error:
            failure = step_error(error, peer, address)
        except FrameError as error:
            failure = lost(peer, address, "FAILED_PRECONDITION", str(error))
        if failure is not None:
            for call in calls:
                call.cancel()
            self.lose(connection, failure)
            return
        for pipe, call in zip((connection.control, connection.bulk), calls, strict=True):
            assert isinstance(pipe, StreamPipe)
            self.keep(self._run(connection, pipe, call, calls))

    async def _open(self, connection: Connection, hello: Hello) -> Any:
        channel = self.channel(connection.address)
        method: Any = channel.stream_stream(f"/{STREAM_SERVICE}/{STREAM}")
        call = method(metadata=secret_metadata(self.secret))
        # the server speaks first: a call that is refused while we write does not tell us why
        answer = read_hello(await call.read())
        try:
            check_task(answer, connection.peer)
        except FrameError:
            call.cancel()
            raise
        await call.write(hello_message(hello))
        return call

    async def _run(
        self, connection: Connection, pipe: StreamPipe, call: Any, calls: Iterable[Any]
    ) -> None:
        """One stream until it ends, and with it the other of the pair."""
        peer, address = connection.peer, connection.address
        failure = lost(peer, address, "UNAVAILABLE", "")
        try:
            await run_stream(connection, pipe, call.read, call.write)
        except grpc.aio.AioRpcError as error:
            failure = step_error(error, peer, address)
        except FrameError as error:
            failure = lost(peer, address, "INTERNAL", str(error))
        finally:
            for each in calls:
                each.cancel()
            self.lose(connection, failure)

    def unary(
        self,
        peer: str,
        address: str,
        method: str,
        request: bytes,
        context: SpanContext,
        timeout_s: float = CALL_S,
        *,
        is_farewell: bool = False,
    ) -> bytes:
        """A rare call; waits for its answer. Not from the rpc thread. Raises StepError.

        A farewell is not said to a peer that was lost and has not come back: who hangs answers
        nothing, and who died knows nothing.
        """
        known = self._connections.get(address)
        loss = known.error if known is not None and is_farewell else None

        async def call() -> bytes:
            channel = self.channel(address)
            if loss is not None and channel.get_state() is not grpc.ChannelConnectivity.READY:
                raise loss
            stub: Any = channel.unary_unary(f"/{method}")
            metadata = secret_metadata(self.secret) + trace_metadata(context)
            answer: bytes = await stub(request, timeout=timeout_s, metadata=metadata)
            return answer

        try:
            return self.loop.call(call(), timeout_s + SHUTDOWN_S)
        except grpc.aio.AioRpcError as error:
            raise step_error(error, peer, address) from None
        except TimeoutError:
            raise lost(peer, address, "DEADLINE_EXCEEDED", f"no answer to {method}") from None
        except CancelledError:
            raise self._good_bye() from None

    def close(self) -> None:
        """Ends every stream and channel; waits at most 5 s."""
        self.loop.call(self._close(), SHUTDOWN_S)

    async def _close(self) -> None:
        self._is_closed = True
        for connection in list(self._connections.values()):
            self.lose(connection, self._good_bye())
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
        for channel in self._channels.clear():
            await channel.close()
