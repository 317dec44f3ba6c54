from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracer.rpc.frames import (
    CHUNK_BYTES,
    CLEANUP,
    ERR,
    OK,
    RECV_TENSOR,
    FrameError,
    FrameReader,
    Parts,
    chunk_frames,
    small_frame,
)


def joined(*frames: Parts) -> bytes:
    for parts, num_bytes in frames:
        assert sum(map(len, parts)) == num_bytes
    return b"".join(part for parts, _ in frames for part in parts)


def read(message: bytes, reader: FrameReader | None = None) -> list[tuple[int, int, bytes]]:
    frames = (reader or FrameReader()).frames(message)
    return [(kind, call_id, bytes(payload)) for kind, call_id, payload in frames]


@given(st.lists(st.tuples(st.sampled_from([OK, CLEANUP]), st.integers(0, 2**64 - 1), st.binary())))
def test_frames_of_one_message_come_out_as_they_went_in(
    frames: list[tuple[int, int, bytes]],
) -> None:
    message = joined(*(small_frame(k, i, ([p], len(p))) for k, i, p in frames))
    assert len(message) % 8 == 0
    assert read(message) == frames


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_foreign_bytes_are_refused_or_read_but_never_crash(message: bytes) -> None:
    with suppress(FrameError):
        read(message)


@given(st.integers(1, 100))
def test_a_torn_message_is_refused(cut: int) -> None:
    message = joined(small_frame(OK, 1, ([b"x" * 84], 84)))
    with pytest.raises(FrameError):
        read(message[: len(message) - cut])


def test_a_large_payload_comes_together_from_interleaved_chunks() -> None:
    first, second = bytes(range(256)) * 10_001, b"\7" * (2 * CHUNK_BYTES)
    reader, whole = FrameReader(), []
    for one, two in zip(
        chunk_frames(OK, 1, ([first[:5], first[5:]], len(first))),
        chunk_frames(RECV_TENSOR, 1, ([second], len(second))),
        strict=False,
    ):
        whole += read(joined(one, two), reader)
    rest = list(chunk_frames(OK, 1, ([first], len(first))))[2:]
    whole += read(joined(*rest), reader)
    assert whole == [(RECV_TENSOR, 1, second), (OK, 1, first)]


def test_an_error_halfway_ends_a_chunked_answer() -> None:
    chunks = list(chunk_frames(OK, 4, ([b"a" * 3 * CHUNK_BYTES], 3 * CHUNK_BYTES)))
    reader = FrameReader()
    assert read(joined(chunks[0]), reader) == []
    assert read(joined(small_frame(ERR, 4, ([b"why"], 3))), reader) == [(ERR, 4, b"why")]
    assert [kind for kind, _, _ in read(joined(*chunks), reader)] == [OK]  # the id may come again


def test_a_chunk_that_does_not_fit_its_payload_is_refused() -> None:
    small = list(chunk_frames(OK, 1, ([b"a" * CHUNK_BYTES, b"b"], CHUNK_BYTES + 1)))
    other = list(chunk_frames(OK, 1, ([b"a" * CHUNK_BYTES, b"bb"], CHUNK_BYTES + 2)))
    with pytest.raises(FrameError, match="does not fit"):
        read(joined(small[0], other[1]))
