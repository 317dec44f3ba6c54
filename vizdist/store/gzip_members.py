"""Inflates gzip files member by member, bounded, and knows what a torn or damaged end costs."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from vizdist.store.problems import refusal

BLOCK_BYTES = 1 << 18
GZIP_MAGIC = b"\x1f\x8b"


class Member:
    """One gzip member whose first bytes are `head`.

    After `blocks`: `whole` if its checksum was right, then `length` are its packed bytes and `rest`
    what was read beyond it; else `damage` says why, "" if it merely ends too soon.
    """

    def __init__(self, head: bytes) -> None:
        self.whole = False
        self.damage = ""
        self.length = 0
        self.rest = b""
        self._head = head

    def blocks(self, file: BinaryIO) -> Iterator[bytes]:
        """Inflates; `file` stands after `head`."""
        engine = zlib.decompressobj(31)
        block = self._head
        while block:
            self.length += len(block)
            while block and not engine.eof:
                try:
                    yield engine.decompress(block, 4 * BLOCK_BYTES)
                except zlib.error as error:
                    self.damage = str(error)
                    return
                block = engine.unconsumed_tail
            if engine.eof:
                self.whole = True
                self.rest = engine.unused_data
                self.length -= len(self.rest)
                return
            block = file.read(BLOCK_BYTES)


class FileBlocks:
    """All of a file in blocks, inflated if it is gzip. `torn` packed bytes gave nothing whole."""

    def __init__(self, path: Path, limit: int | None = None) -> None:
        self.torn = 0
        self.position = 0  #: packed bytes read so far
        self._path = path
        self._limit = limit

    def __iter__(self) -> Iterator[bytes]:
        total = 0
        with self._path.open("rb") as file:
            for block in self._blocks(file):
                self.position = file.tell()
                total += len(block)
                check_limit(self._path.name, total, self._limit)
                if block:
                    yield block

    def _blocks(self, file: BinaryIO) -> Iterator[bytes]:
        head = file.read(BLOCK_BYTES)
        if not head.startswith(GZIP_MAGIC):
            while head:
                yield head
                head = file.read(BLOCK_BYTES)
            return
        while head:
            member = Member(head)
            yield from member.blocks(file)
            if not member.whole:
                self.torn = member.length + len(file.read())
                return
            head = member.rest or file.read(BLOCK_BYTES)


def packed_member(text: bytes, level: int = zlib.Z_DEFAULT_COMPRESSION) -> bytes:
    """A whole member."""
    engine = zlib.compressobj(level, wbits=31)
    return engine.compress(text) + engine.flush()


def check_limit(name: str, num_bytes: int, limit: int | None) -> None:
    if limit is not None and num_bytes > limit:
        raise refusal("inflated", name, count=limit >> 20)
