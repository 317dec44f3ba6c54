"""Shared memory between two processes: here both ends are in one, which maps the slab twice."""

import fcntl
import gc
import mmap
import os
import tempfile

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tracer.rpc.frames import OK, Buffer, FrameError, FrameReader, Parts
from tracer.rpc.slab import SHARED_BYTES, ReceivedSlab, Slab

PAGE = 4096


class Ends:
    """A slab, and what its receiver sees of it."""

    def __init__(self, size: int) -> None:
        slab = Slab.make(size)
        assert slab is not None
        self.slab = slab
        self.dead: list[int] = []
        received = ReceivedSlab(os.dup(slab.descriptor), self.dead.append)
        self.reader = FrameReader(received.block)

    def across(self, *parts: Buffer) -> memoryview:
        frame = self.slab.frame(OK, 1, whole(*parts))
        assert frame is not None
        ((kind, call_id, payload),) = self.reader.frames(b"".join(frame[0]))
        assert (kind, call_id) == (OK, 1)
        return payload


def whole(*parts: Buffer) -> Parts:
    return list(parts), sum(memoryview(part).nbytes for part in parts)


def test_a_payload_comes_out_as_it_went_in() -> None:
    ends = Ends(1 << 20)
    numbers = np.arange(20_000, dtype=np.float32)
    assert ends.across(b"head", b"", numbers, bytes(4)) == b"head" + numbers.tobytes() + bytes(4)


def test_only_what_is_large_is_shared() -> None:
    ends = Ends(1 << 20)
    assert ends.slab.frame(OK, 1, whole(bytes(SHARED_BYTES - 1))) is None
    assert ends.slab.frame(OK, 1, whole(bytes(SHARED_BYTES))) is not None


def test_a_block_is_its_receivers_until_the_last_tensor_in_it_dies() -> None:
    ends = Ends(1 << 20)
    payload = ends.across(np.ones(SHARED_BYTES // 4, np.float32))
    tensor = torch.frombuffer(payload, dtype=torch.float32)
    part = tensor[100:104].view(2, 2)
    del payload, tensor
    gc.collect()
    assert ends.dead == []
    part += 1  # the receiver's own memory
    assert part.tolist() == [[2, 2], [2, 2]]
    del part
    assert ends.dead == [0]
    assert ends.slab.num_taken == 1  # the sender has not heard of it yet
    ends.slab.free(0)
    assert ends.slab.num_taken == 0


def test_tensors_outlive_both_ends() -> None:
    ends = Ends(1 << 20)
    tensor = torch.frombuffer(ends.across(bytes(range(256)) * 256), dtype=torch.uint8)
    ends.slab.close()
    assert ends.slab.frame(OK, 1, whole(bytes(SHARED_BYTES))) is None
    del ends
    gc.collect()
    assert tensor[-3:].tolist() == [253, 254, 255]


def test_a_full_slab_takes_nothing_and_goes_on_once_a_block_is_free() -> None:
    ends = Ends(4 * SHARED_BYTES)
    half = bytes(2 * SHARED_BYTES)
    held = [ends.across(half), ends.across(half)]
    assert ends.slab.frame(OK, 1, whole(half)) is None
    held.pop(0)
    ends.slab.free(ends.dead.pop())
    assert len(ends.across(half)) == len(half)
    del held


@given(st.lists(st.tuples(st.integers(1, 9 * PAGE), st.booleans()), max_size=40))
def test_blocks_never_overlap_and_holes_grow_together_again(wanted: list[tuple[int, bool]]) -> None:
    size = 64 * PAGE
    slab = Slab.make(size)
    assert slab is not None
    taken: dict[int, int] = {}
    for num_bytes, frees in wanted:
        if frees and taken:
            offset = sorted(taken)[num_bytes % len(taken)]
            slab.free(offset)
            del taken[offset]
        elif (offset := slab._take(num_bytes)) is not None:  # type: ignore[assignment]
            assert all(
                offset + num_bytes <= other or other + length <= offset
                for other, length in taken.items()
            )
            assert offset + num_bytes <= size
            taken[offset] = num_bytes
    for offset in taken:
        slab.free(offset)
    assert slab._take(size) == 0
    slab.close()


def test_a_block_is_freed_once() -> None:
    ends = Ends(1 << 20)
    ends.across(bytes(SHARED_BYTES))
    ends.slab.free(0)
    for offset in (0, PAGE):
        with pytest.raises(FrameError, match="nobody has it"):
            ends.slab.free(offset)


@pytest.mark.parametrize(("offset", "size"), [(0, 0), (1 << 20, 1), (4096, 1 << 20), (2**63, 8)])
def test_a_block_outside_the_slab_is_refused(offset: int, size: int) -> None:
    ends = Ends(1 << 20)
    block_at = ends.reader.block_at
    assert block_at is not None
    with pytest.raises(FrameError, match="outside the slab"):
        block_at(offset, size)


def test_what_could_shrink_under_its_reader_is_no_slab() -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(1 << 20)
        with pytest.raises(FrameError, match=r"shrink|cannot be mapped"):
            ReceivedSlab(os.dup(file.fileno()), lambda _: None)


def test_without_such_memory_there_is_no_slab(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError("no memory of this kind here")

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert Slab.make() is None


@pytest.mark.parametrize(("room", "fails"), [(os, "ftruncate"), (fcntl, "fcntl"), (mmap, "mmap")])
def test_a_slab_that_cannot_be_made_leaves_no_descriptor_open(
    monkeypatch: pytest.MonkeyPatch, room: object, fails: str
) -> None:
    made: list[int] = []
    make = os.memfd_create

    def noted(name: str, flags: int) -> int:
        made.append(make(name, flags))
        return made[0]

    def refuse(*_: object) -> int:
        raise OSError("no room for it")

    monkeypatch.setattr(os, "memfd_create", noted)
    monkeypatch.setattr(room, fails, refuse)
    assert Slab.make(1 << 20) is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(made[0])
