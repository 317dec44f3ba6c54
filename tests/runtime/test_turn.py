"""Turns: work queues instead of nesting, messages gather, errors come out at the end."""

import pytest

from tracer.runtime import turn


def test_work_that_becomes_ready_runs_after_the_piece_that_made_it_ready() -> None:
    seen: list[str] = []

    def first() -> None:
        turn.run(lambda: seen.append("second"))
        seen.append("first")

    turn.run(first)
    assert seen == ["first", "second"]


def test_messages_of_a_piece_leave_once_when_it_ends_and_before_the_next() -> None:
    seen: list[str] = []

    def flush() -> None:
        seen.append("flush")

    def piece() -> None:
        turn.run(lambda: seen.append("next"))
        turn.at_end(flush)
        turn.at_end(flush)
        seen.append("piece")

    turn.run(piece)
    assert seen == ["piece", "flush", "next"]


def test_a_message_outside_any_turn_leaves_at_once() -> None:
    seen: list[str] = []
    turn.at_end(lambda: seen.append("flush"))
    assert seen == ["flush"]


def test_a_deep_chain_needs_no_stack() -> None:
    count = 0

    def link() -> None:
        nonlocal count
        count += 1
        if count < 5000:
            turn.run(link)

    turn.run(link)
    assert count == 5000


def test_a_failing_piece_takes_no_other_with_it() -> None:
    seen: list[str] = []

    def piece() -> None:
        turn.at_end(lambda: seen.append("flush"))
        turn.run(lambda: seen.append("after"))
        raise ValueError("of this piece")

    with pytest.raises(ValueError, match="of this piece"):
        turn.run(piece)
    assert seen == ["flush", "after"]
    turn.run(lambda: seen.append("later"))
    assert seen[-1] == "later"
