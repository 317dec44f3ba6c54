"""One task's gRPC server: the unary services and the frame streams, on one port."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import grpc

from tracer.model.fault import Fault
from tracer.rpc.addresses import Address, AddressError, listening_pid
from tracer.rpc.channels import (
    CONNECT_S,
    REFUSED,
    SERVER_OPTIONS,
    SHUTDOWN_S,
    STREAM,
    STREAM_SERVICE,
    has_secret,
    lost,
)
from tracer.rpc.connection import Connection
from tracer.rpc.faults import let_frames_fail
from tracer.rpc.frame_service import FrameService
from tracer.rpc.frames import FrameError
from tracer.rpc.hello import hello_message, read_hello
from tracer.rpc.local_socket import check_local
from tracer.rpc.messages import Hello
from tracer.rpc.pipe import StreamPipe
from tracer.rpc.services import UnaryServices
from tracer.rpc.transport import Transport, run_stream
from tracer.runtime.interfaces import ServedMaster, ServedWorker, StepError

_log = logging.getLogger(__name__)


def serve(
    transport: Transport, worker: ServedWorker, master: ServedMaster | None, address: str
) -> "TaskServer":
    """Binds and serves until `stop`; port 0 lets the system choose.

    Raises AddressError: the port is taken, or the address is open to others and there is no secret.
    """
    wanted = Address.parse(address)
    if not wanted.is_loopback and not transport.secret:
        raise AddressError(
            f"{address} can be reached from other machines, and this cluster has no secret; "
            "give every task the same --secret-file, or serve on 127.0.0.1"
        )
    if transport.local is not None:
        check_local(address)
    server = TaskServer(transport, worker, master)
    transport.loop.call(server.start(wanted), CONNECT_S)
    return server


class TaskServer:
    def __init__(
        self, transport: Transport, worker: ServedWorker, master: ServedMaster | None
    ) -> None:
        self._transport = transport
        self._frames = FrameService(transport, worker, master)
        self._services = UnaryServices(transport, worker, master)
        self._half_open: dict[tuple[str, int], Connection] = {}
        self._streams: set[asyncio.Task[Any]] = set()
        self._server: Any = None
        transport.handlers = self._frames.handlers
        transport.on_lost = self._frames.peer_was_lost

    @property
    def address(self) -> str:
        """Host and chosen port."""
        return self._transport.address

    async def start(self, wanted: Address) -> None:
        """On the loop."""
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        stream: Any = grpc.stream_stream_rpc_method_handler(self._exchange)
        frames = grpc.method_handlers_generic_handler(STREAM_SERVICE, {STREAM: stream})
        self._server.add_generic_rpc_handlers((frames, *self._services.handlers))
        try:
            port = self._server.add_insecure_port(str(wanted))
        except RuntimeError as error:
            raise _unbindable(wanted, error) from None
        self._transport.address = str(wanted._replace(port=port))
        if self._transport.local is not None:
            try:
                self._transport.local.open(self._transport.address)
            except AddressError:
                await self._server.stop(None)
                raise
        await self._server.start()

    def let_frames_fail(self, faults: Sequence[Fault]) -> None:
        """Before any peer knows the address."""
        transport = self._transport
        let_frames_fail(self._frames.handlers, faults, transport.loop, transport.recorder)

    def stop(self) -> None:
        """Ends streams and calls; waits at most 5 s. The transport stays usable for dialing."""
        try:
            self._transport.loop.call(self._stop(), SHUTDOWN_S)
        except TimeoutError:
            _log.warning("%s: the server did not stop in %.0f s", self._transport.task, SHUTDOWN_S)
        self._services.close()

    async def _stop(self) -> None:
        if self._transport.local is not None:
            self._transport.local.close_door()
        self.hang_up()
        await self._server.stop(1.0)

    def hang_up(self) -> None:
        """Ends every stream of a peer; on the loop."""
        for task in list(self._streams):
            task.cancel()
        if self._transport.local is not None:
            self._transport.local.hang_up()

    async def _exchange(self, _: Any, context: Any) -> None:
        """One stream of a peer, from its Hello to its end."""
        if not has_secret(context.invocation_metadata(), self._transport.secret):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, REFUSED)
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            await self._serve_stream(context)
        except asyncio.CancelledError:
            if not context.cancelled():  # it was not the peer who ended it
                with suppress(grpc.aio.BaseError):
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "the task stopped")
            raise
        except FrameError as error:
            self._transport.log_refused(error)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            self._streams.discard(task)

    async def _serve_stream(self, context: Any) -> None:
        transport = self._transport
        await context.write(hello_message(Hello(transport.task, transport.address, "both", 0)))
        try:
            hello = read_hello(await asyncio.wait_for(context.read(), CONNECT_S))
        except TimeoutError:
            raise FrameError(f"no Hello came in {CONNECT_S:.0f} s") from None
        connection, pipe = self._seat(hello)
        try:
            await run_stream(connection, pipe, context.read, context.write)
        finally:
            self._half_open.pop((hello.task, hello.connection), None)
            transport.lose(connection, _gone(hello.task, hello.address or context.peer()))

    def _seat(self, hello: Hello) -> tuple[Connection, StreamPipe]:
        """The connection that a stream belongs to, and which of its pipes it is.

        The two streams of a pair may come in either order.
        """
        key = (hello.task, hello.connection)
        connection = self._half_open.pop(key, None)
        if connection is None:
            connection = self._transport.stream_connection()
            connection.peer, connection.address = hello.task, hello.address
            if hello.lane != "both":
                self._half_open[key] = connection
        if hello.lane == "both":
            connection.bulk = connection.control
        pipe = connection.bulk if hello.lane == "bulk" else connection.control
        assert isinstance(pipe, StreamPipe)
        if hello.lane != "bulk":
            self._transport.adopt(connection)
        return connection, pipe


def _gone(task: str, where: str) -> StepError:
    return lost(task, where, "UNAVAILABLE", "the connection ended")


def _unbindable(wanted: Address, error: RuntimeError) -> AddressError:
    pid = listening_pid(wanted.port) if wanted.port else None
    if pid is not None:
        return AddressError(
            f"port {wanted.port} of {wanted.host} is in use by process {pid}; "
            "stop it, or use port 0 to have a free one chosen"
        )
    return AddressError(
        f"{wanted} cannot be bound: the port is in use, or {wanted.host} is no address of this "
        f"machine ({error})"
    )
