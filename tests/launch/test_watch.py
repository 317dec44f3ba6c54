"""Events of tasks → phase and root cause, in every order in which they may come."""

from itertools import permutations
from typing import Any

import pytest

from tracer.launch.child import Event, how_it_ended
from tracer.launch.failure import failure_from
from tracer.launch.watch import Phase, Watch
from tracer.model.cluster import TaskName
from tracer.runtime.interfaces import StepError

PS, W0, W1 = TaskName("ps", 0), TaskName("worker", 0), TaskName("worker", 1)


def running(restarts: int = 0, *, is_group: bool = False) -> Watch:
    tasks = (W0, W1) if is_group else (PS, W0, W1)
    watch = Watch(tasks, frozenset({W0, W1}), restarts, is_group)
    for task in tasks:
        watch.take(serving(task))
    for task in (W0, W1):
        watch.take(ready(task))
    assert orders(watch) == [("go", W0, None), ("go", W1, None)]
    return watch


def serving(task: TaskName) -> Event:
    return Event(task, "serving", {"address": f"127.0.0.1:{2222 + task.index}"})


def ready(task: TaskName, number: int = 0, step: int = 0, *, back: bool = False) -> Event:
    return Event(task, "ready", {"round": number, "step": step, "is_rolled_back": back})


def lost(task: TaskName, number: int = 0) -> Event:
    facts = {"code": "UNAVAILABLE", "message": "ps:0 is gone", "step": 7, "round": number}
    return Event(task, "lost", facts)


def orders(watch: Watch) -> list[tuple[str, TaskName, Any]]:
    """What was ordered, with the one fact that matters: where to go on, or who leads."""
    return [
        (order.command, order.task, order.facts.get("step", order.facts.get("leads")))
        for order in watch.orders()
    ]


def killed(task: TaskName, step: int) -> Event:
    return Event(task, "exit", {"code": -9, "expected": False, "step": step})


def lost_its_peer(task: TaskName) -> Event:
    facts = {"code": "UNAVAILABLE", "message": "worker:1 is gone", "derived": False, "step": 7}
    return Event(task, "failed", facts)


def test_clients_set_up_when_the_last_task_serves_and_run_when_the_last_is_ready() -> None:
    watch = Watch((PS, W0), frozenset({W0}))
    assert watch.take(Event(W0, "serving", {"address": "a"})) is Phase.STARTING
    assert list(watch.missing) == [PS]
    assert watch.take(Event(PS, "serving", {"address": "b"})) is Phase.SETTING_UP
    assert watch.take(ready(W0)) is Phase.RUNNING


def test_a_run_is_finished_when_the_last_client_is_done() -> None:
    watch = running()
    assert watch.take(Event(W1, "done", {"loss": 1.0})) is Phase.RUNNING
    assert watch.take(Event(W0, "done", {"loss": 1.0})) is Phase.FINISHED


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_kill_is_the_root_cause_whenever_it_is_heard_of(order: tuple[int, ...]) -> None:
    watch = running()
    echo = Event(PS, "failed", {"code": "ABORTED", "message": "aborted", "derived": True})
    events = [killed(W1, step=7), lost_its_peer(W0), echo]
    for place in order:
        watch.take(events[place])
    assert str(watch.root_cause) == "worker:1 in step 7: was killed by SIGKILL"
    assert watch.cause_is_certain


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_task_that_is_stopped_explains_what_others_say_of_it(order: tuple[int, ...]) -> None:
    watch = running()
    late = Event(W0, "failed", {"code": "DEADLINE_EXCEEDED", "message": "step 7 did not end"})
    events = [Event(W1, "stopped", {"signal": 19, "step": 7}), late, lost_its_peer(W0)]
    for place in order:
        watch.take(events[place])
    assert str(watch.root_cause) == (
        "worker:1 in step 7: was stopped by SIGSTOP, and does not go on"
    )
    assert watch.cause_is_certain
    assert watch.silent == W1


