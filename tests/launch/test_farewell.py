"""A task started by hand goes when nobody needs it any more, or when it is told."""

import threading
from collections.abc import Callable

import pytest

from tracer.launch import farewell
from tracer.launch.farewell import wait_for_others
from tracer.model.cluster import TaskName
from tracer.runtime.interfaces import StepError, WorkerStatus

W1, W2 = TaskName("worker", 1), TaskName("worker", 2)
Answer = bool | None  # whether a task is finished; None: it does not answer


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farewell, "LOOK_S", 0.001)


def answering(answers: list[Answer]) -> Callable[[], WorkerStatus]:
    """Gives the answers in turn, the last one for ever."""

    def ask() -> WorkerStatus:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is None:
            raise StepError("UNAVAILABLE", "connection refused")
        return WorkerStatus((), is_finished=answer)

    return ask


@pytest.mark.parametrize(
    ("met", "first", "second"),
    [
        (True, [False, True], [True]),
        (True, [False, False, None], [True]),
        (True, [None], [None]),
        (False, [None, None, False, True], [True]),
        (False, [None, False, None], [True]),
    ],
    ids=["finished", "gone", "gone before", "came late", "came and went"],
)
def test_one_waits_for_whoever_is_still_at_it(
    met: bool, first: list[Answer], second: list[Answer]
) -> None:
    script = list(first)
    wait_for_others({W1: answering(script), W2: answering(second)}, threading.Event(), met=met)
    assert script == first[-1:]


def test_one_does_not_wait_when_told_to_go() -> None:
    told = threading.Event()

    def ask() -> WorkerStatus:
        told.set()
        raise StepError("UNAVAILABLE", "connection refused")

    wait_for_others({W1: ask}, told, met=False)
