"""The rank that comes late to a simulated run is named; the parts of a collective are its time."""

import operator
import random
from pathlib import Path

import pytest

from tests.analysis.test_collectives import MS, run
from vizdist.analysis.collectives import collectives, hops_of

RANKS, RUNS = 4, 100


@pytest.mark.parametrize("late_ms", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_the_late_rank_is_named_in_95_of_100_runs(tmp_path: Path, late_ms: int) -> None:
    """All ranks take 10 ms and jitter by 1.5 ms; one, drawn for each run, takes longer."""
    late, arrivals = [], []
    for seed in range(RUNS):
        dice = random.Random(seed)
        late.append(dice.randrange(RANKS))
        arrivals.append(
            [
                round(MS * (10 + abs(dice.gauss(0, 1.5)) + late_ms * (rank == late[-1])))
                for rank in range(RANKS)
            ]
        )
    found = collectives(run(tmp_path, arrivals))
    named = [one.last.number for one in found]
    assert len(named) == RUNS
    assert sum(map(operator.eq, named, late)) >= 0.95 * RUNS
    for one, times in zip(found, arrivals, strict=True):
        assert [rank.wait_ns for rank in one.ranks] == [max(times) - time for time in times]


@pytest.mark.parametrize("hint", ["ring", "tree"])
def test_wait_and_hops_add_up_to_the_time_of_every_rank(tmp_path: Path, hint: str) -> None:
    trace = run(tmp_path, [[0, 7 * MS, 2 * MS, 3 * MS]], hint)
    [one] = collectives(trace)
    hops = hops_of(trace, one.ranks)
    for rank in one.ranks:
        parts = [rank.wait_ns, *(hop.end - hop.start for hop in hops[rank.span])]
        assert rank.end - rank.arrived == sum(parts) == rank.wait_ns + rank.transfer_ns
