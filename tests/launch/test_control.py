"""What a task hears of its launcher comes in the order in which it was said."""

import pytest

from tracer.launch.control import REMAKE, Commands
from tracer.runtime.interfaces import StepError


def test_of_two_words_to_make_sessions_anew_the_older_is_followed_first() -> None:
    """Also where a task waits for something else: a client of the last round goes on from it."""
    commands, rounds = Commands(), []
    for number in (2, 3):
        commands.take({"command": REMAKE, "round": number})
    for _ in range(2):
        with pytest.raises(StepError, match="died and is started again"):
            commands.wait("go", 0.0)
        rounds.append(commands.wait(REMAKE, 0.0)["round"])
    assert rounds == [2, 3]
    commands.check()  # nothing is left to follow
