"""JSON as tracers write it is mended string by string, wherever a block of it ends."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from vizdist.store.otlp_spans import DEPTH_LIMIT, attributes_of, key_values
from vizdist.store.text_repair import JsonText, mend

BROKEN = (
    rb'{"path":"C:\Users\train.py","ok":"a\tb\\","x":[inf,-nan,N/A,1e-5,true,null],'
    b'"c":"\x01\x02","s":"inf, nan \\u0041 \\" N/A","deep":{"y":NaN,"z":-Infinity}}'
)
MENDED = {
    "path": r"C:\Users\train.py",
    "ok": "a\tb\\",
    "x": [None, None, None, 1e-5, True, None],
    "c": "��",
    "s": 'inf, nan A " N/A',
    "deep": {"y": None, "z": None},
}
REPAIRS = {"escapes": 1, "token": 5, "control": 1}


def test_each_fault_is_mended_and_counted() -> None:
    text, repairs = mend(BROKEN)
    assert json.loads(text) == MENDED
    assert {kind: count for kind, count in repairs.items() if count} == REPAIRS


@pytest.mark.parametrize("size", range(1, 40))
def test_blocks_may_end_anywhere(size: int) -> None:
    blocks = (BROKEN[at : at + size] for at in range(0, len(BROKEN), size))
    stream = JsonText(blocks)
    assert json.loads(b"".join(iter(stream.read, b""))) == MENDED
    assert {kind: count for kind, count in stream.repairs.items() if count} == REPAIRS


JSON_VALUES = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    max_leaves=20,
)


@given(JSON_VALUES, some.booleans())
def test_what_is_well_formed_stays_as_it_is(value: object, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, allow_nan=False).encode("utf-8", "replace")
    mended, repairs = mend(text)
    assert mended == text
    assert not any(repairs.values())


def test_attributes_survive_the_way_to_otlp_and_back() -> None:
    attributes = {"a": 1, "b": "x", "c": [1, "2", None], "d": {"e": 2.5, "f": True}, "g": None}
    assert attributes_of(key_values(attributes)) == attributes


def test_values_nested_too_deep_are_cut() -> None:
    deep: object = "bottom"
    for _ in range(3 * DEPTH_LIMIT):
        deep = [deep]
    value = attributes_of(key_values({"deep": deep}))["deep"]
    depth = 0
    while isinstance(value, list):
        depth, [value] = depth + 1, value
    assert value == "…"
    assert depth <= DEPTH_LIMIT + 1
