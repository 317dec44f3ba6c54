"""Who came last to a collective, what that cost, and where every chunk was after every hop."""

from pathlib import Path

import pytest
import torch

from tests.analysis.timed_run import recording
from tests.runtime.collective_graphs import cpus_of, devices_of, reducing, workers
from tests.runtime.test_collectives_record import Arrivals, delayed
from tracer.model.cluster import TaskName
from tracer.record.clock import FakeClock
from tracer.runtime.near_cluster import NearCluster
from tracer.runtime.session import Session
from vizdist.analysis.bytes_moved import bytes_moved
from vizdist.analysis.collectives import (
    Collective,
    Late,
    collectives,
    formula_bytes,
    has_collectives,
    hops_of,
    lateness,
    latest,
    of_step,
)
from vizdist.analysis.step_split import split_step
from vizdist.components.collective_cards import headline
from vizdist.figures.collectives import cells_of, picture_of, rounds_of
from vizdist.store.trace import Trace, open_trace

MS = 1_000_000
SIZE = 10


def run(folder: Path, arrivals: list[list[int]], hint: str = "ring") -> Trace:
    """A step for each list of arrivals, ns after the step began, one a rank."""
    ranks = len(arrivals[0])
    clock = FakeClock()
    kernels = Arrivals(clock, arrivals[0])
    graph, sums = reducing(devices_of(ranks, 1), [[SIZE]] * ranks, hint=hint)
    with (
        recording(folder, clock) as (recorder_of, tracing),
        NearCluster(
            workers(1),
            devices=cpus_of(ranks, 1),
            recorder_of=recorder_of,
            clock=clock,
            lookup=kernels.lookup,
        ) as cluster,
        Session(cluster.masters[TaskName("worker", 0)], delayed(graph), tracing) as session,
    ):
        for times in arrivals:
            kernels.times = times
            values = session.run(sums, {f"x{r}:0": torch.ones(SIZE) for r in range(ranks)})
            assert all(torch.equal(value, torch.full((SIZE,), float(ranks))) for value in values)
    return open_trace(folder / "x.trace")


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Four ranks; rank 2 comes last in steps 1 and 2, rank 1 in step 3."""
    late = [[0, 1 * MS, 9 * MS, 2 * MS], [0, 3 * MS, 8 * MS, 1 * MS], [0, 4 * MS, 1 * MS, 2 * MS]]
    return run(tmp_path_factory.mktemp("ring"), late)


def first(trace: Trace) -> Collective:
    [one] = of_step(trace, 1)
    return one


def test_ranks_of_one_execution_are_one_collective(ring: Trace) -> None:
    assert has_collectives(ring)
    assert [(one.step, len(one.ranks)) for one in collectives(ring)] == [(1, 4), (2, 4), (3, 4)]
    one = first(ring)
    assert (one.kind, one.algorithm, one.tensor_bytes, one.num_ranks) == (
        "all_reduce", "ring", 4 * SIZE, 4,
    )  # fmt: skip
    assert [rank.number for rank in one.ranks] == [0, 1, 2, 3]
    assert one.missing == []


def test_the_last_to_come_is_named_and_what_it_cost_is_the_gap_to_the_one_before(
    ring: Trace,
) -> None:
    one = first(ring)
    assert one.last.number == 2
    assert one.lateness == {0: 0, 1: MS, 2: 9 * MS, 3: 2 * MS}
    assert one.lost_ns == 7 * MS
    assert [rank.wait_ns for rank in one.ranks] == [9 * MS, 8 * MS, 0, 7 * MS]


def test_the_rank_that_is_last_most_often_stands_out(ring: Trace) -> None:
    rows = lateness(ring)
    assert [(row.step, row.last) for row in rows] == [(1, 2), (2, 2), (3, 1)]
    found = latest(rows)
    assert found is not None
    assert (found.rank, found.steps, found.of, found.lost_ns) == (2, 2, 3, 12 * MS)
    words = "".join(
        str(getattr(part, "children", part)) for part in headline(first(ring), rows, "en") or ()
    )
    assert (
        words.replace("\u00a0", " ")
        == "No rank is last more often than the others. Step 1 lost 7,000 µs to rank 2."
    )


@pytest.mark.parametrize(
    ("ranks", "lasts", "stands_out"),
    [
        (3, [0, 1, 2] * 3, False),
        (2, [0, 1, 0, 1, 0], False),
        (2, [1, 1, 1, 1], False),  # two ranks: chance names one four times of four in 1 of 8 runs
        (2, [1] * 7, True),
        (4, [2, 2, 2, 2, 2, 1], True),
        (4, [2, 2, 1, 0], False),
    ],
)
def test_a_rank_stands_out_where_chance_would_hardly_name_one_so_often(
    ranks: int, lasts: list[int], stands_out: bool
) -> None:
    after = {rank: 5 * rank for rank in range(ranks)}
    found = latest([Late(step, after, last, 5) for step, last in enumerate(lasts)])
    assert found is not None
    assert found.stands_out == stands_out


def test_without_steps_no_rank_is_the_last() -> None:
    assert latest([]) is None


def test_each_rank_of_a_ring_sends_what_the_closed_form_says(ring: Trace) -> None:
    one = first(ring)
    assert sum(rank.sent_bytes for rank in one.ranks) == 4 * (formula_bytes(one) or 0)


def test_after_reduce_scatter_each_chunk_is_whole_once_and_at_the_end_everywhere(
    ring: Trace,
) -> None:
    one = first(ring)
    rounds = rounds_of(one, hops_of(ring, one.ranks))
    assert len(rounds) == 2 * (4 - 1)
    cells = cells_of(one, rounds)
    assert cells[0] == [[1, 1, 1, 1]] * 4
    halfway = cells[3]
    assert [sum(row[chunk] == 4 for row in halfway) for chunk in range(4)] == [1, 1, 1, 1]
    assert cells[-1] == [[4, 4, 4, 4]] * 4


def test_up_and_down_a_tree_all_ranks_are_summed(tmp_path: Path) -> None:
    trace = run(tmp_path, [[0, 1 * MS, 2 * MS, 3 * MS]], hint="tree")
    one = first(trace)
    cells = cells_of(one, rounds_of(one, hops_of(trace, one.ranks)))
    assert {count for row in cells[-1] for count in row} == {4}


def test_the_picture_keeps_every_part_of_a_rank_in_its_place(ring: Trace) -> None:
    picture = picture_of(ring, first(ring), "en")
    assert len(picture["cells"]) == len(picture["rounds"]) + 1
    arrival = picture["arrival"]
    [mark] = arrival["marks"]
    for lane in arrival["lanes"]:
        wait, transfer = (one for one in lane["bars"] if one["sel"])
        assert 0 <= wait["start"] <= wait["end"] == transfer["start"] == mark["at"]
        assert transfer["end"] <= arrival["total"]
        assert all(one["start"] <= one["end"] for one in lane["bars"])


def test_a_collective_waits_until_all_have_come_and_then_transfers(ring: Trace) -> None:
    split = split_step(ring, ring.step(1))[-1]
    assert split.parts["wait"] == 0  # rank 2 works to the end, in the same task
    [lone] = [one for one in first(ring).ranks if one.number == 2]
    assert split.parts["compute"] >= 9 * MS
    assert lone.wait_ns == 0


def test_what_ranks_sent_each_other_is_among_the_bytes_moved(ring: Trace) -> None:
    moved = bytes_moved(ring, ring.step(1))
    one = first(ring)
    by_rendezvous = sum(tensor.bytes for tensor in moved.tensors)
    assert moved.total - by_rendezvous == sum(rank.sent_bytes for rank in one.ranks)
    places = [rank.place for rank in one.ranks]
    neighbours = {(a, b) for a, b in zip(places, [*places[1:], places[0]], strict=True)}
    assert neighbours <= set(moved.by_device)
    assert set(bytes_moved(ring).steps_of.values()) == {3}
