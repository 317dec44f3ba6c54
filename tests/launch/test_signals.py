"""What asks a process to end is heard as it suits the moment, and given back afterwards."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from tracer.launch.signals import ENDING, interrupted_by_signals, told_to_go, undisturbed

EVERY = pytest.mark.parametrize("number", ENDING)


@pytest.fixture(autouse=True)
def _given_back() -> Iterator[None]:
    before = [signal.getsignal(number) for number in ENDING]
    yield
    assert [signal.getsignal(number) for number in ENDING] == before


@EVERY
def test_it_may_be_an_event(number: signal.Signals) -> None:
    with told_to_go() as told:
        assert not told.is_set()
        os.kill(os.getpid(), number)
        assert told.wait(5)


@EVERY
def test_it_may_be_an_interrupt(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), interrupted_by_signals():
        os.kill(os.getpid(), number)


@EVERY
def test_what_must_not_be_left_half_done_is_not_disturbed(number: signal.Signals) -> None:
    with interrupted_by_signals():
        with undisturbed():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is not signal.SIG_IGN


def test_a_thread_leaves_the_handlers_alone() -> None:
    seen: list[bool] = []

    def work() -> None:
        with told_to_go() as told, undisturbed():
            seen.append(told.is_set())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(5)
    assert seen == [False]