def test_an_error_of_its_own_comes_before_the_loss_of_a_peer() -> None:
    watch = running()
    watch.take(lost_its_peer(W0))
    assert not watch.cause_is_certain
    watch.take(Event(W1, "failed", {"code": "INVALID_ARGUMENT", "message": "bad shape"}))
    assert watch.root_cause is not None
    assert watch.root_cause.task == W1


def test_who_lives_and_answers_nobody_is_told_apart_from_who_died() -> None:
    watch = running()
    lost = Event(W0, "failed", {"code": "UNAVAILABLE", "message": "ping timeout", "task": "ps:0"})
    watch.take(lost)
    told = [watch.silent]
    watch.take(killed(PS, step=7))
    assert [*told, watch.silent] == [PS, None]


@pytest.mark.parametrize(
    ("said", "blamed"), [("the stream broke", "ps:0"), ("ping timeout", ""), ("", "worker:0")]
)
def test_who_may_be_well_is_waited_for_as_long_as_all(said: str, blamed: str) -> None:
    """A broken stream is no sign of a task that hangs, nor is one in who tells of it."""
    watch = running()
    watch.take(Event(W0, "failed", {"code": "UNAVAILABLE", "message": said, "task": blamed}))
    assert watch.silent is None


def test_an_error_is_blamed_on_the_task_that_it_names() -> None:
    watch = running()
    facts = {"code": "INVALID_ARGUMENT", "message": "bad shape", "task": "ps:0", "step": 3}
    watch.take(Event(W0, "failed", facts))
    assert str(watch.root_cause) == "ps:0 in step 3: bad shape"


@pytest.mark.parametrize("named", ["", "localhost", "ps", "ps:x"])
def test_an_error_that_names_no_task_is_its_clients(named: str) -> None:
    failure = failure_from(W0, StepError("INTERNAL", "odd", task=named), 2)
    assert (failure.task, failure.step) == (W0, 2)


def test_how_a_process_ended_is_said_in_words() -> None:
    assert how_it_ended(-9) == "was killed by SIGKILL"
    assert how_it_ended(-40) == "was killed by signal 40"
    assert how_it_ended(1) == "ended with exit code 1"


def test_an_expected_exit_is_no_failure() -> None:
    watch = running()
    for task in (W0, W1):
        watch.take(Event(task, "done", {}))
    watch.take(Event(PS, "exit", {"code": 0, "expected": True}))
    assert watch.phase is Phase.FINISHED
    assert watch.root_cause is None


def test_a_task_that_dies_after_all_clients_are_done_still_fails_the_run() -> None:
    watch = running()
    for task in (W0, W1):
        watch.take(Event(task, "done", {}))
    assert watch.take(killed(PS, step=0)) is Phase.FAILED


def test_a_client_that_dies_is_started_again_alone_and_goes_on_where_it_was() -> None:
    watch = running(restarts=1)
    assert watch.take(killed(W1, step=7)) is Phase.SETTING_UP
    assert orders(watch) == [("restart", W1, None)]
    watch.take(serving(W1))
    assert orders(watch) == [("cluster", W1, False)]
    assert watch.take(ready(W1, step=6)) is Phase.RUNNING
    assert orders(watch) == [("go", W1, None)]
    assert not watch.failures


def test_when_a_parameter_server_dies_all_clients_begin_a_round_and_one_leads() -> None:
    watch = running(restarts=1)
    watch.take(killed(PS, step=15))
    assert orders(watch) == [("restart", PS, None), ("remake", W0, True), ("remake", W1, False)]
    watch.take(serving(PS))
    watch.take(lost(W0))  # of the round before: no news
    assert watch.take(ready(W1, 1, step=14)) is Phase.SETTING_UP
    orders(watch)
    assert watch.take(ready(W0, 1, step=10, back=True)) is Phase.RUNNING
    assert orders(watch) == [("go", W0, 10), ("go", W1, 10)]


