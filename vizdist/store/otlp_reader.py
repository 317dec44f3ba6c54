"""Reads span files line by line: gzip member by member, or plain; torn ends are said, never fatal.

Our writer appends whole gzip members, so a file is good up to its last whole member whenever one looks.
A reader remembers that place: what comes after is tried again when the file has grown.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vizdist.store.problems import TraceError

BLOCK_BYTES = 1 << 18
LINE_BYTES = 256 << 20  #: a line longer than this is refused
UPLOAD_BYTES = 200 << 20  #: what an upload may inflate to
GZIP_MAGIC = b"\x1f\x8b"


class Line(NamedTuple):
    """A line and where it lies: `member` is the offset of its gzip member, or its own in plain files."""

    member: int
    line: int
    text: bytes


def is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == GZIP_MAGIC


class SpanFile:
    """One growing file. `offset` is the end of what was read whole, `unread` the bytes after it."""

    def __init__(self, path: Path, limit: int | None = None) -> None:
        """`limit` bounds the inflated bytes in all; TraceError beyond it."""
        self.path = path
        self.offset = 0
        self.unread = 0
        self.inflated = 0
        self.damage = ""
        self._limit = limit

    def lines(self, *, salvage: bool = False) -> Iterator[Line]:
        """The whole lines since the last call.

        With `salvage` also the whole lines of a torn last member, for files that will not grow; they
        come again in a later call.
        """
        with self.path.open("rb") as file:
            file.seek(self.offset)
            packed = file.read(2) == GZIP_MAGIC
            file.seek(self.offset)
            yield from (
                self._gzip_lines(file, salvage) if packed else self._plain_lines(file, salvage)
            )
            self.unread = file.seek(0, 2) - self.offset

    def _gzip_lines(self, file: BinaryIO, salvage: bool) -> Iterator[Line]:
        rest = b""
        while rest or (rest := file.read(BLOCK_BYTES)):
            member = _Member(self.offset, rest)
            if salvage:
                yield from self._counted(member.lines(file))
            else:
                held = list(self._counted(member.lines(file)))
                yield from held if member.whole else ()
            self.damage = member.damage
            if not member.whole:
                return
            self.offset += member.length
            rest = member.rest

    def _plain_lines(self, file: BinaryIO, salvage: bool) -> Iterator[Line]:
        while text := file.readline(LINE_BYTES):
            if not text.endswith(b"\n") and not salvage:
                return
            yield from self._counted(iter([Line(self.offset, 0, text)]))
            self.offset += len(text)

    def _counted(self, lines: Iterator[Line]) -> Iterator[Line]:
        for line in lines:
            self.inflated += len(line.text)
            if self._limit is not None and self.inflated > self._limit:
                raise TraceError(
                    f"{self.path.name} inflates to more than {self._limit >> 20} MiB, which is the "
                    "limit for uploads; open it from disk instead: vizdist serve FILE"
                )
            yield line


class _Member:
    """One gzip member, inflated block by block; `whole` once its checksum was right."""

    def __init__(self, offset: int, head: bytes) -> None:
        self.whole = False
        self.damage = ""
        self.length = 0
        self.rest = b""
        self._offset = offset
        self._head = head

    def lines(self, file: BinaryIO) -> Iterator[Line]:
        """Whole lines; the last one needs no newline if the member is whole."""
        number, tail = 0, b""
        for block in self._blocks(file):
            *whole, tail = (tail + block).split(b"\n")
            for text in whole:
                yield Line(self._offset, number, text)
                number += 1
            if len(tail) > LINE_BYTES:
                raise TraceError(f"a line of more than {LINE_BYTES >> 20} MiB is no span file's")
        if tail and self.whole:
            yield Line(self._offset, number, tail)

    def _blocks(self, file: BinaryIO) -> Iterator[bytes]:
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


def read_line(path: Path, member: int, line: int) -> bytes:
    """One line by its place; b"" if it is not there (any more)."""
    with path.open("rb") as file:
        file.seek(member)
        head = file.read(BLOCK_BYTES)
        if not head.startswith(GZIP_MAGIC):
            file.seek(member)
            return file.readline(LINE_BYTES)
        lines = _Member(member, head).lines(file)
        return next((found.text for found in lines if found.line == line), b"")
