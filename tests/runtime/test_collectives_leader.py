"""The leader alone: ranks agree before anything moves, and who is missing is named."""

import itertools
from typing import Any

import pytest

from tracer.model.collective import Arrival, Execution
from tracer.runtime.collectives_leader import KEPT, Leader
from tracer.runtime.interfaces import StepError

DEVICES = tuple(f"/job:worker/replica:0/task:{r}/device:CPU:0" for r in range(4))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Unwatched(Leader):
    """It does not look at its watch by itself."""

    def _watch(self) -> None:
        return


class Ranks:
    """Ranks that arrive at a leader; `no_port` is why it has no port for a store."""

    def __init__(self, ranks: int = 2) -> None:
        self.clock = Clock()
        self.ports = itertools.count(4321)
        self.no_port: StepError | None = None
        self.leader = Unwatched(self.port, self.clock)
        self.devices = DEVICES[:ranks]
        self.heard: dict[str, Execution | StepError] = {}

    def port(self, _group_key: int) -> int:
        if self.no_port is not None:
            raise self.no_port
        return next(self.ports)

    def arrive(self, rank: int, name: str = "", **said: Any) -> None:
        """`name` is what its answer is looked up by."""
        name = name or f"rank {rank}"

        def done(outcome: Execution | StepError) -> None:
            assert name not in self.heard, "an answer comes once"
            self.heard[name] = outcome

        arrival = Arrival(
            "all_reduce", f"node_{rank}", self.devices, rank, 1, 100, 7 + rank, 5, 3, "float32",
            (2, 3), "w", "Add", "Id", "ring", True, -1, 10.0,
        )  # fmt: skip
        self.leader.arrive(arrival._replace(**said), done)

    def error(self, name: str) -> StepError:
        error = self.heard[name]
        assert isinstance(error, StepError)
        return error

    def execution(self, name: str) -> Execution:
        execution = self.heard[name]
        assert isinstance(execution, Execution)
        return execution


@pytest.fixture
def ranks() -> Ranks:
    return Ranks()


def test_the_last_rank_lets_all_begin_with_one_number(ranks: Ranks) -> None:
    ranks.arrive(1)
    assert not ranks.heard
    ranks.arrive(0)
    assert ranks.execution("rank 0") == ranks.execution("rank 1")
    assert ranks.execution("rank 0").incarnations == (7, 8)


def test_executions_of_one_instance_have_numbers_of_their_own(ranks: Ranks) -> None:
    for step in ("a", "b"):
        for rank in range(2):
            ranks.arrive(rank, f"{step}{rank}")
    assert ranks.execution("a0").number != ranks.execution("b0").number


def test_steps_that_run_at_once_do_not_mix(ranks: Ranks) -> None:
    ranks.arrive(0, scope=5)
    ranks.arrive(1, scope=6)
    assert not ranks.heard


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"shape": (3, 2)}, r"shape .* float32 \[2, 3\] .* float32 \[3, 2\]"),
        ({"shape": (6,)}, r"shape .* \[2, 3\] .* \[6\]"),
        ({"dtype": "float64"}, r"dtype .* float32 \[2, 3\] .* float64 \[2, 3\]"),
        ({"of": "b"}, r"tensor .* 'w' .* 'b'"),
        ({"merge_op": "Max"}, r"merge_op .* \(Add, Id, ring\) .* \(Max, Id, ring\)"),
        ({"kind": "all_gather"}, "collective .* all_reduce .* all_gather"),
        ({"algorithm": "tree"}, "algorithm"),
        ({"step": 4, "scope": 5}, "step .* steps 3 and 4"),
    ],
)
def test_ranks_that_do_not_agree_get_one_error_that_names_both(
    ranks: Ranks, said: dict[str, Any], what: str
) -> None:
    ranks.arrive(0)
    ranks.arrive(1, **said)
    error = ranks.error("rank 0")
    assert ranks.error("rank 1").message == error.message
    assert error.code == "INVALID_ARGUMENT"
    for part in (r"instance 100", "rank 0 has", "rank 1 has", "node_0", "node_1", "No bytes"):
        assert part in error.message
    with pytest.raises(StepError, match=what):
        raise error


