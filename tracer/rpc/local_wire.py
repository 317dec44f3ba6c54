"""The unix sockets of one task: dials those of others, opens its own. All of it on the loop.

Hello goes both ways as on a gRPC stream, the dialer's with the cluster's secret; then the server
says whether it lets the dialer in. With their last word both pass the descriptor of their slab.
"""

import asyncio
import errno
import hmac
import socket
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from tracer.rpc.addresses import AddressError
from tracer.rpc.channels import CONNECT_S, REFUSED, lost
from tracer.rpc.connection import Connection, Handler
from tracer.rpc.frames import (
    ERR,
    FREED,
    OK,
    FrameError,
    first_frame,
    small_frame,
)
from tracer.rpc.hello import check_task, hello_message, read_hello
from tracer.rpc.local_pipe import LocalPipe
from tracer.rpc.local_socket import (
    Messages,
    check_local,
    close_all,
    listen,
    receive_message,
    send_message,
    socket_path,
)
from tracer.rpc.messages import Hello, decode_error, encode_error
from tracer.rpc.pulse import SILENT
from tracer.rpc.slab import ReceivedSlab, Slab
from tracer.rpc.spans import LOCAL
from tracer.runtime.interfaces import StepError

if TYPE_CHECKING:
    from tracer.rpc.transport import Transport


#: of a process or a host that has no descriptor or memory left for a socket
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_REST_S = 1.0


class LocalConnection(Connection):
    """A connection over one socket, with a slab each way."""

    def __init__(self, pipe: LocalPipe, handlers: Mapping[int, Handler]) -> None:
        super().__init__({**handlers, FREED: self._freed}, pipe, pipe, LOCAL)
        self.pipe = pipe

    def _freed(self, _: Connection, __: int, payload: memoryview) -> None:
        if self.pipe.slab is not None:
            self.pipe.slab.free_all(payload)

    def lose(self, error: StepError) -> None:
        super().lose(error)
        self.reader.block_at = None  # the memory goes with the last tensor in it


def descriptors_of(slab: Slab | None) -> list[int]:
    return [] if slab is None else [slab.descriptor]


def read_welcome(message: bytes, descriptors: list[int]) -> None:
    """The server's second word, and what came with it, which is closed unless we are let in.

    Raises the StepError that it refuses with, or FrameError.
    """
    with ExitStack() as unless_let_in:
        unless_let_in.callback(close_all, descriptors)
        _read_welcome(message)
        unless_let_in.pop_all()


def _read_welcome(message: bytes) -> None:
    kind, payload = first_frame(message)
    if kind == ERR:
        raise decode_error(payload)
    if kind != OK:
        raise FrameError(f"after Hello comes a welcome, not a frame of kind {kind}")


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _ready(channel: grpc.aio.Channel) -> None:
    while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
        await channel.wait_for_state_change(state)


def unreachable(path: str, error: OSError) -> str:
    if error.errno in _EXHAUSTED:
        return f"nothing is left here for a socket to it ({error.strerror}; see ulimit -n)"
    return f"nobody answers at its socket {path} ({error.strerror})"


def _welcome(error: StepError | None) -> bytes:
    text = encode_error(error) if error else b""
    return b"".join(small_frame(ERR if error else OK, 0, ([text], len(text)))[0])


