"""What sections make of attributes: caches, sessions, faults and checkpoints, what failed."""

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from tests.analysis.mechanisms.told_run import ToldRun
from vizdist.analysis.mechanisms import caches, failures, history, sessions
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.report import report_text
from vizdist.analysis.step_report import found_of_step, told_of_step
from vizdist.store import details
from vizdist.store.otlp_reader import read_lines


@pytest.fixture
def told(tmp_path: Path) -> ToldRun:
    return ToldRun(tmp_path)


def test_a_cache_has_its_hits_and_misses_up_to_the_end_of_the_step(told: ToldRun) -> None:
    told.span("cache.get", name="channel", cache__hit=False)
    with told.step(1, cache__hit=False):
        told.span("cache.get", name="channel", cache__hit=True)
        told.span("cache.get", name="client_graph", cache__hit=False)
    with told.step(2):
        told.span("cache.get", name="channel", cache__hit=True)
    found = caches.find(told.one_step(1))
    assert found is not None
    assert found.graph_hit is False
    counts = [(cache.cache, cache.hits, cache.misses) for cache in found.caches]
    assert counts == [("channel", 1, 1), ("client_graph", 0, 1)]


def test_the_last_total_that_a_task_told_counts(told: ToldRun) -> None:
    with told.step(1):
        pass
    told.span("cache.total", name="rendezvous", cache__hits=3, cache__misses=1)
    told.span("cache.total", name="rendezvous", cache__hits=9, cache__misses=2)
    found = caches.find(told.one_step(1))
    assert found is not None
    [cache] = found.caches
    assert (cache.run_hits, cache.run_misses, cache.hits) == (9, 2, 0)


def test_the_sides_of_a_session_are_those_with_its_handle(told: ToldRun) -> None:
    told.span("session.create", session__handle="aa", task="launcher")
    told.span("session.master", session__handle="aa")
    told.span("session.worker", session__handle="aa", task="ps:0")
    told.span("session.worker", session__handle="bb", task="ps:1")
    with told.step(1, session__handle="aa", step__id="01"):
        pass
    found = sessions.find(told.one_step(1))
    assert found is not None
    assert (found.handle, found.step_id) == ("aa", "01")
    sides = [(side.side, side.task) for side in found.sides]
    assert sides == [("client", "launcher"), ("master", "worker:0"), ("worker", "ps:0")]


def test_a_step_tells_the_last_checkpoint_before_it_and_what_happened_next_to_it(
    told: ToldRun,
) -> None:
    for number in (1, 2):
        with told.step(number):
            pass
        told.span("checkpoint.save", checkpoint__step=number)
    with told.step(3):
        pass
    with told.step(4):
        told.span("fault.inject", fault="kill:ps:0@step:4", fault__kind="kill", task="ps:0")
    told.span("task.restart", peer="ps:0", attempt=2, task="launcher")
    with told.step(5):
        pass
    told.span("checkpoint.save", checkpoint__step=5)
    found = history.find(told.one_step(4))
    assert found is not None
    kinds = [(event.kind, event.task) for event in found.events]
    assert kinds == [
        ("checkpoint.save", "worker:0"),
        ("fault.inject", "ps:0"),
        ("task.restart", "launcher"),
    ]
    saved, fault, restart = found.events
    assert saved.facts == {"checkpoint.step": 2}
    assert saved.after_ns < 0 < fault.after_ns + 1
    assert restart.facts == {"peer": "ps:0", "attempt": 2}


def test_what_happened_belongs_to_the_step_that_was_lost_not_to_the_one_that_ran_again(
    told: ToldRun,
) -> None:
    for number in (1, 2):
        with told.step(number):
            pass
    told.span("session.recover", lost_step=2, resumed_step=1)
    for number in (1, 2, 3):
        with told.step(number, life=2):
            pass
    lost = told.one_step(2)
    found = history.find(lost)
    assert found is not None
    assert [event.kind for event in found.events] == ["session.recover"]
    again = OneStep(lost.trace, lost.trace.steps[3])
    assert (again.step.number, again.step.start > lost.step.start) == (2, True)
    assert history.find(again) is None


def test_nothing_happened_around_a_quiet_step(told: ToldRun) -> None:
    with told.step(1):
        pass
    assert history.find(told.one_step(1)) is None


def test_the_first_to_fail_is_told_first(told: ToldRun) -> None:
    with told.step(1):
        told.span("data.next", error="no more examples")
        told.span("graph.prune", task="ps:0", error="Cancelled: worker:0 failed")
    found = failures.find(told.one_step(1))
    assert found is not None
    assert [(each.task, each.name) for each in found.failures] == [
        ("worker:0", "data.next"),
        ("ps:0", "graph.prune"),
    ]
    assert found.failures[0].message == "ValueError: no more examples"


def test_a_file_is_read_once_for_all_that_failed(
    told: ToldRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    with told.step(1):
        for number in range(200):
            told.span("data.next", error=f"error {number}")
    one = told.one_step(1)
    reads = 0

    def counted(path: Path, member: int, lines: Collection[int]) -> Mapping[int, bytes]:
        nonlocal reads
        reads += 1
        return read_lines(path, member, lines)

    monkeypatch.setattr(details, "read_lines", counted)
    found = failures.find(one)
    assert found is not None
    messages = [each.message for each in found.failures]
    assert messages == [f"ValueError: error {number}" for number in range(200)]
    assert reads < 10


def test_no_name_writes_to_the_terminal_what_the_report_did_not_say(told: ToldRun) -> None:
    name = "\x1b]0;pwn\x07\x1b[2J\nFAKE ROW\u202e"
    with told.step(1):
        told.span("data.next", name=name, error="no\x1b[2Jmore")
    one = told.one_step(1)
    text = report_text(one.trace, 1)
    assert "\\x1b]0;pwn\\x07\\x1b[2J\\nFAKE ROW\\u202e" in text
    assert "no\\x1b[2Jmore" in text
    assert all(line.isprintable() for line in text.replace("\u00a0", " ").split("\n"))
    assert not any(line.startswith("FAKE") for line in text.splitlines())


def test_a_step_that_proves_little_says_little(told: ToldRun) -> None:
    with told.step(1, session__handle="aa"):
        pass
    one = told.one_step(1)
    assert found_of_step(one).keys() == {"step", "task", "start_ns", "sessions"}
    [lines] = told_of_step(one, "en")
    assert lines[0] == "The ids of step 1 of worker:0"
