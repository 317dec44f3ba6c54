"""Span files are read member by member, at any byte they end at."""

import gzip
from pathlib import Path

import pytest

from vizdist.store.otlp_reader import SpanFile, read_lines
from vizdist.store.problems import TraceError

MEMBERS = [[b"a1", b"a2"], [b"b1"], [b"c1", b"c2", b"c3"]]
PACKED = [gzip.compress(b"\n".join(lines) + b"\n", mtime=0) for lines in MEMBERS]
WHOLE = b"".join(PACKED)
ENDS = [sum(map(len, PACKED[:n])) for n in range(4)]


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_cut_at_any_byte_gives_its_whole_members_and_then_the_rest(
    tmp_path: Path, packed: bool
) -> None:
    path = tmp_path / "s.otlp.jsonl"
    content = WHOLE if packed else b"".join(line + b"\n" for part in MEMBERS for line in part)
    ends = ENDS if packed else list(range(0, len(content) + 1, 3))
    parts = MEMBERS if packed else [[line] for part in MEMBERS for line in part]
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        reader = SpanFile(path)
        num_whole = sum(end <= cut for end in ends) - 1
        head = [line.text.rstrip() for line in reader.lines()]
        assert head == [line for part in parts[:num_whole] for line in part]
        assert (reader.offset, reader.unread) == (ends[num_whole], cut - ends[num_whole])
        path.write_bytes(content)
        tail = [line.text.rstrip() for line in reader.lines()]
        assert head + tail == [line for part in MEMBERS for line in part]
        assert reader.unread == 0


def test_the_whole_lines_of_a_torn_member_can_be_salvaged(tmp_path: Path) -> None:
    path = tmp_path / "s.gz"
    lines = [b"%06d" % (n * 7919 % 1000000) for n in range(5000)]
    packed = gzip.compress(b"\n".join(lines))
    path.write_bytes(packed[: len(packed) // 2])
    reader = SpanFile(path)
    found = [line.text for line in reader.lines(salvage=True)]
    assert found == lines[: len(found)]
    assert len(found) > 1000
    assert reader.unread == len(packed) // 2


def test_damage_in_the_middle_costs_what_follows(tmp_path: Path) -> None:
    path = tmp_path / "s.gz"
    path.write_bytes(PACKED[0] + b"\x1f\x8bgarbage" + PACKED[2])
    reader = SpanFile(path)
    assert [line.text for line in reader.lines()] == MEMBERS[0]
    assert reader.damage
    assert reader.unread == len(PACKED[2]) + 9


def test_a_line_is_fetched_by_its_place(tmp_path: Path) -> None:
    path = tmp_path / "s.gz"
    path.write_bytes(WHOLE)
    for line in SpanFile(path).lines():
        assert read_lines(path, line.member, {line.line}) == {line.line: line.text}
    assert read_lines(path, ENDS[1], {7}) == {}
    assert read_lines(path, ENDS[2], {0, 2}) == {0: b"c1", 2: b"c3"}
    plain = tmp_path / "s.jsonl"
    plain.write_bytes(b"one\ntwo\n")
    assert [read_lines(plain, x.member, {x.line}) for x in SpanFile(plain).lines()] == [
        {0: b"one\n"},
        {0: b"two\n"},
    ]


def test_a_bomb_is_refused_while_it_inflates(tmp_path: Path) -> None:
    path = tmp_path / "s.gz"
    path.write_bytes(gzip.compress(b"0" * 1_000_000 + b"\n" + b"1" * 3_000_000 + b"\n"))
    with pytest.raises(TraceError, match="more than 2 MiB"):
        list(SpanFile(path, limit=2 << 20).lines())
