"""Reads span files line by line: gzip member by member, or plain; a torn end is said, never fatal.

Our writer appends whole gzip members, so a file is good up to its last whole member whenever one
looks. A reader remembers that place: what comes after is tried again when the file has grown.
"""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vizdist.store.gzip_members import BLOCK_BYTES, GZIP_MAGIC, Member, check_limit
from vizdist.store.problems import TraceError

LINE_BYTES = 256 << 20  #: a line longer than this is refused


class Line(NamedTuple):
    """A line and where it lies: `member` is the offset of its gzip member, or its own if plain.

    One that is not `whole` is the last of a plain file, without a newline: more of it may come.
    """

    member: int
    line: int
    text: bytes
    whole: bool = True


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

        With `salvage` also the whole lines of a torn last member, for files that will not grow;
        they come again in a later call.
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
            member = Member(rest)
            lines = _lines_of_member(member, self.offset, file, self._count)
            if salvage:
                yield from lines
            else:
                held = list(lines)
                yield from held if member.whole else ()
            self.damage = member.damage
            if not member.whole:
                return
            self.offset += member.length
            rest = member.rest

    def _plain_lines(self, file: BinaryIO, salvage: bool) -> Iterator[Line]:
        while text := file.readline(LINE_BYTES):
            whole = text.endswith(b"\n")
            if not whole and not salvage:
                return
            self._count(len(text))
            yield Line(self.offset, 0, text, whole)
            self.offset += len(text)

    def _count(self, num_bytes: int) -> None:
        self.inflated += num_bytes
        check_limit(self.path.name, self.inflated, self._limit)


def _lines_of_member(
    member: Member, offset: int, file: BinaryIO, count: Callable[[int], None] = lambda _: None
) -> Iterator[Line]:
    """Whole lines; the last one needs no newline if the member is whole.

    `count` hears of every block while it is inflated. The parts of a line that goes on and on are
    joined once.
    """
    number, parts, length = 0, list[bytes](), 0
    for block in member.blocks(file):
        count(len(block))
        first, *others = block.split(b"\n")
        parts.append(first)
        length += len(first)
        if others:
            *whole, tail = b"".join(parts), *others
            for text in whole:
                yield Line(offset, number, text)
                number += 1
            parts, length = [tail], len(tail)
        if length > LINE_BYTES:
            raise TraceError(f"a line of more than {LINE_BYTES >> 20} MiB is no span file's")
    if length and member.whole:
        yield Line(offset, number, b"".join(parts))


def read_lines(path: Path, member: int, wanted: Collection[int]) -> dict[int, bytes]:
    """Some lines of a member (or the line at `member` of a plain file); those that are there."""
    with path.open("rb") as file:
        file.seek(member)
        head = file.read(BLOCK_BYTES)
        if not head.startswith(GZIP_MAGIC):
            file.seek(member)
            return {0: file.readline(LINE_BYTES)}
        found = {}
        for line in _lines_of_member(Member(head), member, file):
            if line.line in wanted:
                found[line.line] = line.text
                if len(found) == len(wanted):
                    break
        return found
