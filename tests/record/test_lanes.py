import itertools
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tracer.record.lanes import Chains, Lane, Numbers, row_text


def new_numbers() -> Callable[[int], int]:
    numbers = itertools.count()
    return lambda start: next(numbers)


TIMES = st.tuples(st.integers(0, 50), st.integers(0, 20))


@settings(deadline=None)
@given(st.lists(TIMES, max_size=40))
def test_spans_that_overlap_never_share_a_number(spans: list[tuple[int, int]]) -> None:
    numbers = Numbers(new_numbers())
    given_out: list[tuple[int, int, int]] = []
    for start, duration in spans:
        number = numbers.take(start)
        numbers.release(number, start + duration)
        given_out.append((number, start, start + duration))
    for at, (number, start, end) in enumerate(given_out):
        for other, earlier_start, earlier_end in given_out[:at]:
            apart = start >= earlier_end or earlier_start >= end
            assert other != number or apart


def test_the_lowest_free_number_is_taken() -> None:
    numbers = Numbers(new_numbers())
    assert [numbers.take(0) for _ in range(3)] == [0, 1, 2]
    numbers.release(1, 5)
    numbers.release(0, 9)
    assert numbers.take(6) == 1  # 0 is busy until 9
    assert numbers.take(9) == 0
    assert numbers.take(9) == 3


def test_slots_and_nested_spans_of_a_lane_have_different_rows() -> None:
    lane = Lane("rpc")
    chain, slot = lane.take_chain(0), lane.take_slot(0)
    assert row_text("rpc", chain) == ("rpc", 0)
    assert row_text("rpc", slot) == ("rpc (2)", 0)
    assert row_text("rpc", lane.take_slot(0)) == ("rpc (2)", 1)


def test_sites_of_one_lane_share_a_threads_chain() -> None:
    executor, transfer = Lane("executor"), Lane("transfer")
    chains = Chains([executor, transfer, executor])
    assert chains[0] is chains[2]
    assert chains[0] is not chains[1]
    held = chains[0]
    chains.abandon()
    assert chains[0] is not held
