"""Frames: what one task says to another, gathered in messages of a stream.

A frame is a 16-byte header (payload length, kind, kind of the chunked frame, call id) and a payload
padded to 8 bytes, so that tensors in it are aligned. A message is one or more frames. A frame too
large for its turn travels as Chunk frames: total and offset (8 bytes each), then a piece of its
payload. Where two tasks share memory, a Block frame says where the payload lies (offset and size),
and a Freed frame which blocks are read to the end.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

RUN_STEP, RUN_GRAPH, RECV_TENSOR, CLEANUP, START_ABORT, OK, ERR, HELLO, CHUNK = range(1, 10)
BLOCK, FREED = 10, 11
RUN_CALLABLE, MARK_RECV_FINISHED, COMPLETE_INSTANCE = 12, 13, 14

LARGE_BYTES = 256 * 1024  #: payloads above this are chunked
CHUNK_BYTES = 1024 * 1024
MESSAGE_BYTES = 1024 * 1024  #: a message takes no further frame once it is this long
MAX_PAYLOAD_BYTES = 1 << 36

Buffer = Any  #: bytes, memoryview, or anything else contiguous that has a buffer
Parts = tuple[list[Buffer], int]  #: buffers in order, and how many bytes they hold

_HEADER = struct.Struct("<IBBHQ")
_CHUNK = struct.Struct("<QQ")
_BLOCK = struct.Struct("<QQ")
_PADDING = tuple(bytes(n) for n in range(8))


class FrameError(Exception):
    """Bytes that are no frame: the peer speaks another version, or is no task at all."""


def small_frame(kind: int, call_id: int, payload: Parts) -> Parts:
    parts, num_bytes = payload
    padding = -num_bytes & 7
    header = _HEADER.pack(num_bytes, kind, 0, 0, call_id)
    return [header, *parts, _PADDING[padding]], 16 + num_bytes + padding


def block_frame(kind: int, call_id: int, offset: int, size: int) -> Parts:
    """The frame of `kind` whose payload lies in shared memory."""
    return [_HEADER.pack(_BLOCK.size, BLOCK, kind, 0, call_id), _BLOCK.pack(offset, size)], 32


def freed_frame(offsets: Iterable[int]) -> Parts:
    places = list(offsets)
    return small_frame(FREED, 0, ([struct.pack(f"<{len(places)}Q", *places)], 8 * len(places)))


def freed_blocks(payload: memoryview) -> tuple[int, ...]:
    return struct.unpack(f"<{len(payload) // 8}Q", payload[: len(payload) & ~7])


def _split(message: Buffer) -> Iterator[tuple[int, int, int, memoryview]]:
    """(kind, chunked kind, call id, payload) of each frame; raises FrameError."""
    view = memoryview(message)
    at, end = 0, len(message)
    while at < end:
        if end - at < 16:
            raise FrameError(f"{end - at} bytes after the last frame; a frame header has 16")
        length, kind, chunked, _, call_id = _HEADER.unpack_from(message, at)
        at += 16
        padded = length + (-length & 7)
        if not RUN_STEP <= kind <= COMPLETE_INSTANCE or at + padded > end:
            raise FrameError(
                f"a frame of kind {kind} and {length} bytes where {end - at} bytes follow; "
                "both tasks must run the same version"
            )
        yield kind, chunked, call_id, view[at : at + length]
        at += padded


def first_frame(message: Buffer) -> tuple[int, memoryview]:
    """(kind, payload); kind 0 if there is none. A chunk or a block is taken for no other frame.

    For who is not trusted yet: no memory is taken for what it says. Raises FrameError.
    """
    kind, _, _, payload = next(_split(message), (0, 0, 0, memoryview(b"")))
    return kind, payload


def chunk_frames(kind: int, call_id: int, payload: Parts) -> Iterator[Parts]:
    """The frame of `kind`, as Chunk frames of about 1 MB."""
    parts, num_bytes = payload
    offset = 0
    for pieces, size in _windows(parts, CHUNK_BYTES):
        padding = -size & 7
        head = _HEADER.pack(size + 16, CHUNK, kind, 0, call_id) + _CHUNK.pack(num_bytes, offset)
        yield [head, *pieces, _PADDING[padding]], len(head) + size + padding
        offset += size


def _windows(parts: Sequence[Buffer], limit: int) -> Iterator[tuple[list[memoryview], int]]:
    """The parts in order, cut into windows of at most `limit` bytes, without a copy."""
    window: list[memoryview] = []
    size = 0
    for part in parts:
        whole = memoryview(part)
        view = whole.cast("B") if whole.nbytes else memoryview(b"")
        while view:
            piece = view[: limit - size]
            window.append(piece)
            size += len(piece)
            view = view[len(piece) :]
            if size == limit:
                yield window, size
                window, size = [], 0
    if size:
        yield window, size


class Assembly:
    """A chunked payload on its way in, received straight into its final place."""

    __slots__ = ("_missing", "payload")

    def __init__(self, chunk: memoryview) -> None:
        total = _CHUNK.unpack_from(chunk)[0] if len(chunk) >= 16 else 0
        if not 0 < total <= MAX_PAYLOAD_BYTES:
            raise FrameError(
                f"a chunked payload of {total} bytes; the limit is {MAX_PAYLOAD_BYTES}"
            )
        # not a bytearray, which would be filled with zeros first
        self.payload = np.empty(total, np.uint8).data
        self._missing = total

    def add(self, chunk: memoryview) -> bool:
        """Takes a piece; True once the payload is whole."""
        total, offset = _CHUNK.unpack_from(chunk) if len(chunk) >= 16 else (0, 0)
        piece = chunk[16:]
        if total != len(self.payload) or offset + len(piece) > total:
            raise FrameError(
                f"a chunk of {len(piece)} bytes at {offset} of {total} does not fit a payload "
                f"of {len(self.payload)} bytes"
            )
        self.payload[offset : offset + len(piece)] = piece
        self._missing -= len(piece)
        return self._missing == 0


class FrameReader:
    """Whole frames from the messages of one peer's streams.

    `block_at` finds the payload of a Block frame, where the two share memory.
    """

    def __init__(self, block_at: Callable[[int, int], memoryview] | None = None) -> None:
        self.block_at = block_at
        self._assemblies: dict[tuple[int, int], Assembly] = {}

    def frames(self, message: Buffer) -> Iterator[tuple[int, int, memoryview]]:
        """(kind, call id, payload); raises FrameError."""
        for kind, inner, call_id, payload in _split(message):
            if kind < CHUNK and kind != ERR:
                yield kind, call_id, payload
            elif kind == CHUNK:
                if (whole := self._assembled((inner, call_id), payload)) is not None:
                    yield inner, call_id, whole
            elif kind == BLOCK:
                yield inner, call_id, self._block(payload)
            else:
                if kind == ERR and self._assemblies:
                    self._assemblies.pop((OK, call_id), None)  # given up halfway
                yield kind, call_id, payload

    @property
    def num_partial(self) -> int:
        """Payloads of which a part is here."""
        return len(self._assemblies)

    def _block(self, payload: memoryview) -> memoryview:
        if self.block_at is None or len(payload) != _BLOCK.size:
            raise FrameError("a frame speaks of shared memory, and there is none")
        return self.block_at(*_BLOCK.unpack(payload))

    def _assembled(self, key: tuple[int, int], chunk: memoryview) -> memoryview | None:
        assembly = self._assemblies.get(key)
        if assembly is None:
            assembly = self._assemblies[key] = Assembly(chunk)
        if not assembly.add(chunk):
            return None
        del self._assemblies[key]
        return assembly.payload
