"""What the picture of calls says of those that are drawn as one."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.analysis.test_call_sequence import call
from vizdist.analysis.call_sequence import Bundle, Call, CallSequence
from vizdist.figures.call_lines import call_lines
from vizdist.i18n import Lang
from vizdist.store.steps import StepInfo

VALUE = call(0)  # of 8 B
DEAD, SIGNAL = replace(VALUE, bytes=0, is_dead=True), replace(VALUE, bytes=0, is_control=True)
DEAD_SIGNAL = replace(DEAD, is_control=True)
LOST = replace(VALUE, bytes=0, is_failed=True)


def reply(calls: Sequence[Call], lang: Lang = "en") -> str:
    step = StepInfo(1, 7, 1, 0, 1000, "worker:0", 1, True)
    found = CallSequence(step, "worker:0", True, ["worker:0", "ps:0"], [Bundle(calls)])
    return str(call_lines(found, lang)["bundles"][0]["reply"]).replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([VALUE, VALUE], "2 values, 16 B"),
        ([VALUE, DEAD, VALUE, DEAD_SIGNAL, DEAD], "2 values, 16 B, 3 dead"),
        ([VALUE, SIGNAL, DEAD], "1 value, 8 B, 1 dead, 1 control signal"),
        ([DEAD, DEAD], "2 dead"),
        ([SIGNAL, SIGNAL], "2 control signals"),
        ([VALUE, LOST], "1 value, 8 B"),
        ([call(0, "RunGraph"), call(1, "RunGraph")], ""),
    ],
)
def test_dead_tensors_and_control_signals_are_no_values(calls: list[Call], said: str) -> None:
    assert reply(calls) == said


def test_all_times_beside_the_picture_have_one_unit() -> None:
    step = StepInfo(1, 7, 1, 0, 16_164_000, "worker:0", 1, True)
    ticks = call_lines(CallSequence(step, "worker:0", True, ["worker:0"], []), "en")["ticks"]
    assert [text for _, text in ticks] == ["0 ms", "5 ms", "10 ms", "15 ms"]


def test_clauses_are_joined_as_chinese_does() -> None:
    assert reply([VALUE, DEAD], "zh") == "1 个值，8 B，1 个死张量"
