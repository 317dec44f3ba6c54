"""State tables: legal moves go on, an illegal one tells the story."""

from enum import Enum

import pytest

from tracer.runtime.states import (
    RENDEZVOUS,
    SESSION,
    STEP,
    IllegalMove,
    Machine,
    Rendezvous,
    Session,
    Step,
    Table,
)


def test_a_legal_move_follows_the_table() -> None:
    machine = Machine("step", 7, STEP, Step.ISSUED)
    seen = []
    for event in ("part failed", "all parts ended"):
        machine.move(event)
        seen.append(machine.state)
    assert seen == [Step.ABORTING, Step.DONE]


def test_an_illegal_move_names_state_event_what_is_allowed_and_the_story() -> None:
    machine = Machine("rendezvous of step", 7, RENDEZVOUS, Rendezvous.DEFERRING)
    machine.move("run_graph")
    with pytest.raises(IllegalMove) as caught:
        machine.move("run_graph")
    assert str(caught.value) == (
        "rendezvous of step 7 is READY and cannot take 'run_graph'; it takes abort, cleanup. "
        "So far: run_graph"
    )


@pytest.mark.parametrize(
    ("states", "start", "table"),
    [
        (Session, Session.OPEN, SESSION),
        (Step, Step.ISSUED, STEP),
        (Rendezvous, Rendezvous.DEFERRING, RENDEZVOUS),
    ],
)
def test_every_state_is_reached_and_only_the_last_one_is_final(
    states: type[Enum], start: Enum, table: Table
) -> None:
    assert {start, *table.values()} == set(states)
    assert len(set(states) - {state for state, _ in table}) == 1
