"""What was found of a trace is kept while the trace is open, for all who ask at once."""

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

import pytest

from tests.store.sample_trace import training_step, write_trace
from vizdist.analysis.cache_strips import cache_strips
from vizdist.analysis.kept import kept
from vizdist.analysis.mailbox import mailbox
from vizdist.analysis.search import search
from vizdist.analysis.stands_out import stands_out
from vizdist.analysis.step_events import step_events
from vizdist.analysis.typical_step import typical_step
from vizdist.figures.findings import step_findings
from vizdist.figures.textures import _row
from vizdist.store.trace import Trace, open_trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return opened(tmp_path / "one.trace")


def opened(folder: Path) -> Trace:
    steps = [span for number in (1, 2, 3) for span in training_step(number, at=2000 * number)]
    return open_trace(write_trace(folder, steps))


def test_threads_that_ask_at_once_get_the_one_answer(trace: Trace) -> None:
    asked, together = Counter[int](), Barrier(8)

    @kept(most=4)
    def find(trace: Trace, number: int) -> object:
        asked[number] += 1
        return object()

    def ask(number: int) -> object:
        together.wait(10)
        return find(trace, number)

    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(ask, [0, 1] * 4)]
    assert asked == {0: 1, 1: 1}
    assert {*answers} == {find(trace, 0), find(trace, 1)}


def test_whoever_waits_is_answered_though_its_answer_was_given_up_meanwhile(trace: Trace) -> None:
    @kept(most=2)
    def find(trace: Trace, number: int) -> int:
        return number * number

    def ask(first: int) -> list[int]:
        return [find(trace, (first + at) % 7) for at in range(2000)]

    with ThreadPoolExecutor(8) as pool:
        for first, answers in enumerate(pool.map(ask, range(8))):
            assert answers == [((first + at) % 7) ** 2 for at in range(2000)]


def test_only_the_last_answers_are_kept(trace: Trace) -> None:
    asked: list[int] = []

    @kept(most=2)
    def find(trace: Trace, number: int) -> None:
        asked.append(number)

    for number in (1, 2, 1, 3, 2, 1):
        find(trace, number)
    assert asked == [1, 2, 3, 1]


def test_what_is_looked_for_in_one_trace_keeps_no_other_waiting(
    trace: Trace, tmp_path: Path
) -> None:
    is_looking, go_on = Event(), Event()

    @kept()
    def find(one: Trace) -> bool:
        if one is not trace:
            return True
        is_looking.set()
        return go_on.wait(10)

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(find, trace)
        assert is_looking.wait(10)
        assert find(opened(tmp_path / "other.trace"))
        assert not slow.done()
        go_on.set()
        assert slow.result(10)


@pytest.mark.parametrize(
    "find",
    [
        lambda trace: step_events(trace, trace.step(1)),
        lambda trace: mailbox(trace, trace.step(1)),
        lambda trace: cache_strips(trace, trace.step(1)),
        lambda trace: step_findings(trace, trace.step(1)),
        lambda trace: search(trace, "mm"),
        lambda trace: _row(trace, 0),
        stands_out,
        typical_step,
    ],
    ids=[
        "step_events", "mailbox", "cache_strips", "step_findings", "search", "textures",
        "stands_out", "typical_step",
    ],
)  # fmt: skip
def test_no_answer_keeps_its_trace(find: Callable[[Trace], object], tmp_path: Path) -> None:
    trace = opened(tmp_path / "gone.trace")
    assert find(trace) is not None
    held = weakref.ref(trace), weakref.ref(trace.all)
    del trace
    gc.collect()
    assert [one() for one in held] == [None, None]
