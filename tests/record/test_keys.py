"""Keys of loops: a number for each iteration, no text for each, and the same text comes out."""

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracer.model.step import RendezvousKey
from tracer.record import sites
from tracer.record.drain import SitesFile
from tracer.record.keys import ITERATIONS
from tracer.record.sites import Sites

FRAME = 0xFEDC_BA98_7654_3210
BASE = RendezvousKey(
    "/job:ps/task:0/device:CPU:0", 7, "/job:worker/task:0/device:CPU:0", "edge_1_x"
)


@pytest.fixture
def told(tmp_path: Path) -> Sites:
    return Sites(tmp_path / "sites")


def read(path: Path) -> SitesFile:
    file = SitesFile(path)
    file.refresh()
    return file


def key(iteration: int, frame: int = FRAME) -> str:
    return str(BASE._replace(frame=frame, iteration=iteration))


@pytest.mark.parametrize(
    "text",
    [
        "",
        str(BASE),
        "any text; of 5 words",
        f"{FRAME}:0",
        f"{FRAME}:{ITERATIONS * 3 + 7}",
        key(12345),
        f"{key(3)};9:4",
        "x;007:1",
        "x;7:01",
        f"{(1 << 64) - 1}:{(1 << 63) - 1}",
        f"{1 << 64}:1",
        ";7:8",
    ],
)
def test_a_key_is_read_as_it_was_told(told: Sites, tmp_path: Path, text: str) -> None:
    number = told.key(text)
    assert told.key(text) == number
    assert read(tmp_path / "sites").keys.text(number) == text


def test_what_its_end_says_is_frame_and_iteration(told: Sites, tmp_path: Path) -> None:
    texts = [str(BASE), f"{FRAME}:300", key(5), ""]
    numbers = np.array([told.key(text) for text in texts], np.uint32)
    keys = read(tmp_path / "sites").keys
    assert keys.frames(numbers).tolist() == [0, FRAME, FRAME, 0]
    assert keys.iterations(numbers).tolist() == [-1, 300, 5, -1]
    assert list(keys.texts(numbers)) == texts


def test_iterations_share_what_is_told_and_every_key_its_own_number(
    told: Sites, tmp_path: Path
) -> None:
    before = (tmp_path / "sites").read_bytes().count(b"\n")
    many = 4 * ITERATIONS
    numbers = [told.key(key(at)) for at in range(many)] + [told.key(key(0, 9))]
    assert len(set(numbers)) == many + 1
    file = (tmp_path / "sites").read_bytes()
    assert file.count(b"\n") - before == 1 + 12 + 1  # the base, its blocks, the other frame's


def test_a_loop_without_end_needs_no_memory_without_end(tmp_path: Path, told: Sites) -> None:
    """Neither here nor in the file, which lies in shared memory."""
    told.key(key(0))
    tracemalloc.start()
    for at in range(10_000):
        told.key(key(at))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 << 10  # 10 bytes for each
    for at in range(0, 1_000_000, ITERATIONS):
        told.key(key(at))
    assert (tmp_path / "sites").stat().st_size < 1 << 20
    assert read(tmp_path / "sites").keys.text(told.key(key(999_999))) == key(999_999)


def test_many_short_loops_take_few_numbers_and_are_read_in_no_time(
    told: Sites, tmp_path: Path
) -> None:
    """What reads sees them come while they are told; its work for each must not grow."""
    file = SitesFile(tmp_path / "sites")
    numbers, frames, busy = [], range(1, 20_001), 0.0
    for frame in frames:
        numbers += [told.key(key(at, frame)) for at in range(3)]
        if frame % 1000 == 0:
            began = time.process_time()
            file.refresh()
            assert file.keys.text(numbers[-1]) == key(2, frame)
            busy += time.process_time() - began
    assert numbers[-1] == 1 + 3 * len(frames)  # the base's, and its own for each
    assert busy < 10  # a table made anew for each needs minutes
    texts = file.keys.texts(np.array(numbers))
    assert list(texts) == [key(at, frame) for frame in frames for at in range(3)]


def test_loops_in_a_loop_are_forgotten_and_told_again(
    told: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sites, "MOST_BLOCKS", 8)
    first = told.key(key(1, 1))
    for frame in range(2, 40):
        told.key(key(1, frame))
    again = told.key(key(1, 1))
    keys = read(tmp_path / "sites").keys
    assert first != again
    assert keys.text(first) == keys.text(again) == key(1, 1)


def test_a_key_that_no_record_has_room_for_is_none(
    told: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sites, "_LAST_KEY", ITERATIONS)
    assert told.key(f"{FRAME}:0") > 0
    assert told.key(f"{FRAME}:{ITERATIONS}") == 0


def test_after_a_fork_a_loop_is_told_to_the_childs_file_too(told: Sites, tmp_path: Path) -> None:
    told.key(str(BASE))
    number = told.key(key(3))
    told.reopen(tmp_path / "child")
    again = told.key(key(3))
    child = read(tmp_path / "child").keys
    assert child.text(again) == key(3)
    assert child.text(told.key(str(BASE))) == str(BASE)
    assert child.text(number) == ""  # told to the parent's alone


def test_a_number_is_not_given_again_by_a_child_that_was_forked_as_it_was_told(
    told: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell = told._tell

    def tell_and_fork(entry: Any, **how: bool) -> None:
        tell(entry, **how)
        raise InterruptedError  # the child goes on without this thread

    monkeypatch.setattr(told, "_tell", tell_and_fork)
    with pytest.raises(InterruptedError):
        told.key("first")
    monkeypatch.undo()
    told.reopen(tmp_path / "child")
    told.key("second")
    lines = map(json.loads, (tmp_path / "child").read_bytes().splitlines())
    assert [(line["key"], line["text"]) for line in lines] == [(1, "first"), (2, "second")]
