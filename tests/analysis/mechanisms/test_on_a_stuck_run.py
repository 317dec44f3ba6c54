"""What is said of a run that its step limit ended: the limit is the cause, not what it stopped."""

import pytest

from tracer.cli import main as tracer
from vizdist.analysis.look_next import look_next
from vizdist.analysis.mechanisms import sessions
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.report import finding_texts
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