def test_a_client_that_was_ready_before_the_round_must_be_ready_again() -> None:
    watch = running(restarts=1)
    watch.take(killed(PS, step=15))
    watch.take(ready(W0, 0))
    watch.take(ready(W1, 1))
    assert watch.phase is Phase.SETTING_UP


@pytest.mark.parametrize("dead", [W0, W1])
def test_whoever_of_a_group_dies_all_go_back_to_the_checkpoint(dead: TaskName) -> None:
    watch, other = running(restarts=1, is_group=True), W1 if dead == W0 else W0
    watch.take(lost(other))
    assert watch.take(killed(dead, step=15)) is Phase.SETTING_UP
    assert orders(watch) == [("restart", dead, None), ("remake", other, other == W0)]
    watch.take(serving(dead))
    assert orders(watch) == [("cluster", dead, dead == W0)]
    watch.take(ready(W1, 1, step=14))
    assert watch.take(ready(W0, 1, step=10, back=True)) is Phase.RUNNING
    assert orders(watch) == [("go", W0, 10), ("go", W1, 10)]


def test_a_group_goes_back_too_where_its_parameter_server_died() -> None:
    watch = Watch((PS, W0, W1), frozenset({W0, W1}), restarts=1, is_group=True)
    for task in (PS, W0, W1):
        watch.take(serving(task))
    event = ready(W0)
    watch.take(Event(W0, "ready", {**event.facts, "held": {"ps:0": ["w"]}}))
    watch.take(ready(W1))
    orders(watch)
    assert watch.take(killed(PS, step=15)) is Phase.SETTING_UP
    assert orders(watch) == [("restart", PS, None), ("remake", W0, True), ("remake", W1, False)]
    assert watch.take(killed(PS, step=15)) is Phase.FAILED
    assert "with it went w" in str(watch.root_cause)


def test_a_group_of_which_one_is_done_already_cannot_go_back() -> None:
    watch = running(restarts=1, is_group=True)
    watch.take(Event(W0, "done", {}))
    assert watch.take(killed(W1, step=40)) is Phase.FAILED
    assert str(watch.root_cause) == "worker:1 in step 40: was killed by SIGKILL"


def test_each_task_has_so_many_lives_and_no_more() -> None:
    watch = running(restarts=1)
    watch.take(killed(W1, step=7))
    watch.take(serving(W1))
    watch.take(ready(W1))
    watch.take(killed(W0, step=9))
    assert watch.phase is Phase.SETTING_UP
    assert watch.take(killed(W1, step=12)) is Phase.FAILED
    assert str(watch.root_cause) == "worker:1 in step 12: was killed by SIGKILL"


def test_after_a_death_before_the_first_step_all_begin_again_with_nothing_to_lose() -> None:
    watch = Watch((PS, W0), frozenset({W0}), restarts=1)
    for task in (PS, W0):
        watch.take(serving(task))
    assert watch.take(killed(PS, step=0)) is Phase.SETTING_UP
    again, remake = watch.orders()
    assert (again.command, again.task) == ("restart", PS)
    assert remake == ("remake", W0, {"round": 1, "leads": True, "has_begun": False})
    watch.take(serving(PS))
    watch.take(lost(W0))  # of the round before
    assert watch.take(ready(W0, 1)) is Phase.RUNNING
    assert watch.take(killed(PS, step=1)) is Phase.FAILED


def test_a_client_that_dies_before_the_first_step_begins_as_at_first() -> None:
    watch = Watch((PS, W0, W1), frozenset({W0, W1}), restarts=1)
    for task in (PS, W0, W1):
        watch.take(serving(task))
    watch.take(ready(W1))
    assert watch.take(killed(W0, step=0)) is Phase.SETTING_UP
    watch.take(serving(W0))
    restart, cluster = watch.orders()
    assert (restart.command, restart.task) == ("restart", W0)
    assert cluster == ("cluster", W0, {"round": 0, "leads": True, "has_begun": False})
    assert watch.take(ready(W0)) is Phase.RUNNING


