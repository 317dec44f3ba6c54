"""Texts that are no JSON are told apart, and floats that JSON cannot hold are written as texts."""

import json
import math
from pathlib import Path

import pytest

from tracer.model.cluster import ClusterError
from tracer.model.json_text import parse_json, plain_json, read_text


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("{'a': 1}", "line 1, column 2; keys and strings need double quotes"),
        ("[" * 100_000, "too deep"),
        ("[" + "1" * 5000 + "]", "4300 digits"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "key 'c' twice"),
    ],
)
def test_what_is_wrong_with_a_text_is_said(text: str, hint: str) -> None:
    with pytest.raises(ClusterError, match=f"^the file .*{hint}"):
        parse_json(text, "the file", ClusterError)


def test_a_file_that_is_no_text_is_refused_at_its_first_bad_byte(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"{\xff")
    with pytest.raises(ClusterError, match="not UTF-8 text: byte 1"):
        read_text(tmp_path / "f", "the file", ClusterError)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbf[1]")
    assert parse_json(read_text(tmp_path / "f", "f", ClusterError), "f", ClusterError) == [1]


def test_infinite_numbers_and_nan_are_written_as_texts() -> None:
    value = {"a": [1.5, math.inf, (-math.inf, math.nan)], "b": None}
    plain = plain_json(value)
    assert plain == {"a": [1.5, "Infinity", ["-Infinity", "NaN"]], "b": None}
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