def test_gathered_rows_may_differ_in_number_only(ranks: Ranks) -> None:
    ranks.arrive(0, kind="all_gather", shape=(2, 3))
    ranks.arrive(1, kind="all_gather", shape=(5, 3))
    assert ranks.execution("rank 0").rows == (2, 5)
    ranks.arrive(0, "more 0", kind="all_gather", shape=(2, 3))
    ranks.arrive(1, "more 1", kind="all_gather", shape=(2, 4))
    assert "shape beyond axis 0" in ranks.error("more 0").message


def test_another_order_is_an_error_on_all_ranks_that_wait(ranks: Ranks) -> None:
    """Rank 0 reduces a then b, rank 1 b then a; each would wait for the other for ever."""
    ranks.arrive(0, instance_key=100, of="a")
    ranks.arrive(1, instance_key=101, of="b")
    error = ranks.error("rank 0")
    assert ranks.error("rank 1").message == error.message
    assert "as number 1 rank 0 has all_reduce of 'a'" in error.message
    assert "as instance 100 at node_0, rank 1 has all_reduce of 'b'" in error.message


def test_who_is_not_ordered_may_come_in_any_order(ranks: Ranks) -> None:
    for rank, key in ((0, 100), (1, 101), (0, 101), (1, 100)):
        ranks.arrive(rank, f"{rank} {key}", instance_key=key, is_ordered=False)
    assert ranks.execution("0 100") == ranks.execution("1 100")
    assert ranks.execution("0 101") == ranks.execution("1 101")


def test_a_rank_that_comes_after_the_failure_hears_of_it() -> None:
    ranks = Ranks(3)
    ranks.arrive(0)
    ranks.arrive(1, shape=(9,))
    ranks.arrive(2)
    assert ranks.error("rank 2").message == ranks.error("rank 0").message
    for rank in range(3):  # all have heard it: the next one begins afresh
        ranks.arrive(rank, f"again {rank}")
    assert ranks.execution("again 2")


def test_a_rank_that_gives_up_ends_the_wait_of_the_others() -> None:
    ranks = Ranks(3)
    ranks.arrive(0)
    ranks.arrive(1)
    ranks.arrive(0, "gone", given_up="the op before it failed")
    assert (
        "rank 0 (/job:worker/replica:0/task:0/device:CPU:0) gave up: the op before it failed"
        in (ranks.error("rank 1").message)
    )
    assert ranks.error("rank 1").derived


def test_who_is_missing_is_named_with_where_it_was_last() -> None:
    ranks = Ranks(4)
    for rank in range(4):
        ranks.arrive(rank, f"before {rank}")
    ranks.clock.now += 2.0
    for rank in (0, 1, 3):
        ranks.arrive(rank, instance_key=101, of="b", step=4)
        ranks.clock.now += 1.0
    ranks.clock.now += 8.0
    ranks.leader.expire()
    error = ranks.error("rank 3")
    assert error.code == "DEADLINE_EXCEEDED"
    assert ranks.error("rank 0").message == error.message
    for part in (
        "not all ranks came within 10 s",
        "collective 2 of group 1",
        "all_reduce of 'b' (Add, Id, ring) of float32 [2, 3] as instance 101",
        "waits for rank 2 (/job:worker/replica:0/task:2/device:CPU:0), which came last to "
        "instance 100 of step 3, 13.0 s ago",
        "ranks 0, 1, 3 came, the first 11.0 s ago",
    ):
        assert part in error.message


def test_nobody_is_called_late_before_its_time() -> None:
    ranks = Ranks(2)
    ranks.arrive(0)
    ranks.clock.now += 9.9
    ranks.leader.expire()
    assert not ranks.heard


def test_nobody_waits_for_a_task_that_was_lost() -> None:
    ranks = Ranks(3)
    ranks.arrive(0)
    ranks.leader.lose("ps:0", StepError("UNAVAILABLE", "another task"))
    assert not ranks.heard
    ranks.leader.lose("worker:2", StepError("UNAVAILABLE", "worker:2 is gone"))
    assert ranks.error("rank 0").message == "worker:2 is gone"


@pytest.mark.parametrize("is_late", [False, True])
def test_nobody_waits_for_a_rank_that_has_left(is_late: bool) -> None:
    ranks = Ranks(3)
    for rank in range(3):
        ranks.arrive(rank, f"first {rank}")
    if is_late:
        ranks.arrive(2, "left", has_left=True)
    ranks.arrive(1, step=4)
    if not is_late:
        ranks.arrive(2, "left", has_left=True)
    assert ranks.error("rank 1").code == "FAILED_PRECONDITION"
    assert "rank 1 came in step 4, but not rank 2 " in ranks.error("rank 1").message
    ranks.arrive(0, step=4)
    assert ranks.error("rank 0").message == ranks.error("rank 1").message


