"""The card says what the step would take if what is selected were free or faster."""

from pathlib import Path

import pytest
from dash.html import Div

from tests.analysis.sample_run import sample_run
from tests.analysis.test_critical_path import node, opened
from tests.components.test_span_card import texts
from vizdist.analysis.selection import Selection
from vizdist.components import what_if
from vizdist.components.markup import markup
from vizdist.components.what_if import what_if_card, what_if_of_selection
from vizdist.pages.timeline import split_words
from vizdist.store.trace import Trace


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return sample_run(tmp_path_factory.mktemp("sample") / "x.trace")


def said_of(trace: Trace, kind: str, name: str, task: str = "worker:0") -> list[str]:
    chosen = Selection(type=kind, id=name)
    return texts(what_if_of_selection(trace, chosen, trace.step(1, task), "en"))


def test_an_op_may_be_free_and_its_device_faster(tmp_path: Path) -> None:
    trace = opened(tmp_path, node("long", 0, 0, 80, 3), node("short", 0, 0, 30, 4, depth=1))
    assert said_of(trace, "node", "long") == [
        "What if",
        "It is on the critical path: what delays it delays the step.",
        "If long were free, the step would take 0.05 µs, 0.05 µs less.",
        "If worker:0 CPU:0 were twice as fast, the step would take 0.06 µs, 0.04 µs less.",
    ]
    assert said_of(trace, "node", "short") == [
        "What if",
        "It could end 0.05 µs later before the step did.",
        "If short were free, the step would take just as long.",
        "If worker:0 CPU:0 were twice as fast, the step would take 0.06 µs, 0.04 µs less.",
    ]


def test_the_card_of_a_path_tries_its_longest_and_leads_to_the_graph(tmp_path: Path) -> None:
    trace = opened(tmp_path, node("long", 0, 0, 80, 3), node("short", 0, 0, 30, 4, depth=1))
    said = texts(split_words(trace, 1, "en"))
    assert "If long were free, the step would take 0.05 µs, 0.05 µs less." in said
    assert "Try another" in said
    [span] = trace.all.span[trace.all.has_word("name", "long")].tolist()
    assert f"/graph?step=1&amp;sel=span:{span:016x}" in markup(Div(split_words(trace, 1, "zh")))


def test_of_an_edge_it_is_the_link(sample: Trace) -> None:
    assert said_of(sample, "edge", "w/Read_S→w/Read_R")[-1] == (
        "If the link ps:0 → worker:0 were twice as fast, the step would take 1.35 µs, 0.05 µs less."
    )


def test_of_two_workers_it_is_the_step_on_screen(sample: Trace) -> None:
    trace_lo = sample.step(1, "worker:1").trace_lo
    place = next(
        at for at in sample.step_places(sample.step(1, "worker:1")).tolist()
        if sample.all.text("name")[at] == "mm"
    )  # fmt: skip
    assert int(sample.all.trace_lo[place]) == trace_lo
    assert said_of(sample, "node", "mm", "worker:1") == texts(what_if_card(sample, place, "en"))


def test_what_no_change_helps_with_says_nothing(sample: Trace) -> None:
    assert said_of(sample, "node", "CPU:0") == []
    assert what_if_of_selection(sample, None, sample.step(1), "en") == []


def test_a_step_too_large_to_wait_for_is_left_to_the_report(
    sample: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_if, "MOST_SPANS", 3)
    assert "vizdist report --step 1" in said_of(sample, "node", "mm")[-1]
