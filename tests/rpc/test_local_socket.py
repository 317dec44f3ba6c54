"""Messages on a unix socket, however the stream is cut."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracer.rpc.frames import FrameError
from tracer.rpc.local_socket import (
    RECV_BYTES,
    Messages,
    Sender,
    receive_message,
    send_message,
    write_message,
)


@contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def on_the_wire(message: bytes) -> bytes:
    return struct.pack("<Q", len(message)) + message


def read_all(messages: Messages) -> list[bytes]:
    """Until nothing is there."""
    found: list[bytes] = []
    with suppress(BlockingIOError):
        while True:
            found += [bytes(message) for message in messages.read()]
    return found


SOME = st.one_of(
    st.binary(min_size=1, max_size=40),
    st.integers(RECV_BYTES - 20, RECV_BYTES + 20).map(lambda n: bytes([n % 251]) * n),
)


@given(st.lists(SOME, max_size=5), st.lists(st.integers(1, 90_000), max_size=8))
@settings(max_examples=60)
def test_messages_come_out_whole_however_the_stream_is_cut(
    sent: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(map(on_the_wire, sent))
    with pair() as (one, other):
        other.setblocking(False)
        messages, found, at = Messages(other), [], 0
        for cut in (*cuts, *[90_000] * (len(stream) // 90_000 + 1)):
            one.sendall(stream[at : at + cut])
            at += cut
            found += read_all(messages)
        assert found == sent
        assert messages.how_it_ended == ""


@pytest.mark.parametrize("length", [20, RECV_BYTES, 3 * RECV_BYTES])
def test_an_end_in_the_middle_of_a_message_is_told_apart(length: int) -> None:
    with pair() as (one, other):
        messages = Messages(other)
        one.sendall(on_the_wire(b"x") + on_the_wire(bytes(length))[:-1])
        one.close()
        found: list[bytes] = []
        with suppress(EOFError):
            while True:
                found += [bytes(message) for message in messages.read()]
        assert found == [b"x"]
        assert messages.how_it_ended == "the connection ended in the middle of a message"


@given(st.binary(min_size=8, max_size=64))
def test_foreign_bytes_are_refused_or_wait_but_never_crash(data: bytes) -> None:
    with pair() as (one, other):
        other.setblocking(False)
        one.sendall(data)
        with suppress(FrameError):
            read_all(Messages(other))


def test_a_sender_keeps_what_the_socket_does_not_take() -> None:
    message = bytes(range(256)) * 4096
    with pair() as (one, other):
        one.setblocking(False)
        other.setblocking(False)
        sender, messages = Sender(one), Messages(other)
        assert not sender.send(message)
        found = read_all(messages)
        while not sender.send_rest():
            found += read_all(messages)
        assert found + read_all(messages) == [message]


def test_a_first_message_takes_nothing_of_what_follows_it() -> None:
    with pair() as (one, other):
        send_message(one, b"hello", [])
        write_message(one, b"frames")
        assert receive_message(other) == (b"hello", [])
        assert [bytes(message) for message in Messages(other).read()] == [b"frames"]


@pytest.mark.parametrize("first", [b"", b"GET", b"GET / HTTP/1.1\r\n\r\n", on_the_wire(b"ab")[:-1]])
def test_a_first_message_that_is_none_is_refused_in_words(first: bytes) -> None:
    with pair() as (one, other):
        one.sendall(first)
        one.shutdown(socket.SHUT_WR)
        with pytest.raises(FrameError, match=r"the stream (ended before|did not begin)"):
            receive_message(other)
