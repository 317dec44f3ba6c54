"""Ops are given to threads as a slow look at every free thread would give them."""

import random
import time

import numpy as np
import pytest

from vizdist.analysis.thread_order import Ops, threads_of


def ops_of(spans: list[tuple[int, int, int]]) -> Ops:
    """Of one device, by (ready, start, end)."""
    ready, start, end = np.array(spans, np.int64).T
    same = np.zeros(len(spans), np.int64)
    return Ops(np.arange(len(spans)), ready, start, end, same, same)


@pytest.mark.parametrize("seed", range(100))
def test_an_op_takes_the_thread_it_waited_for_else_the_one_that_is_free_longest(seed: int) -> None:
    chance = random.Random(seed)
    starts = sorted(chance.randrange(40) for _ in range(30))
    ops = ops_of([(max(0, s - chance.randrange(9)), s, s + chance.randrange(12)) for s in starts])
    ends: list[int] = []
    ran_by: dict[int, int] = {}
    for place in np.lexsort((ops.end, ops.start)).tolist():
        free = sorted((end, at) for at, end in enumerate(ends) if end <= ops.start[place])
        if not free:
            ends.append(0)
        waited = bool(free) and free[-1][0] > ops.ready[place]
        ran_by[place] = free[-1 if waited else 0][1] if free else len(ends) - 1
        ends[ran_by[place]] = int(ops.end[place])
    found = threads_of(ops, {0: 0})
    if len(ends) > 1:
        assert dict(zip(found.ops.place.tolist(), found.thread.tolist(), strict=True)) == ran_by
    else:
        assert set(found.thread.tolist()) == {0}


def test_eight_thousand_ops_at_once_take_half_a_second_at_most() -> None:
    """Each on a thread of its own: some 40 ms, where a look at every thread took seconds."""
    ops = ops_of([(0, at, 1_000_000) for at in range(8000)])
    started = time.process_time()
    assert len(np.unique(threads_of(ops, {0: 0}).thread)) == 8000
    assert time.process_time() - started < 0.5
