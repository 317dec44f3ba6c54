"""One selection, many views: which spans it means."""

from pathlib import Path

import pytest

from tests.store.sample_trace import training_step, write_trace
from vizdist.analysis.lit import lit_by
from vizdist.analysis.selection import Selection
from vizdist.store.trace import Trace, open_trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    spans = [span for n in (1, 2) for span in training_step(n, at=n * 1500)]
    return open_trace(write_trace(tmp_path / "x.trace", spans))


def names(trace: Trace, kind: str, name: str, step: int | None = 2) -> tuple[list[str], list[str]]:
    lit = lit_by(trace, Selection(type=kind, id=name), step)
    shown = trace.all.text("name"), trace.all.step
    selected, linked = ([f"{shown[0][i]}@{shown[1][i]}" for i in places] for places in lit)
    return selected, linked


def test_a_span_is_itself_and_lights_the_other_end_of_its_link(trace: Trace) -> None:
    assert names(trace, "span", f"{203:016x}") == (["w@2"], ["w@2"])


def test_a_node_is_its_runs_in_the_step(trace: Trace) -> None:
    assert names(trace, "node", "mm") == (["mm@2"], [])


def test_a_node_that_did_not_run_in_the_step_is_all_its_runs(trace: Trace) -> None:
    assert names(trace, "node", "mm", step=9)[0] == ["mm@1", "mm@2"]


def test_a_scope_is_the_nodes_in_it(trace: Trace) -> None:
    assert names(trace, "node", "w") == (["w@2", "w@2"], [])
    assert names(trace, "node", "w/") == ([], [])


def test_a_key_is_both_ends_of_a_transfer(trace: Trace) -> None:
    key = next(word for word in trace.all.words["key"] if word)
    assert names(trace, "key", key)[0] == ["w@2", "w@2"]


def test_what_is_not_in_the_run_lights_nothing(trace: Trace) -> None:
    for kind, name in (("span", "zz"), ("span", "f" * 16), ("node", "x"), ("step", "2")):
        assert names(trace, kind, name) == ([], [])
    assert len(lit_by(trace, None, 1).selected) == 0
