"""The unix socket beside a task's port: where it lies, and messages cut from its stream.

The folder of the sockets lets nobody but its owner in (mode 0700); a socket is named after the
address that the task serves at. A message on it is its length (8 bytes), then frames.
"""

import os
import socket
import stat
import struct
import tempfile
from pathlib import Path

import numpy as np

from tracer.rpc.addresses import Address, AddressError
from tracer.rpc.frames import MESSAGE_BYTES, Buffer, FrameError

RECV_BYTES = 64 * 1024
_LENGTH = struct.Struct("<Q")
_MESSAGE_LIMIT = 4 * MESSAGE_BYTES  #: a full one, with a frame and a chunk that began before
_BACKLOG = 128


def user_folder() -> Path:
    """Where the tasks that one person starts by hand find each other. Raises AddressError."""
    folder = Path(tempfile.gettempdir()) / f"vizdist.{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise AddressError(
            f"{folder} must be a folder of yours that nobody else can enter (mode 0700) to hold "
            "the sockets of --transport local; remove it, or set TMPDIR to another place"
        )
    return folder


def check_local(address: str) -> None:
    """Raises AddressError if no local socket can stand for the address."""
    if not hasattr(socket, "AF_UNIX"):
        raise AddressError(
            "--transport local needs unix sockets, which this system lacks; use --transport grpc"
        )
    if not Address.parse(address).is_loopback:
        raise AddressError(
            f"--transport local joins tasks of one host, and {address} is no loopback address; "
            "use --transport grpc, or 127.0.0.1 for every task"
        )


def socket_path(folder: Path, address: str) -> str:
    return str(folder / address)


def listen(path: str) -> socket.socket:
    """Raises AddressError. Whoever has the port owns the name: what lies there is a leftover."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        Path(path).unlink(missing_ok=True)
        door.bind(path)
        door.listen(_BACKLOG)
    except OSError as error:
        door.close()
        raise AddressError(
            f"no socket can be made at {path} ({error}); a path of at most 107 bytes in a folder "
            "of yours is needed: set TMPDIR"
        ) from None
    door.setblocking(False)
    return door


def send_message(sock: socket.socket, frames: Buffer, descriptors: list[int]) -> None:
    """A first message, which is small and always fits; it may take descriptors along."""
    socket.send_fds(sock, [_LENGTH.pack(len(frames)) + frames], descriptors)


def write_message(sock: socket.socket, frames: bytes) -> None:
    """Waits until the socket has taken all of it."""
    sock.sendall(_LENGTH.pack(len(frames)) + frames)


def receive_message(sock: socket.socket) -> tuple[bytes, list[int]]:
    """What `send_message` sent, and not a byte of what follows. Raises FrameError."""
    head, descriptors, _, _ = socket.recv_fds(sock, _LENGTH.size, 1)
    length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 0
    body = sock.recv(length) if 0 < length <= RECV_BYTES else b""
    if not head or len(body) != length or not body:
        close_all(descriptors)
        what = "ended before its Hello" if not head else "did not begin with a whole message"
        raise FrameError(f"the stream {what}")
    return body, descriptors


def close_all(descriptors: list[int]) -> None:
    """Those that came with a message and are of no use."""
    while descriptors:
        os.close(descriptors.pop())


class Sender:
    """Writes messages without waiting, and keeps what the socket did not take."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._rest: Buffer = b""

    def send(self, frames: bytes) -> bool:
        """Call it only when all before is out. False: some is left. Raises OSError."""
        head = _LENGTH.pack(len(frames))
        try:
            sent = self._sock.sendmsg((head, frames))
        except BlockingIOError:
            sent = 0
        if sent == len(head) + len(frames):
            return True
        self._rest = memoryview(head + frames)[sent:]
        return False

    def send_rest(self) -> bool:
        """False: some is left still. Raises OSError."""
        while self._rest:
            try:
                self._rest = self._rest[self._sock.send(self._rest) :]
            except BlockingIOError:
                return False
        return True


class Messages:
    """Cuts messages from a stream. Each lies in memory of its own, so tensors may look into it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._tail = b""
        self._large = memoryview(b"")  #: a message longer than one read, and how much of it is here
        self._filled = 0

    @property
    def how_it_ended(self) -> str:
        """Said of a stream that has ended; empty if it did so between two messages."""
        is_torn = self._tail or self._large
        return "the connection ended in the middle of a message" if is_torn else ""

    def read(self) -> list[Buffer]:
        """The messages that one read completes. Raises EOFError, FrameError, OSError."""
        if self._large:
            return self._read_large()
        data = self._sock.recv(RECV_BYTES)
        if not data:
            raise EOFError
        if self._tail:
            data = self._tail + data
        view, at, end = memoryview(data), 0, len(data)
        messages: list[Buffer] = []
        while end - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data, at)
            if not 0 < length <= _MESSAGE_LIMIT:
                raise FrameError(f"a message of {length} bytes; both tasks must run one version")
            start = at + _LENGTH.size
            if start + length > end:
                break
            at = start + length
            messages.append(view[start:at])
        self._tail = data[at:]
        if len(self._tail) >= _LENGTH.size:
            self._await_large()
        return messages

    def _await_large(self) -> None:
        """A long message is received straight into its final place."""
        (length,) = _LENGTH.unpack_from(self._tail)
        if length > RECV_BYTES:
            self._large = np.empty(length, np.uint8).data
            self._filled = len(self._tail) - _LENGTH.size
            self._large[: self._filled] = self._tail[_LENGTH.size :]
            self._tail = b""

    def _read_large(self) -> list[Buffer]:
        got = self._sock.recv_into(self._large[self._filled :])
        if not got:
            raise EOFError
        self._filled += got
        if self._filled < len(self._large):
            return []
        whole, self._large = self._large, memoryview(b"")
        return [whole]