def test_a_task_that_dies_while_others_come_up_is_waited_for() -> None:
    """Whether it had said its address or not."""
    watch = Watch((PS, W0), frozenset({W0}), restarts=1)
    watch.take(serving(PS))
    assert watch.take(killed(PS, step=0)) is Phase.STARTING
    assert watch.take(killed(W0, step=0)) is Phase.STARTING
    assert orders(watch) == [("restart", PS, None), ("restart", W0, None)]
    assert watch.take(serving(W0)) is Phase.STARTING
    assert watch.take(serving(PS)) is Phase.SETTING_UP
    assert orders(watch) == []  # all hear of the cluster together


def test_a_task_that_died_again_is_missing_until_it_serves_again() -> None:
    watch = Watch((PS, W0), frozenset({W0}), restarts=1)
    watch.take(serving(PS))
    watch.take(killed(PS, step=0))
    assert list(watch.missing) == [PS, W0]
    watch.take(serving(W0))
    assert list(watch.missing) == [PS]


def test_what_ends_by_itself_before_the_first_step_is_not_started_again() -> None:
    """It would fail the same way, as often as it may be started."""
    ended = {"code": 1, "expected": False, "step": 0}
    watch = Watch((PS, W0), frozenset({W0}), restarts=3)
    assert watch.take(Event(PS, "exit", ended)) is Phase.FAILED
    assert orders(watch) == []
    later = running(restarts=1)
    assert later.take(Event(PS, "exit", {**ended, "step": 9})) is Phase.SETTING_UP


def test_without_restarts_a_death_before_the_first_step_fails_the_run() -> None:
    watch = Watch((PS, W0), frozenset({W0}))
    assert watch.take(killed(PS, step=0)) is Phase.FAILED


def test_if_the_leader_ended_before_it_heard_the_next_one_leads() -> None:
    watch = running(restarts=1)
    watch.take(killed(PS, step=29))
    orders(watch)
    watch.take(Event(W0, "done", {}))
    assert orders(watch) == [("remake", W1, True)]
    assert watch.take(ready(W1, 2, step=20, back=True)) is Phase.RUNNING
    assert watch.take(Event(W1, "done", {})) is Phase.FINISHED


def test_a_client_that_dies_with_the_parameter_server_hears_of_the_round_when_it_serves() -> None:
    watch = running(restarts=1)
    watch.take(killed(W0, step=7))
    watch.take(killed(PS, step=7))
    assert ("remake", W0, True) not in orders(watch)
    watch.take(serving(PS))
    watch.take(serving(W0))
    assert ("cluster", W0, True) in orders(watch)


def test_a_loss_that_no_death_explains_fails_the_run_once_it_is_given_up() -> None:
    watch = running(restarts=1)
    assert watch.take(lost(W0)) is Phase.RUNNING
    assert watch.give_up() is Phase.FAILED
    assert str(watch.root_cause) == "worker:0 in step 7: ps:0 is gone"


def test_a_loss_is_forgotten_when_its_cause_is_heard_of() -> None:
    watch = running(restarts=1)
    watch.take(lost(W0))
    watch.take(killed(PS, step=7))
    assert watch.give_up() is Phase.SETTING_UP


def test_clients_that_lose_again_and_again_are_not_tried_for_ever() -> None:
    watch = running(restarts=1)
    watch.take(killed(PS, step=7))
    for number in range(1, 9):
        watch.take(lost(W0, number))
    assert watch.round == 3
    assert watch.give_up() is Phase.FAILED


def test_a_parameter_server_that_dies_for_good_is_told_with_the_variables_that_it_held() -> None:
    watch = running()
    event = ready(W0)
    watch.take(Event(W0, "ready", {**event.facts, "held": {"ps:0": [f"w{i}" for i in range(10)]}}))
    watch.take(killed(PS, step=15))
    assert str(watch.root_cause) == (
        "ps:0 in step 15: was killed by SIGKILL; with it went w0, w1, w2, w3, w4, w5, w6, w7 and 2 "
        "more"
    )
