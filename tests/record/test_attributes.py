import json
import math
from typing import Any

import pytest
import torch

from tests.fakes import recorded
from tracer.model.step import trace_of_step
from tracer.record.attributes import TEXT_LIMIT, clean, clean_all
from tracer.record.otlp_writer import value_json


class Rude:
    shape = property(lambda self: 1 / 0)

    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("gpu\ud83e", "gpu\ufffd"),
        ("名字", "名字"),
        (2**64, "18446744073709551616"),
        (-(2**63), -(2**63)),
        (True, True),
        (None, "None"),
        (b"\x00", "b'\\x00'"),
        ([1, ("a\udc00", 2**70)], [1, ["a\ufffd", str(2**70)]]),
        (torch.zeros(3, 4), "Tensor torch.float32 [3, 4]"),
        (Rude(), "<Rude>"),
    ],
)
def test_any_value_is_made_fit(value: object, stored: object) -> None:
    assert clean(value) == stored
    json.dumps(clean(value)).encode()


def test_long_texts_are_cut_and_say_so() -> None:
    text = clean("x" * 5_000_000)
    assert isinstance(text, str)
    assert len(text) < TEXT_LIMIT + 50
    assert text.endswith("… (5000000 characters)")


def test_an_attribute_without_a_name_gets_one() -> None:
    assert clean_all({"": 1, "a\udc00": 2}) == {"unnamed": 1, "a\ufffd": 2}


def test_bad_values_cost_neither_the_span_nor_each_other() -> None:
    bad: dict[str, Any] = {
        "a": "gpu\ud83e",
        "b": 2**64,
        "c": None,
        "d": math.nan,
        "e": "é" * 99_999,
    }
    with recorded() as recording:
        context = trace_of_step("run", "run", 0)
        with recording.recorder.span("data.next", context, name="n\ud83e", **bad) as span:
            span.set("", torch.ones(2))
            span.set("vizdist.batch", 64)
        (seen,) = recording.spans()
    assert seen.name == "n\ufffd"
    assert seen.attributes["a"] == "gpu\ufffd"
    assert math.isnan(seen.attributes["d"])
    assert seen.attributes["vizdist.batch"] == 64
    assert set(seen.attributes) == {*bad, "unnamed", "vizdist.batch", "vizdist.wait_ns"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, '{"boolValue":true}'),
        (7, '{"intValue":"7"}'),
        (0.5, '{"doubleValue":0.5}'),
        (math.nan, '{"doubleValue":"NaN"}'),
        (-math.inf, '{"doubleValue":"-Infinity"}'),
        ('a"\n', '{"stringValue":"a\\"\\n"}'),
        ([1, "b"], '{"arrayValue":{"values":[{"intValue":"1"},{"stringValue":"b"}]}}'),
    ],
)
def test_values_are_written_as_otlp_has_them(value: object, text: str) -> None:
    assert value_json(value) == text
