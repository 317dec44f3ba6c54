"""A thread's ring of fixed-size records, in memory-mapped files that outlive the process.

A record has two halves: the first is written when a span begins, the second when it ends. Each half
closes with the record's number, written last, so a half is seen only when it is whole; a process
may be killed at any instruction. A record whose second half is missing is the open table: what was
going on.

Files are used in turn. The collector notes in a file's header when it has taken all of it; the
thread then uses the file again, else goes on in a new one. Nothing is dropped and nobody waits
here.

x86 shows one core's stores to the others in order; elsewhere the interpreter's own work between two
fields stands in for a barrier.
"""

import itertools
import mmap
import random
import struct
from collections.abc import Iterator
from pathlib import Path

from tracer.record.home import HOT_SUFFIX, make_private, new_buffer

BEGUN = struct.Struct(
    "<IIIIQQQQqQ"
)  #: site row step key | trace_hi trace_lo span parent start | number
ENDED = struct.Struct("<qqqqQqIIQ")  #: start end ready bytes link extra | key flags | number
WHOLE = struct.Struct("<IIIIQQQQqQqqqqQqIIQ")
RECORD_BYTES = WHOLE.size

MAGIC = b"vzring01"
NUMBER = struct.Struct("<Q")
FIRST_OFFSET = 8  #: of the number before the file's first record; written by the thread
DRAINED_OFFSET = 16  #: of the file's last record number, once the collector took all; written by it
_BEGUN_WORD = BEGUN.size // 8 - 1  #: where a record's first half has its number
CAPACITY = 8191  #: records a file holds; with its header a whole MiB

#: buffer, offsets of the record's halves, number of the record, span id
Place = tuple[mmap.mmap | bytearray, int, int, int, int]


class _File:
    def __init__(self, buffer: mmap.mmap | bytearray, capacity: int) -> None:
        self.buffer = buffer
        self.capacity = capacity
        self.first = 0

    def begin(self, first: int) -> None:
        """Makes the file hold records `first + 1` onwards."""
        self.first = first
        NUMBER.pack_into(self.buffer, FIRST_OFFSET, first)
        self.buffer[: len(MAGIC)] = MAGIC

    @property
    def is_drained(self) -> bool:
        drained: int = NUMBER.unpack_from(self.buffer, DRAINED_OFFSET)[0]
        return drained == self.first + self.capacity

    def num_begun(self) -> int:
        with memoryview(self.buffer) as view, view.cast("Q") as words:
            numbers = words[_BEGUN_WORD :: RECORD_BYTES // words.itemsize].tolist()
        return sum(number == self.first + at for at, number in enumerate(numbers) if at)

    def places(self, first_span: int) -> Iterator[Place]:
        stop = RECORD_BYTES * (self.capacity + 1)
        return zip(
            itertools.repeat(self.buffer),
            range(RECORD_BYTES, stop, RECORD_BYTES),
            range(RECORD_BYTES + BEGUN.size, stop, RECORD_BYTES),
            itertools.count(self.first + 1),
            itertools.count(first_span + self.first + 1),
        )


class Ring:
    def __init__(self, folder: Path, number: int, capacity: int = CAPACITY) -> None:
        self._folder = folder
        self._number = number
        self._capacity = capacity
        self._files: list[_File] = []
        self._current: _File | None = None
        self._first_span = random.SystemRandom().randrange(1 << 62)

    def places(self) -> Iterator[Place]:
        """Where the next record goes, without end."""
        return itertools.chain.from_iterable(self._turns())

    def _turns(self) -> Iterator[Iterator[Place]]:
        for turn in itertools.count():
            file = next((f for f in self._files if f.is_drained), None) or self._new_file()
            file.begin(turn * self._capacity)
            self._current = file
            yield file.places(self._first_span)

    def _new_file(self) -> _File:
        """Where there is no room left, records go nowhere; they count as recorded all the same."""
        path = self._folder / f"{self._number}-{len(self._files)}{HOT_SUFFIX}"
        size = RECORD_BYTES * (self._capacity + 1)
        try:
            file = _File(new_buffer(path, size), self._capacity)
        except OSError:
            return _File(bytearray(size), self._capacity)
        self._files.append(file)
        return file

    def disown(self) -> None:
        for file in self._files:
            make_private(file.buffer)

    def num_begun(self) -> int:
        """Records begun so far, as they stand in the files."""
        current = self._current
        return current.first + current.num_begun() if current else 0

    @property
    def num_files(self) -> int:
        return len(self._files)

    def num_waiting(self, enough: int) -> int:
        """Files the collector has yet to take; looked up only where there are more than enough."""
        if len(self._files) <= enough:
            return 0
        return sum(not file.is_drained for file in self._files)
