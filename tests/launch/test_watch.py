"""Events of tasks → phase and root cause, in every order in which they may come."""

from itertools import permutations

import pytest

from tracer.launch.child import Event, how_it_ended
from tracer.launch.watch import Phase, Watch, failure_from
from tracer.model.cluster import TaskName
from tracer.runtime.interfaces import StepError

PS, W0, W1 = TaskName("ps", 0), TaskName("worker", 0), TaskName("worker", 1)


def running() -> Watch:
    watch = Watch((PS, W0, W1), frozenset({W0, W1}))
    for task in (PS, W0, W1):
        watch.take(Event(task, "serving", {"address": f"127.0.0.1:{2222 + task.index}"}))
    for task in (W0, W1):
        watch.take(Event(task, "ready", {}))
    return watch


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
    assert watch.take(Event(W0, "ready", {})) is Phase.RUNNING


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


def test_an_error_of_its_own_comes_before_the_loss_of_a_peer() -> None:
    watch = running()
    watch.take(lost_its_peer(W0))
    assert not watch.cause_is_certain
    watch.take(Event(W1, "failed", {"code": "INVALID_ARGUMENT", "message": "bad shape"}))
    assert watch.root_cause is not None
    assert watch.root_cause.task == W1


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
