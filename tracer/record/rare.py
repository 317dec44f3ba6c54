"""A thread's second ring: attributes of rare spans, as entries of any length.

An entry is its length and then MessagePack; the length is written last, so an entry is seen only
when whole. A file whose next length is GOES_ON is full: the thread goes on in the next file.
"""

import mmap
import struct
from pathlib import Path

from tracer.record.home import RARE_SUFFIX, make_private, new_buffer

LENGTH = struct.Struct("<I")
GOES_ON = 0xFFFFFFFF
FILE_BYTES = 256 * 1024


class RareRing:
    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder
        self._number = number
        self._num_files = 0
        self._buffer: mmap.mmap | None = None
        self._offset = 0

    def append(self, entry: bytes) -> None:
        needed = LENGTH.size + len(entry)
        buffer = self._buffer
        if buffer is None or self._offset + needed + LENGTH.size > len(buffer):
            try:
                buffer = self._next_file(max(FILE_BYTES, needed + LENGTH.size))
            except OSError:  # no room: the span goes without its attributes
                return
        start = self._offset + LENGTH.size
        buffer[start : start + len(entry)] = entry
        LENGTH.pack_into(buffer, self._offset, len(entry))
        self._offset += needed

    def disown(self) -> None:
        if self._buffer is not None:
            make_private(self._buffer)

    def _next_file(self, size: int) -> mmap.mmap:
        buffer = new_buffer(self._folder / f"{self._number}-{self._num_files}{RARE_SUFFIX}", size)
        if self._buffer is not None:
            LENGTH.pack_into(self._buffer, self._offset, GOES_ON)
        self._buffer, self._offset, self._num_files = buffer, 0, self._num_files + 1
        return buffer