class LocalWire:
    def __init__(self, transport: "Transport", folder: Path) -> None:
        self._transport = transport
        self._folder = folder
        self._loop = transport.loop
        self._door: socket.socket | None = None
        self._path = ""
        self._guests: set[LocalConnection] = set()

    def connection(self) -> LocalConnection:
        """One that is not joined to a socket yet; any thread."""
        return LocalConnection(LocalPipe(self._loop), self._transport.handlers)

    async def dial(self, connection: LocalConnection) -> None:
        """Joins it to its peer's socket, or loses it."""
        peer, address = connection.peer, connection.address
        path = socket_path(self._folder, address)
        with ExitStack() as unless_joined:
            try:
                check_local(address)
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                unless_joined.enter_context(sock)
                sock.setblocking(False)
                descriptors = await asyncio.wait_for(self._join(connection, sock, path), CONNECT_S)
                self._run(connection, sock, descriptors)
                unless_joined.pop_all()
                return
            except TimeoutError:
                failure = lost(peer, address, "UNAVAILABLE", f"no answer in {CONNECT_S:.0f} s")
            except (FrameError, AddressError) as error:
                failure = lost(peer, address, "FAILED_PRECONDITION", str(error))
            except OSError as error:
                failure = lost(peer, address, "UNAVAILABLE", unreachable(path, error))
            except StepError as error:
                failure = error
        self._transport.lose(connection, failure)

    async def _join(self, connection: LocalConnection, sock: socket.socket, path: str) -> list[int]:
        me = self._transport
        await self._loop.asyncio.sock_connect(sock, path)
        hello, _ = await self._receive(sock)
        check_task(read_hello(hello), connection.peer)
        mine = Hello(me.task, me.address, "both", 0, me.secret)
        send_message(sock, hello_message(mine), descriptors_of(connection.pipe.slab))
        answer, descriptors = await self._receive(sock)
        read_welcome(answer, descriptors)
        return descriptors

    async def _receive(self, sock: socket.socket) -> tuple[bytes, list[int]]:
        here = self._loop.future()
        self._loop.asyncio.add_reader(sock, lambda: _settle(here))
        try:
            await here
        finally:
            self._loop.asyncio.remove_reader(sock)
        return receive_message(sock)

    def open(self, address: str) -> None:
        """Lets others in; raises AddressError."""
        check_local(address)
        self._path = socket_path(self._folder, address)
        self._door = listen(self._path)
        self._await_guests()

    def _await_guests(self) -> None:
        if self._door is not None:
            self._loop.asyncio.add_reader(self._door, self._knock)

    def _knock(self) -> None:
        assert self._door is not None
        try:
            sock, _ = self._door.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:  # who knocks keeps knocking: look again when some is free
                self._loop.asyncio.remove_reader(self._door)
                self._loop.later(_REST_S, self._await_guests)
            return  # or it is gone again
        sock.setblocking(False)
        self._transport.keep(self._let_in(sock))

    async def _let_in(self, sock: socket.socket) -> None:
        with ExitStack() as unless_let_in:
            unless_let_in.enter_context(sock)
            try:
                guest, descriptors = await self._greet(sock, unless_let_in)
            except Exception as error:  # noqa: BLE001 (a stranger's words end his stream alone)
                self._transport.log_refused(error)
                return
            unless_let_in.pop_all()
        self._guests.add(guest)
        self._transport.adopt(guest)
        self._run(guest, sock, descriptors)

    async def _greet(
        self, sock: socket.socket, unless_let_in: ExitStack
    ) -> tuple[LocalConnection, list[int]]:
        """A guest who knows the secret, and the descriptors that came with its Hello."""
        me = self._transport
        send_message(sock, hello_message(Hello(me.task, me.address, "both", 0)), [])
        message, descriptors = await asyncio.wait_for(self._receive(sock), CONNECT_S)
        unless_let_in.callback(close_all, descriptors)
        hello = read_hello(message)
        if me.secret and not hmac.compare_digest(hello.secret.encode(), me.secret.encode()):
            send_message(sock, _welcome(StepError("UNAUTHENTICATED", REFUSED)), [])
            raise FrameError(REFUSED)
        guest = self.connection()
        unless_let_in.callback(guest.pipe.close)
        guest.peer, guest.address = hello.task, hello.address
        send_message(sock, _welcome(None), descriptors_of(guest.pipe.slab))
        return guest, descriptors

    def _run(
        self, connection: LocalConnection, sock: socket.socket, descriptors: list[int]
    ) -> None:
        """From here on its frames come and go."""
        if connection.error is not None:  # lost before it was joined
            close_all(descriptors)
            sock.close()
            return
        messages = Messages(sock)

        def on_readable() -> None:
            try:
                for message in messages.read():
                    connection.receive(message)
            except BlockingIOError:
                return
            except FrameError as error:
                self._lose(connection, "INTERNAL", str(error))
            except (EOFError, OSError):
                self._lose(connection, "UNAVAILABLE", messages.how_it_ended)

        try:
            if descriptors:
                slab = ReceivedSlab(descriptors.pop(), connection.pipe.free_later)
                connection.reader.block_at = slab.block
        except FrameError as error:
            sock.close()
            self._lose(connection, "FAILED_PRECONDITION", str(error))
            return
        self._loop.asyncio.add_reader(sock, on_readable)
        connection.pipe.attach(sock, partial(self._broke, connection))
        if connection.address:
            self._transport.keep(self._watch(connection))

    def _broke(self, connection: LocalConnection, error: OSError) -> None:
        why = f"the connection ended ({error.strerror})" if error.strerror else ""
        self._lose(connection, "UNAVAILABLE", why)

    def _lose(self, connection: LocalConnection, code: str, why: str) -> None:
        self._guests.discard(connection)
        self._transport.lose(connection, lost(connection.peer, connection.address, code, why))

    async def _watch(self, connection: LocalConnection) -> None:
        """Loses a peer that hangs (see `pulse`)."""
        channel = self._transport.channel(connection.address)
        with suppress(TimeoutError):  # it hung before the first ping
            await asyncio.wait_for(_ready(channel), CONNECT_S)
            await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
        self._lose(connection, "UNAVAILABLE", SILENT)

    def close_door(self) -> None:
        """Lets nobody in any more."""
        door, self._door = self._door, None
        if door is not None:
            self._loop.asyncio.remove_reader(door)
            door.close()
            with suppress(OSError):
                Path(self._path).unlink()

    def hang_up(self) -> None:
        """Ends what others dialed."""
        for guest in list(self._guests):
            self._lose(guest, "UNAVAILABLE", "")
