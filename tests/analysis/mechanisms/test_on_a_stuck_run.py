"""What is said of a run that its step limit ended: the limit is the cause, not what it stopped."""

import re

import pytest

from tracer.cli import main as tracer
from vizdist.analysis.look_next import look_next
from vizdist.analysis.mechanisms import failures, sessions
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.report import finding_texts, report_text
from vizdist.store.trace import Trace, open_trace


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    out = tmp_path_factory.mktemp("run") / "deadlock.trace"
    flags = ["--in-process", "--step-timeout", "1", "--out", str(out)]
    assert tracer(["run", "deadlock", *flags]) == 1
    return open_trace(out)


def test_an_op_that_the_step_limit_stopped_is_not_said_to_be_the_cause(stuck: Trace) -> None:
    says, remedy = finding_texts(look_next(stuck)[0], "en")
    assert says == "8 spans failed, on worker:0, worker:1."  # of the run itself nothing is said
    cause, stood = remedy.split(". ")
    assert cause == "The cause is this: step 1 did not end within 1 s"
    assert stood in {f"take_{side} on worker:0 is where it stood." for side in ("left", "right")}


def test_a_step_that_was_told_no_id_is_said_to_have_none(stuck: Trace) -> None:
    found = sessions.find(OneStep(stuck, stuck.step(1)))
    assert found is not None
    assert found.step_id == ""
    assert next(iter(sessions.tell(found, "en"))) == f"  session {found.handle}"


def test_an_op_that_was_cancelled_for_the_cause_is_derived_and_there_is_no_root(
    stuck: Trace,
) -> None:
    found = failures.find(OneStep(stuck, stuck.step(1)))
    assert found is not None
    assert {each.role for each in found.failures} == {"derived"}
    told = "\n".join(failures.tell(found, "en"))
    assert "derived  Dequeue operation of FIFOQueue 'left' was cancelled" in told


def test_in_chinese_lists_and_sentences_are_joined_as_chinese_joins_them(stuck: Trace) -> None:
    told = report_text(stuck, 1, "zh")
    assert "worker:0、worker:1 上有 8 个 span 出错。原因是：step 1 did not end within 1 s。" in told
    assert "没有 fetch 需要：token、prime、nothing" in told
    assert "1 s。记录了 1 步。" in told
    assert "\n  主控 " in told
    assert not re.search("。 (?! )", told)