def test_a_rank_that_has_left_and_comes_again_is_waited_for(ranks: Ranks) -> None:
    ranks.arrive(0, "left", has_left=True)
    ranks.arrive(0)
    ranks.arrive(1)
    assert ranks.execution("rank 0") == ranks.execution("rank 1")


def test_what_a_step_waits_for_is_told_in_words() -> None:
    ranks = Ranks(2)
    ranks.arrive(1)
    (line,) = ranks.leader.waits_for(5)
    assert "rank 0 (/job:worker/replica:0/task:0/device:CPU:0), which has come to no" in line
    assert not ranks.leader.waits_for(6)


def test_the_leader_forgets_what_is_over(ranks: Ranks) -> None:
    for step in range(50):
        for rank in range(2):
            ranks.arrive(rank, f"{step} {rank}", scope=step + 1)
    assert not ranks.leader._groups


def test_ranks_for_which_there_is_no_store_are_all_told(ranks: Ranks) -> None:
    ranks.no_port = StepError("UNIMPLEMENTED", "on loopback only")
    ranks.arrive(0, algorithm="native")
    ranks.arrive(1, algorithm="native")
    assert ranks.error("rank 0").message == ranks.error("rank 1").message == "on loopback only"
    assert not ranks.leader.waiting()


def test_a_native_group_meets_anew_once_an_execution_has_failed(ranks: Ranks) -> None:
    told = []
    for step in "abc":
        for rank in range(2):
            ranks.arrive(rank, f"{step}{rank}", algorithm="native")
        told.append(ranks.execution(f"{step}0"))
        if step == "b":
            ranks.leader.abort(told[0].number)
    assert [(each.port, each.turn) for each in told] == [(4321, 0), (4321, 1), (4322, 0)]
    ranks.leader.abort(told[0].number)  # which is over by now
    for rank in range(2):
        ranks.arrive(rank, f"d{rank}", algorithm="native")
    assert (ranks.execution("d0").port, ranks.execution("d0").turn) == (4322, 1)


def test_a_native_group_meets_anew_once_a_task_was_lost(ranks: Ranks) -> None:
    for step in "ab":
        for rank in range(2):
            ranks.arrive(rank, f"{step}{rank}", algorithm="native")
        ranks.leader.lose("worker:1", StepError("UNAVAILABLE", "worker:1 is gone"))
    assert ranks.execution("a0").port != ranks.execution("b0").port


def test_a_rank_that_hears_late_of_a_failure_does_not_fail_the_next_one() -> None:
    ranks = Ranks(2)
    ranks.arrive(0, scope=0)
    ranks.clock.now += 11.0
    ranks.leader.expire()
    ranks.arrive(0, "again 0", scope=0)
    ranks.arrive(1, scope=0)
    assert ranks.error("rank 1").message == ranks.error("rank 0").message
    assert "again 0" not in ranks.heard
    ranks.arrive(1, "again 1", scope=0)
    assert ranks.execution("again 0") == ranks.execution("again 1")


def test_a_task_that_was_lost_and_starts_again_meets_the_others_at_once(ranks: Ranks) -> None:
    ranks.arrive(0, scope=0)
    ranks.leader.lose("worker:1", StepError("UNAVAILABLE", "worker:1 is gone"))
    assert ranks.error("rank 0").message == "worker:1 is gone"
    for rank in range(2):
        ranks.arrive(rank, f"again {rank}", scope=0)
    assert ranks.execution("again 0") == ranks.execution("again 1")


def test_failures_that_a_rank_never_hears_of_are_not_kept_for_ever(ranks: Ranks) -> None:
    for attempt in range(KEPT + 50):
        ranks.arrive(0, f"attempt {attempt}", scope=0)
        ranks.clock.now += 11.0
        ranks.leader.expire()
    assert sum(len(group.all()) for group in ranks.leader._groups.values()) == KEPT


def test_whoever_comes_to_a_leader_that_is_closed_is_told_why(ranks: Ranks) -> None:
    ranks.leader.close(StepError("CANCELLED", "worker:0 is shutting down"))
    ranks.arrive(0)
    assert ranks.error("rank 0").message == "worker:0 is shutting down"
