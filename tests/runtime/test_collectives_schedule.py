"""Schedules alone: run by a machine of lists, every rank ends with what all brought."""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tracer.model.collective import Collective
from tracer.runtime.collectives_pieces import pieces_of, schedule_of
from tracer.runtime.collectives_schedule import Receive, Send, chunk_bounds

Ran = tuple[list[torch.Tensor], list[int]]
DTYPES = [torch.float32, torch.float64, torch.int32, torch.int64, torch.bfloat16, torch.float16]


def run(collectives: list[Collective], xs: list[torch.Tensor]) -> Ran:
    """What each rank ends with, and the bytes that each sent."""
    pieces = [pieces_of(each, [x]) for each, x in zip(collectives, xs, strict=True)]
    left = [deque(schedule_of(each)) for each in collectives]
    wire: dict[tuple[int, int], deque[torch.Tensor]] = defaultdict(deque)
    sent = [0] * len(xs)
    while any(left):
        moved = False
        for rank, actions in enumerate(left):
            while actions:
                action = actions[0]
                if isinstance(action, Send):
                    piece = pieces[rank].get(action.piece)
                    wire[rank, action.to].append(piece)
                    sent[rank] += piece.nbytes
                elif queue := wire[action.source, rank]:
                    pieces[rank].take(action, queue.popleft())
                else:
                    break
                actions.popleft()
                moved = True
        assert moved, "no rank can go on"
    assert not any(wire.values()), "what was sent was taken"
    return [each.result() for each in pieces], sent


def ranks_of(ranks: int, **asked: Any) -> list[Collective]:
    devices = tuple(f"/job:worker/replica:0/task:{r}/device:CPU:0" for r in range(ranks))
    return [Collective("all_reduce", "n", devices, r, **asked) for r in range(ranks)]


@given(
    st.integers(1, 7),
    st.integers(0, 40),
    st.sampled_from(DTYPES),
    st.sampled_from(["ring", "tree"]),
    st.integers(0, 99),
)
def test_all_ranks_end_with_the_sum(
    ranks: int, size: int, dtype: torch.dtype, algorithm: str, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    xs = [torch.randint(-9, 9, (size,), generator=generator).to(dtype) for _ in range(ranks)]
    before = [x.clone() for x in xs]
    results, _ = run(ranks_of(ranks, algorithm=algorithm), xs)
    for result in results:
        assert torch.equal(result.double(), torch.stack(before).double().sum(0))
    for x, was in zip(xs, before, strict=True):
        assert torch.equal(x, was)  # nobody wrote into what a rank brought


@given(st.integers(2, 8), st.integers(0, 50))
def test_a_ring_sends_its_closed_form_to_the_byte(ranks: int, size: int) -> None:
    """2(n-1)/n·S a rank: all of S twice, but for the two chunks that a rank never sends."""
    _, sent = run(ranks_of(ranks), [torch.zeros(size, dtype=torch.float64)] * ranks)
    chunks = [8 * (last - first) for first, last in chunk_bounds(size, ranks)]
    for rank in range(ranks):
        never = chunks[(rank + 1) % ranks] + chunks[(rank + 2) % ranks]
        assert sent[rank] == 2 * 8 * size - never
        if size % ranks == 0:
            assert sent[rank] * ranks == 2 * (ranks - 1) * 8 * size
    assert sum(sent) == 2 * (ranks - 1) * 8 * size


def test_a_ring_has_2n_less_2_hops_and_a_tree_the_log_of_them() -> None:
    for ranks in range(1, 9):
        for each in ranks_of(ranks):
            hops = [a for a in schedule_of(each) if isinstance(a, Receive)]
            assert len(hops) == 2 * (ranks - 1)
    tree = [schedule_of(each) for each in ranks_of(8, algorithm="tree")]
    assert sum(isinstance(a, Receive) for actions in tree for a in actions) == 14


@pytest.mark.parametrize(("dtype", "mean"), [(torch.float32, 2.5), (torch.int32, 2)])
def test_the_mean_of_integers_is_cut(dtype: torch.dtype, mean: float) -> None:
    for algorithm in ("ring", "tree"):
        xs = [torch.tensor([value], dtype=dtype) for value in (1, 4)]
        results, _ = run(ranks_of(2, algorithm=algorithm, final_op="Div"), xs)
        assert [float(result) for result in results] == [mean, mean]


VIEWS: list[Callable[[torch.Tensor], object]] = [
    lambda x: x,
    lambda x: x.detach(),
    lambda x: x[1:],
    lambda x: x.numpy(),
    lambda x: x.detach().numpy().data,
]


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_written_into_memory_that_somebody_else_sees(
    view: Callable[[torch.Tensor], object],
) -> None:
    brought = [torch.ones(4)]
    other = view(brought[0])
    pieces = pieces_of(ranks_of(2)[0], brought)
    pieces.take(Receive("reduce_scatter", 0, 1, merges=True), torch.ones(2))
    assert torch.tensor(np.asarray(other)).eq(1).all()


def test_a_sum_grows_in_place_where_nobody_else_sees_it() -> None:
    brought = [torch.ones(4)]
    memory = brought[0].data_ptr()
    pieces = pieces_of(ranks_of(2)[0], brought)
    pieces.take(Receive("reduce_scatter", 0, 1, merges=True), torch.ones(2))
    pieces.take(Receive("all_gather", 1, 1), torch.full((2,), 2.0))
    result = pieces.result()
    assert result.tolist() == [2.0] * 4
    assert result.data_ptr() == memory
    assert result._base is None  # nobody's view: who brings it again has it alone


def test_memory_that_came_with_a_message_or_an_array_is_left_alone() -> None:
    array = np.ones(4, np.float32)
    brought = [torch.from_numpy(array)]
    pieces = pieces_of(ranks_of(2)[0], brought)
    pieces.take(Receive("reduce_scatter", 0, 1, merges=True), torch.ones(2))
    assert (array == 1).all()
