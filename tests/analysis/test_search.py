"""The header's search: what a run holds under some words, and what choosing it means."""

import gc
import weakref
from pathlib import Path

import pytest

from tests.store.sample_trace import training_step, write_trace
from vizdist.analysis.lit import lit_by
from vizdist.analysis.search import MOST, Found, ranked, search
from vizdist.store.trace import Trace, open_trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    spans = [span for n in range(12) for span in training_step(n + 1, at=n * 1500)]
    return open_trace(write_trace(tmp_path / "x.trace", spans))


def first(trace: Trace, text: str) -> Found:
    return search(trace, text)[0][0]


def test_an_op_is_found_by_its_name_and_by_its_type(trace: Trace) -> None:
    assert first(trace, "mm").selection == {"type": "node", "id": "mm"}
    found = first(trace, "MatMul")
    assert (found.kind, found.title, found.facts) == ("node", "mm", ("MatMul", "worker:0"))


def test_a_number_is_a_step_and_changes_no_selection(trace: Trace) -> None:
    for text in ("3", "step 3", "3 步"):
        found = first(trace, text)
        assert (found.kind, found.step, found.selection) == ("step", 3, None)


def test_a_key_says_its_tensor_and_both_ends(trace: Trace) -> None:
    found = first(trace, "edge_1")
    assert (found.kind, found.title, found.facts) == ("key", "edge_1_w", ("ps:0 → worker:0",))


def test_a_span_that_is_no_op_is_the_longest_of_its_name(trace: Trace) -> None:
    found = first(trace, "recvtensor client")
    assert found.facts == ("rpc.client", "worker:0", "×12")
    assert found.selection == {"type": "span", "id": f"{104:016x}"}
    assert found.step == 1


def test_choosing_a_device_lights_its_ops_in_the_step(trace: Trace) -> None:
    found = next(one for one in search(trace, "ps:0")[0] if one.kind == "device")
    assert found.selection is not None
    lit = lit_by(trace, found.selection, 2).selected
    assert set(trace.all.text("name")[lit]) == {"w/read", "update_w"}
    assert set(trace.all.step[lit]) == {2}


def test_every_word_must_be_there_and_no_words_find_nothing(trace: Trace) -> None:
    assert search(trace, "w read")[0][0].title == "w/read"
    assert search(trace, "mm nowhere") == ([], 0)
    assert search(trace, "  ") == ([], 0)


def test_many_matches_are_cut_and_counted(trace: Trace) -> None:
    found, total = search(trace, "step 1")
    assert [one.title for one in found] == ["1", "10", "11", "12"]
    found, total = search(trace, "w")
    assert total >= len(found)
    assert sum(one.kind == "span" for one in found) <= MOST


def test_the_whole_name_comes_before_a_beginning_before_a_part() -> None:
    names = [(name, "") for name in ("x/fc", "fc/weight", "fc", "afc")]
    assert [name for name, _ in ranked(names, ["fc"])] == ["fc", "fc/weight", "x/fc", "afc"]


def test_a_trace_that_was_searched_is_let_go(tmp_path: Path) -> None:
    trace = open_trace(write_trace(tmp_path / "x.trace", training_step(1)))
    assert search(trace, "mm")[1]
    is_there = weakref.ref(trace)
    del trace
    gc.collect()
    assert is_there() is None


def test_an_empty_trace_holds_nothing(tmp_path: Path) -> None:
    assert search(open_trace(write_trace(tmp_path / "none.trace", [])), "mm") == ([], 0)
