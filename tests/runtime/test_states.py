"""State tables: legal moves go on, an illegal one tells the story."""

import pytest

from tracer.runtime.states import RENDEZVOUS, SESSION, STEP, IllegalMove, Machine, Rendezvous, Step


def test_a_legal_move_follows_the_table() -> None:
    machine = Machine("step 7", STEP, Step.ISSUED)
    machine.move("part failed")
    assert machine.state is Step.ABORTING
    machine.move("all parts ended")
    assert machine.state is Step.DONE


def test_an_illegal_move_names_state_event_what_is_allowed_and_the_story() -> None:
    machine = Machine("rendezvous of step 7", RENDEZVOUS, Rendezvous.DEFERRING)
    machine.move("run_graph")
    with pytest.raises(IllegalMove) as caught:
        machine.move("run_graph")
    assert str(caught.value) == (
        "rendezvous of step 7 is READY and cannot take 'run_graph'; it takes abort, cleanup. "
        "So far: run_graph"
    )


@pytest.mark.parametrize("table", [SESSION, STEP, RENDEZVOUS])
def test_every_state_is_reached_and_only_the_last_one_is_final(table: dict) -> None:  # type: ignore[type-arg]
    states = set(type(next(iter(table))[0]))
    reached = set(table.values()) | {next(iter(table))[0]}
    assert reached == states
    assert len(states - {state for state, _ in table}) == 1
