"""What goes wrong where unix sockets are dialed and doors are opened, and what is left of it."""

import errno
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.rpc.tasks import Task, eventually, pull, tasks
from tracer.rpc import local_wire
from tracer.rpc.connection import NOTHING
from tracer.rpc.frames import CLEANUP, ERR, HELLO, FrameError, chunk_frames, small_frame
from tracer.rpc.hello import hello_message, read_hello
from tracer.rpc.local_client import LocalClientStream
from tracer.rpc.local_socket import receive_message, send_message
from tracer.rpc.local_wire import LocalConnection, LocalWire, read_welcome
from tracer.rpc.messages import Hello, encode_error
from tracer.runtime.interfaces import StepError


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@pytest.fixture
def ps(folder: Path) -> Iterator[Task]:
    with tasks("ps:0", sockets=folder) as (task,):
        yield task


def no_descriptor_is_left(*_: Any) -> Any:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def knock(ps: Task) -> socket.socket:
    """A stranger at the door, greeted."""
    stranger = socket.socket(socket.AF_UNIX)
    stranger.connect(str(ps.sockets) + "/" + ps.server.address)
    assert read_hello(receive_message(stranger)[0]).task == "ps:0"
    return stranger


def open_slabs() -> set[int]:
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            if "memfd:vizdist" in str(link.readlink()):
                found.add(link.stat().st_ino)
        except FileNotFoundError:  # closed meanwhile
            continue
    return found


class FakeLoop:
    """Whoever tests it says when the time has come."""

    def __init__(self) -> None:
        self.readers: dict[str, Callable[[], None]] = {}
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.asyncio = SimpleNamespace(
            add_reader=lambda _, on_readable: self.readers.update(door=on_readable),
            remove_reader=lambda _: self.readers.clear(),
            remove_writer=lambda _: None,
        )

    def soon(self, work: Callable[[], None]) -> None:
        self.due.append((0.0, work))

    def later(self, delay_s: float, work: Callable[[], None]) -> None:
        self.due.append((delay_s, work))

    def run_due(self) -> list[float]:
        due, self.due[:] = list(self.due), []
        for _, work in due:
            work()
        return [delay_s for delay_s, _ in due]


def test_a_dial_without_a_descriptor_fails_the_call_and_says_so(
    ps: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tasks("worker:0", sockets=ps.sockets) as (worker,):
        stub = worker.stub_of(ps)
        with monkeypatch.context() as poor:
            known = {"AF_UNIX": socket.AF_UNIX, "SOCK_STREAM": socket.SOCK_STREAM}
            poor.setattr(
                local_wire, "socket", SimpleNamespace(**known, socket=no_descriptor_is_left)
            )
            error = pull(stub, "k").error()
    assert (error.code, error.task) == ("UNAVAILABLE", "ps:0")
    assert "nothing is left here for a socket to it (Too many open files; see ul" in error.message


def test_a_guest_that_cannot_be_welcomed_leaves_no_memory_behind(
    ps: Task, caplog: pytest.LogCaptureFixture
) -> None:
    before = open_slabs()
    with knock(ps) as stranger:
        stranger.shutdown(socket.SHUT_RD)
        send_message(stranger, hello_message(Hello("worker:0", "", "both", 0)), [])
        eventually(lambda: "a stream was refused" in caplog.text, "it is turned away")
    eventually(lambda: not open_slabs() - before, "its slab is closed")


def test_whatever_a_stranger_says_ends_its_own_stream_alone(
    ps: Task, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choke(_: bytes) -> Hello:
        raise MemoryError("too much of a Hello")

    monkeypatch.setattr(local_wire, "read_hello", choke)
    with knock(ps) as stranger:
        stranger.settimeout(10)
        send_message(stranger, hello_message(Hello("worker:0", "", "both", 0)), [])
        assert stranger.recv(1) == b""
    assert "a stream was refused: too much of a Hello" in caplog.text


@pytest.mark.parametrize("read", [read_hello, lambda message: read_welcome(message, [])])
def test_no_memory_is_taken_for_what_somebody_unknown_says_is_to_come(
    read: Callable[[bytes], object],
) -> None:
    (chunk,) = chunk_frames(HELLO, 0, ([bytes(8)], 8))
    message = bytearray(b"".join(chunk[0]))
    message[16:24] = (1 << 36).to_bytes(8, "little")  # 64 GiB
    with pytest.raises(FrameError, match="frame of kind 9"):
        read(bytes(message))


class Lost:
    """A transport that remembers why connections were lost."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.handlers: dict[int, Any] = {}
        self.errors: list[StepError] = []

    def lose(self, connection: LocalConnection, error: StepError) -> None:
        connection.lose(error)
        self.errors.append(error)


def test_a_door_without_a_descriptor_rests_before_it_looks_again(folder: Path) -> None:
    transport, door = Lost(), SimpleNamespace(accept=no_descriptor_is_left, close=lambda: None)
    wire = LocalWire(transport, folder)  # type: ignore[arg-type]
    wire._door = door  # type: ignore[assignment]
    wire._await_guests()
    for _ in range(2):
        transport.loop.readers["door"]()
        assert not transport.loop.readers
        assert transport.loop.run_due() == [1.0]
    transport.loop.readers["door"]()
    wire.close_door()
    transport.loop.run_due()
    assert not transport.loop.readers


def test_a_connection_that_breaks_as_it_is_written_to_says_why(folder: Path) -> None:
    transport = Lost()
    wire = LocalWire(transport, folder)  # type: ignore[arg-type]
    connection = wire.connection()
    connection.peer = "ps:0"
    mine, other = socket.socketpair()
    wire._run(connection, mine, [])
    other.close()
    connection.tell(CLEANUP, NOTHING, now=True)
    transport.loop.run_due()
    assert "the connection ended (Broken pipe)" in transport.errors[0].message


def test_a_refusal_closes_the_descriptors_that_came_with_it() -> None:
    descriptors = list(os.pipe())
    mine = tuple(descriptors)
    with pytest.raises(StepError, match="no entry"):
        read_welcome(refusing(StepError("UNAUTHENTICATED", "no entry")), descriptors)
    for descriptor in mine:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_a_client_without_a_descriptor_left_says_so_and_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tracer.rpc.local_client.socket.socket", no_descriptor_is_left)
    before = open_slabs()
    with pytest.raises(StepError, match="ulimit -n"):
        LocalClientStream(str(tmp_path / "s"), "127.0.0.1:1", "client", "", listen=pytest.fail)
    assert open_slabs() == before


def refusing(error: StepError) -> bytes:
    text = encode_error(error)
    return b"".join(small_frame(ERR, 0, ([text], len(text)))[0])
