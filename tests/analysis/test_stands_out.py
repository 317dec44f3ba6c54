"""What of a run stands out: slow steps with their cause, and the longest stalls, each told once."""

from pathlib import Path

import pytest

from tests.analysis.sample_run import SLOW_NS, SLOW_STEP, sample_run
from tests.store.sample_trace import EPOCH, training_step, write_trace
from vizdist.analysis.stands_out import MOST, stands_out
from vizdist.store.columns import SpanRecord
from vizdist.store.trace import Trace, open_trace


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return sample_run(tmp_path_factory.mktemp("sample") / "x.trace")


def test_a_step_that_took_far_longer_comes_first_with_its_cause(sample: Trace) -> None:
    first, *rest = stands_out(sample)
    assert (first.key, first.step.number, first.cost) == ("slow_run", SLOW_STEP, SLOW_NS)
    assert (first.values["task"], first.values["name"]) == ("worker:1", "mm")
    assert sample.all.text("name")[sample.place(first.span)] == "mm"
    assert all(one.stall is not None for one in rest)


def test_a_stall_of_every_step_is_told_once_and_none_of_a_step_that_is_told(sample: Trace) -> None:
    found = [one for one in stands_out(sample) if one.stall is not None]
    names = [(one.row, sample.all.text("name")[one.stall.effect]) for one in found if one.stall]
    assert len(found) == len(set(names)) <= MOST
    assert {one.num_steps for one in found} == {2, 3}, "a ps stands so in a step of either worker"
    assert all((one.step.number, one.step.task) != (SLOW_STEP, "worker:1") for one in found)
    assert [one.cost for one in found] == sorted((one.cost for one in found), reverse=True)


def test_each_lies_in_the_step_that_it_names(sample: Trace) -> None:
    for one in stands_out(sample):
        assert one.step.start <= one.start < one.end <= one.step.end
        assert one.cost > 0


def test_without_ops_and_without_steps_nothing_stands_out(tmp_path: Path) -> None:
    lone = SpanRecord("a:0", "client", EPOCH, EPOCH + 5, "x", "session.run", span=1)
    assert stands_out(open_trace(write_trace(tmp_path / "none.trace", [lone]))) == []
    only_calls = [one for one in training_step(1) if one.kind != "op.run"]
    assert stands_out(open_trace(write_trace(tmp_path / "calls.trace", only_calls))) == []
