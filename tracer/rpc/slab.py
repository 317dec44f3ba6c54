"""Shared memory in which one process hands large payloads to another of the same host.

The sender makes the slab and gives its descriptor away once; then a payload is copied into a block
and a small token says where. From then on the block is the receiver's, who maps the slab as well
and copies nothing. When the last tensor in a block dies, the receiver says so and the block is free
again. Pages are taken when they are first written, so an unused slab costs nothing.
"""

import contextlib
import fcntl
import mmap
import os
import sys
import threading
import weakref
from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from tracer.rpc.frames import FrameError, Parts, block_frame, freed_blocks

SLAB_BYTES = 512 << 20  #: of each direction of a pair; what finds no room goes by the stream
SHARED_BYTES = 64 * 1024  #: payloads from here on; below, the stream is as fast
_ALIGN = 4096


class Slab:
    """The sender's side. All methods may be called on any thread."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor = descriptor
        self._bytes = np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
        self._lock = threading.Lock()
        self._holes = [(0, size)]  # (offset, size), sorted, never adjacent
        self._taken: dict[int, int] = {}

    @classmethod
    def make(cls, size: int = SLAB_BYTES) -> "Slab | None":
        """None where the system has no such memory: then all goes by the stream."""
        if sys.platform != "linux":
            return None
        with contextlib.ExitStack() as unless_made, contextlib.suppress(OSError):
            descriptor = os.memfd_create("vizdist", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            unless_made.callback(os.close, descriptor)
            os.ftruncate(descriptor, size)
            # a slab that shrank would end its receiver with SIGBUS
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
            slab = cls(descriptor, size)
            unless_made.pop_all()
            return slab
        return None

    def frame(self, kind: int, call_id: int, payload: Parts) -> Parts | None:
        """The frame of a payload that it copies into a block; None if it goes by the stream.

        That is a small one, or one that no hole is large enough for.
        """
        parts, num_bytes = payload
        if num_bytes < SHARED_BYTES:
            return None
        memory = self._bytes
        start = self._take(num_bytes)
        if start is None:
            return None
        at = start
        for part in parts:
            if size := memoryview(part).nbytes:
                memory[at : at + size] = np.frombuffer(part, np.uint8)
                at += size
        return block_frame(kind, call_id, start, num_bytes)

    def _take(self, num_bytes: int) -> int | None:
        """The first hole with room: low pages have been touched before."""
        size = num_bytes + (-num_bytes & (_ALIGN - 1))
        with self._lock:
            for number, (offset, room) in enumerate(self._holes):
                if room >= size:
                    rest = [(offset + size, room - size)] if room > size else []
                    self._holes[number : number + 1] = rest
                    self._taken[offset] = size
                    return offset
        return None

    def free_all(self, payload: memoryview) -> None:
        """What a Freed frame names. Raises FrameError."""
        for offset in freed_blocks(payload):
            self.free(offset)

    def free(self, offset: int) -> None:
        """Raises FrameError for a block that was not given away."""
        with self._lock:
            size = self._taken.pop(offset, 0)
            if not size:
                raise FrameError(f"block {offset} of the slab was freed, and nobody has it")
            holes = self._holes
            at = bisect_left(holes, (offset, 0))
            if at < len(holes) and holes[at][0] == offset + size:
                size += holes.pop(at)[1]
            if at and sum(holes[at - 1]) == offset:
                offset, before = holes.pop(at - 1)
                at, size = at - 1, size + before
            holes.insert(at, (offset, size))

    @property
    def num_taken(self) -> int:
        """Blocks that the receiver still has."""
        return len(self._taken)

    def close(self) -> None:
        """Gives no blocks any more. The receiver's tensors live on; the memory goes with them."""
        with self._lock:
            self._holes = []
            self._bytes = np.empty(0, np.uint8)
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class ReceivedSlab:
    """The receiver's side; takes the descriptor over. Raises FrameError if it is no slab.

    `on_dead` gets a block's place when nobody looks into it any more: on any thread and at any
    point of it, as the garbage collector likes, so it must take no lock.
    """

    def __init__(self, descriptor: int, on_dead: Callable[[int], None]) -> None:
        self._on_dead = on_dead
        try:
            seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
            if not seals & fcntl.F_SEAL_SHRINK:
                raise FrameError("the peer's slab may shrink; both tasks must run the same version")
            memory = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
        except (OSError, ValueError) as error:
            raise FrameError(f"the peer's slab cannot be mapped: {error}") from None
        finally:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._bytes = memoryview(memory)

    def block(self, offset: int, size: int) -> memoryview:
        """A payload; whatever looks into it keeps its block. Raises FrameError."""
        if not (size > 0 and 0 <= offset <= len(self._bytes) - size):
            raise FrameError(
                f"a block of {size} bytes at {offset} lies outside the slab of {len(self._bytes)}"
            )
        block = self._bytes[offset : offset + size]
        weakref.finalize(block, self._on_dead, offset).atexit = False
        return block
