"""A file of span lines is followed while another program appends to it."""

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vizdist.store.library import Library
from vizdist.store.tail import FAN_IN
from vizdist.store.trace import Trace

EPOCH = 1_700_000_000_000_000_000

Made = tuple[int, int, int]  #: span id, begin, end


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def line(*spans: Made) -> bytes:
    told = [
        {
            "traceId": f"{1:032x}",
            "spanId": f"{number:016x}",
            "name": f"work {number}",
            "startTimeUnixNano": str(EPOCH + begin),
            "endTimeUnixNano": str(EPOCH + end),
            "attributes": [{"key": "note", "value": {"stringValue": f"n{number}"}}],
        }
        for number, begin, end in spans
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": told}]}]}).encode() + b"\n"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def ids(trace: Trace) -> list[int]:
    return sorted(trace.all.span.tolist())


def rows(trace: Trace) -> dict[int, int]:
    return dict(zip(trace.all.span.tolist(), trace.all.row.tolist(), strict=True))


class Followed:
    """One file in a library of its own."""

    def __init__(self, path: Path) -> None:
        self._library = Library()
        self._id = self._library.add(path)

    @property
    def now(self) -> Trace:
        return self._library.open(self._id)


def test_only_what_was_appended_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.otlp.jsonl"
    path.write_bytes(line((1, 0, 10), (2, 20, 30)))
    followed = Followed(path)
    before = followed.now
    append(path, line((3, 40, 50)))
    after = followed.now
    assert ids(after) == [1, 2, 3]
    assert after.segments[0] is before.segments[0]
    assert after.span(3).attributes == {"note": "n3"}
    append(path, line((4, 60, 70)))
    assert ids(followed.now) == [1, 2, 3, 4]
    assert followed.now.segments[1] is after.segments[1]


def test_a_parent_that_comes_after_its_children_moves_none_of_them(tmp_path: Path) -> None:
    path = tmp_path / "x.otlp.jsonl"
    path.write_bytes(line((1, 0, 10)))
    followed = Followed(path)
    before = rows(followed.now)
    append(path, line((2, 20, 30)))
    append(path, line((3, 0, 40)))
    after = rows(followed.now)
    assert after[1] == after[2] == before[1]
    assert after[3] != after[1]
    append(path, line((4, 45, 50)))
    assert rows(followed.now)[4] == after[1]


@pytest.mark.parametrize("cut", [1, 40, -1])
def test_half_a_line_is_neither_lost_nor_doubled(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.otlp.jsonl"
    more = line((2, 20, 30))
    path.write_bytes(line((1, 0, 10)) + more[:cut])
    followed = Followed(path)
    assert followed.now
    append(path, more[cut:])
    assert ids(followed.now) == [1, 2]
    append(path, line((3, 40, 50)))
    assert ids(followed.now) == [1, 2, 3]


def test_half_a_line_is_a_torn_end_until_it_is_whole_and_then_good_or_bad(tmp_path: Path) -> None:
    path = tmp_path / "x.otlp.jsonl"
    more = line((2, 20, 30))
    path.write_bytes(line((1, 0, 10)) + more[:40])
    followed = Followed(path)
    assert told(followed.now) == [("torn", 40)]
    append(path, more[40:])
    assert told(followed.now) == []
    append(path, b"{half")
    append(path, b" and nonsense")
    assert told(followed.now) == []
    append(path, b"\n")
    assert told(followed.now) == [("line", 1)]
    assert ids(followed.now) == [1, 2]


def told(trace: Trace) -> list[tuple[str, int]]:
    return [(one.kind, one.count) for one in trace.problems]


@pytest.mark.parametrize("cut", [5, 60, -1])
def test_half_a_gzip_member_is_neither_lost_nor_doubled(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.otlp.jsonl.gz"
    more = gzip.compress(line((2, 20, 30)) + line((3, 40, 50)))
    path.write_bytes(gzip.compress(line((1, 0, 10))) + more[:cut])
    followed = Followed(path)
    assert 1 in ids(followed.now)
    append(path, more[cut:])
    trace = followed.now
    assert ids(trace) == [1, 2, 3]
    assert trace.span(3).attributes == {"note": "n3"}
    assert not trace.problems


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "x.otlp.jsonl"
    path.write_bytes(line((1, 0, 10), (2, 20, 30)))
    followed = Followed(path)
    append(path, line((3, 40, 50)))
    assert len(followed.now) == 3
    path.unlink()
    path.write_bytes(line((7, 0, 10)) + line(*((8, 0, 10),) * 9))
    assert set(ids(followed.now)) == {7, 8}
    path.write_bytes(line((9, 0, 10)))
    assert ids(followed.now) == [9]


@pytest.mark.parametrize("in_place", [True, False])
def test_a_longer_file_of_the_same_service_is_not_taken_for_one_that_grew(
    tmp_path: Path, in_place: bool
) -> None:
    """A log that was rotated: all files of a service begin with the same resource."""
    path = tmp_path / "x.otlp.jsonl"
    path.write_bytes(of_a_service(1, 2))
    followed = Followed(path)
    append(path, of_a_service(3))
    assert ids(followed.now) == [1, 2, 3]
    if not in_place:
        path.unlink()
    path.write_bytes(of_a_service(101, 102, 103, 104))
    assert ids(followed.now) == [101, 102, 103, 104]


def of_a_service(*numbers: int) -> bytes:
    """A line a span, each beginning with what is said of the service, at length."""
    resource = {"attributes": [{"key": "container", "value": {"stringValue": "a" * 600}}]}
    told = []
    for number in numbers:
        (spans,) = json.loads(line((number, 0, 10)))["resourceSpans"]
        told.append(json.dumps({"resourceSpans": [{"resource": resource, **spans}]}))
    return "".join(f"{one}\n" for one in told).encode()


def test_many_small_pieces_become_few_segments(tmp_path: Path) -> None:
    path = tmp_path / "x.otlp.jsonl"
    path.write_bytes(line((1, 0, 10)))
    followed = Followed(path)
    assert followed.now
    count = FAN_IN**2 + 3
    for number in range(2, count + 1):
        append(path, line((number, number * 20, number * 20 + 10)))
        assert len(followed.now) == number
    assert len(followed.now.segments) < 3 * FAN_IN
    assert followed.now.span(count // 2).attributes == {"note": f"n{count // 2}"}


def test_an_append_that_is_too_large_for_memory_leaves_nothing_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vizdist.store.columns.KEPT_ROWS", 20)
    path = tmp_path / "x.otlp.jsonl"
    path.write_bytes(line((1, 0, 10)))
    followed = Followed(path)
    assert ids(followed.now) == [1]
    for last in (51, 53):
        first = last - 49 if last == 51 else 52
        append(path, line(*((n, n * 20, n * 20 + 10) for n in range(first, last + 1))))
        assert ids(followed.now) == list(range(1, last + 1))


def test_a_line_that_is_none_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.otlp.jsonl"
    path.write_bytes(line((1, 0, 10)))
    followed = Followed(path)
    assert not followed.now.problems
    append(path, b"{nonsense\n" + line((2, 20, 30)))
    assert told(followed.now) == [("line", 1)]
    assert ids(followed.now) == [1, 2]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_bad_lines_after_the_last_span_are_counted_once(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"x.otlp.jsonl{'' if pack is bytes else '.gz'}"
    path.write_bytes(pack(line((1, 0, 10)) + b"{nonsense\n") + pack(b"{more\n"))
    followed = Followed(path)
    assert bad_lines(followed.now) == 2
    append(path, pack(b"{again\n" + line((2, 20, 30))))
    assert (ids(followed.now), bad_lines(followed.now)) == ([1, 2], 3)
    append(path, pack(line((3, 40, 50)) + b"{last\n"))
    assert (ids(followed.now), bad_lines(followed.now)) == ([1, 2, 3], 4)


def bad_lines(trace: Trace) -> int:
    return sum(one.count for one in trace.problems if one.kind == "line")


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), min_size=1), st.data())
@settings(max_examples=25, deadline=None)
def test_rows_never_move_and_nothing_in_them_overlaps(
    tmp_path_factory: pytest.TempPathFactory, times: list[tuple[int, int]], data: Any
) -> None:
    path = tmp_path_factory.mktemp("t") / "x.otlp.jsonl"
    spans = [(n + 1, begin, begin + length) for n, (begin, length) in enumerate(times)]
    path.write_bytes(line(spans[0]))
    followed = Followed(path)
    keys = row_keys(followed.now)
    at = 1
    while at < len(spans):
        size = data.draw(st.integers(1, 10))
        append(path, line(*spans[at : at + size]))
        at += size
        now = row_keys(followed.now)
        assert now.items() >= keys.items()
        keys = now
    assert ids(followed.now) == [number for number, *_ in spans]
    assert not any(overlaps(followed.now, row) for row in range(len(followed.now.rows)))


def row_keys(trace: Trace) -> dict[int, tuple[str, str, int]]:
    named = [(row.task, row.lane, row.depth) for row in trace.rows]
    return {span: named[row] for span, row in rows(trace).items()}


def overlaps(trace: Trace, row: int) -> bool:
    own = trace.all.take(trace.all.row == row)
    intervals: Iterable[tuple[int, int]] = sorted(zip(own.start, own.end, strict=True))
    last = 0
    for start, end in intervals:
        if start < last:
            return True
        last = max(last, end)
    return False
