"""The longest way and the slack of 200 random graphs are what trying every way gives."""

import random
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from vizdist.analysis.precedence import NEVER_LATE, Precedence, tie_levels

Edges = Sequence[tuple[int, int]]


def random_graph(seed: int) -> tuple[list[int], Edges]:
    chance = random.Random(seed)
    count = chance.randint(2, 9)
    durations = [chance.choice([0, 1, 3, chance.randint(1, 50)]) for _ in range(count)]
    pairs = [(low, high) for high in range(count) for low in range(high)]
    edges = [pair for pair in pairs if chance.random() < chance.choice([0.2, 0.5, 0.9])]
    chance.shuffle(edges)
    return durations, edges


def precedence(durations: Sequence[int], edges: Edges) -> Precedence:
    sources, targets = np.array(edges or np.empty((0, 2)), np.int64).T
    return Precedence(np.array(durations, np.int64), sources, targets)


def ways_to(node: int, edges: Edges) -> Iterator[list[int]]:
    """Every way that ends there and begins anywhere."""
    yield [node]
    for source, target in edges:
        if target == node:
            yield from ([*way, node] for way in ways_to(source, edges))


def longest(node: int, durations: Sequence[int], edges: Edges) -> int:
    return max(sum(durations[at] for at in way) for way in ways_to(node, edges))


@pytest.mark.parametrize("seed", range(200))
def test_what_all_ways_give_is_what_one_pass_gives(seed: int) -> None:
    durations, edges = random_graph(seed)
    order, last = precedence(durations, edges), len(durations) - 1
    ends = [longest(node, durations, edges) for node in range(len(durations))]
    assert order.ends.tolist() == ends
    path = order.path(last)
    assert path in list(ways_to(last, edges))
    assert sum(durations[node] for node in path) == ends[last]
    assert (
        order.slack(last).tolist()
        == [slack_of(node, durations, edges) for node in range(9)][: len(durations)]
    )


def slack_of(node: int, durations: Sequence[int], edges: Edges) -> int:
    """By trying: how much longer this one may take before the last node ends later."""
    last = len(durations) - 1
    if node >= len(durations) or not any(node in way for way in ways_to(last, edges)):
        return NEVER_LATE
    end = longest(last, durations, edges)
    for more in range(end + 2):
        longer = [*durations[:node], durations[node] + more, *durations[node + 1 :]]
        if longest(last, longer, edges) > end:
            return more - 1
    raise AssertionError("a node on the way delays the end at last")


def test_of_times_that_were_seen_each_took_what_was_left() -> None:
    seen = np.array([0, 10, 4, 15])
    order = Precedence.of_ends(seen, np.array([0, 0, 1, 2]), np.array([1, 2, 3, 3]))
    assert order.durations.tolist() == [0, 10, 4, 5]
    assert order.ends_with(order.durations).tolist() == seen.tolist() == order.ends.tolist()


def test_other_durations_give_other_ends_on_the_same_edges() -> None:
    order = precedence([0, 10, 4, 1], [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert order.ends[3] == 11
    assert order.ends_with(np.array([0, 0, 4, 1]))[3] == 5


def test_what_happened_at_one_instant_is_ordered_by_its_edges() -> None:
    sources, targets = np.array([0, 2, 3]), np.array([2, 3, 1])
    assert tie_levels(sources, targets, np.array([5, 5, 5, 5])).tolist() == [0, 3, 1, 2]


def test_a_circle_at_one_instant_ends_nothing_and_hangs_nothing() -> None:
    levels = tie_levels(np.array([0, 1]), np.array([1, 0]), np.array([5, 5]))
    assert len(levels) == 2


def test_what_lies_behind_a_circle_at_one_instant_still_follows_it() -> None:
    levels = tie_levels(np.array([0, 1, 1, 2]), np.array([1, 0, 2, 3]), np.zeros(4, np.int64))
    assert levels[1] < levels[2] < levels[3]


def test_twenty_thousand_ties_take_a_second_at_most() -> None:
    """One behind another, told backwards: some 30 ms, where passes over all edges took minutes."""
    count = 20_000
    sources = np.arange(count - 1)[::-1]
    started = time.process_time()
    levels = tie_levels(sources, sources + 1, np.zeros(count, np.int64))
    assert time.process_time() - started < 1
    assert levels.tolist() == [*range(count)]
