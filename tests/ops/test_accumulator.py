"""Accumulators: the mean of what came in time, for whoever asked first; TensorFlow's figures."""

from typing import Any

import pytest
import torch

from tests.ops.graph_runner import PlainResources, context
from tests.ops.test_queue import Ended
from tracer.model.graph import Node
from tracer.ops.kernel import OpError
from tracer.ops.registry import lookup


class Bench:
    """An accumulator and its ops, bound as in a graph."""

    def __init__(self, prefix: str = "Resource", **attrs: Any) -> None:
        self.prefix = prefix
        self.resources = PlainResources()
        attrs = {"dtype": "float32", "shape": [2], **attrs}
        self.accumulator = self.bind("ConditionalAccumulator", **attrs)()

    def bind(self, op: str, **attrs: Any) -> Any:
        name = f"{self.prefix}{op}"
        return lookup(name).bind(Node("a", name, attrs=attrs), context(self.resources))

    def apply(self, *gradient: float, step: int = 0) -> bool:
        """Whether it was dropped."""
        kernel = self.bind("AccumulatorApplyGradient")
        return bool(kernel(self.accumulator, torch.tensor(step), torch.tensor(gradient)))

    def take(self, wanted: int) -> Ended:
        ended = Ended()
        kernel = self.bind("AccumulatorTakeGradient")
        self.cancel = kernel(ended, self.accumulator, torch.tensor(wanted, dtype=torch.int32))
        return ended

    def set_global_step(self, step: int) -> None:
        self.bind("AccumulatorSetGlobalStep")(self.accumulator, torch.tensor(step))

    @property
    def count(self) -> int:
        return int(self.bind("AccumulatorNumAccumulated")(self.accumulator))


def taken(ended: Ended) -> list[float]:
    ((result, error),) = ended.calls
    assert error is None
    return list(result.tolist())


@pytest.mark.parametrize("prefix", ["", "Resource"])
def test_what_is_taken_is_the_mean_of_all_that_are_in_and_nothing_is_left(prefix: str) -> None:
    a = Bench(prefix)
    assert not any([a.apply(1.0, 2.0), a.apply(3.0, 4.0), a.apply(8.0, 0.0, step=5)])
    assert a.count == 3
    assert taken(a.take(2)) == [4.0, 2.0]
    assert a.count == 0


def test_or_their_sum() -> None:
    a = Bench(reduction_type="SUM")
    a.apply(1.0, 2.0)
    a.apply(3.0, 4.0)
    assert taken(a.take(2)) == [4.0, 6.0]


def test_who_takes_waits_until_enough_have_come() -> None:
    a = Bench()
    waiting = a.take(2)
    a.apply(1.0, 0.0)
    assert not waiting.is_over()
    a.apply(3.0, 0.0)
    assert taken(waiting) == [2.0, 0.0]


def test_taking_makes_what_is_still_on_its_way_stale() -> None:
    a = Bench()
    a.apply(1.0, 1.0)
    a.take(1)
    assert a.apply(1.0, 1.0, step=0)
    assert a.count == 0
    assert not a.apply(1.0, 1.0, step=1)
    assert a.count == 1


def test_a_stale_gradient_is_dropped_whatever_it_is_like() -> None:
    a = Bench()
    assert a.apply(1.0, 1.0, 1.0, step=-4)
    assert a.count == 0


def test_the_first_who_waits_is_the_first_served_though_the_next_wants_less() -> None:
    a = Bench(shape=[1])
    three, one = a.take(3), a.take(1)
    a.apply(1.0, step=9)
    assert (three.is_over(), one.is_over(), a.count) == (False, False, 1)
    a.apply(1.0, step=9)
    a.apply(1.0, step=9)
    assert (taken(three), one.is_over(), a.count) == ([1.0], False, 0)
    a.apply(1.0, step=9)
    assert taken(one) == [1.0]


def test_a_wait_that_is_taken_back_takes_nothing_and_lets_the_next_go_on() -> None:
    a = Bench(shape=[1])
    three, one = a.take(3), None
    back = a.cancel
    one = a.take(1)
    a.apply(5.0)
    back()
    assert three.code == "CANCELLED"
    assert taken(one) == [5.0]
    back()
    assert len(three.calls) == 1


def test_the_global_step_can_be_set_and_what_is_in_stays_in() -> None:
    a = Bench()
    a.apply(1.0, 3.0)
    a.set_global_step(100)
    assert a.apply(9.0, 9.0, step=99)
    assert not a.apply(3.0, 5.0, step=100)
    assert taken(a.take(1)) == [2.0, 4.0]
    a.set_global_step(0)
    assert not a.apply(1.0, 1.0, step=0)


def test_all_gradients_of_a_round_are_of_one_shape() -> None:
    a = Bench()
    with pytest.raises(OpError, match=r"Shape mismatch: expected \[2\], got \[3\]") as refused:
        a.apply(1.0, 1.0, 1.0)
    assert refused.value.code == "INVALID_ARGUMENT"
    open_dim = Bench(shape=[-1])
    open_dim.apply(1.0)
    with pytest.raises(OpError, match=r"expected \[1\], got \[2\]"):
        open_dim.apply(1.0, 1.0)
    assert taken(open_dim.take(1)) == [1.0]
    assert not open_dim.apply(1.0, 1.0, step=1)


def test_what_nobody_could_mean_is_refused() -> None:
    a = Bench()
    with pytest.raises(OpError, match="num_required must be positive, but was 0"):
        a.take(0)
    with pytest.raises(OpError, match="takes float32, not float64"):
        a.bind("AccumulatorApplyGradient")(
            a.accumulator, torch.tensor(0), torch.zeros(2, dtype=torch.float64)
        )
    with pytest.raises(OpError, match="it must be one of MEAN, SUM"):
        Bench(reduction_type="MAX")


def test_the_mean_of_integers_is_an_integer() -> None:
    accumulator = Bench(dtype="int32").accumulator
    for gradient in ([1, -2], [2, -3]):
        accumulator.apply(0, torch.tensor(gradient, dtype=torch.int32))
    ended = Ended()
    accumulator.take(ended, 2)
    ((mean, _),) = ended.calls
    assert mean.dtype is torch.int32
    assert mean.tolist() == [1, -2]


def test_two_graphs_share_one_by_name_and_must_agree_on_it() -> None:
    a = Bench(shared_name="w/grad_accum")
    attrs = {"dtype": "float32", "shared_name": "w/grad_accum"}
    assert a.bind("ConditionalAccumulator", shape=[2], **attrs)() is a.accumulator
    with pytest.raises(OpError, match="Shared accumulator 'w/grad_accum'"):
        a.bind("ConditionalAccumulator", shape=[3], **attrs)


class Rows(Bench):
    """A sparse one, of a table of 5 rows of 2."""

    def __init__(self, **attrs: Any) -> None:
        self.prefix = "Sparse"
        self.resources = PlainResources()
        attrs = {"dtype": "float32", "shape": [5, 2], **attrs}
        self.accumulator = self.bind("ConditionalAccumulator", **attrs)()

    def put(self, ids: list[int], rows: list[list[float]], step: int = 0) -> bool:
        kernel = self.bind("AccumulatorApplyGradient")
        whole = torch.tensor([5, 2])
        given = torch.tensor(ids), torch.tensor(rows).reshape(-1, 2)
        return bool(kernel(self.accumulator, torch.tensor(step), *given, whole))


def test_rows_that_meet_are_summed_by_id_and_the_mean_is_that_of_whole_gradients() -> None:
    table = Rows()
    assert not table.put([4, 1], [[1.0, 1.0], [2.0, 2.0]])
    assert not table.put([4], [[3.0, 5.0]])
    (((ids, rows, shape), error),) = table.take(2).calls
    assert error is None
    assert (ids.tolist(), shape.tolist()) == ([1, 4], [5, 2])
    assert rows.tolist() == [[1.0, 1.0], [2.0, 3.0]]
    assert table.put([0], [[1.0, 1.0]]), "it came after the round that it was for"


def test_a_batch_may_use_no_row() -> None:
    table = Rows(reduction_type="SUM")
    table.put([], [])
    (((ids, rows, _), _),) = table.take(1).calls
    assert (ids.tolist(), tuple(rows.shape)) == ([], (0, 2))


@pytest.mark.parametrize(
    ("ids", "rows", "says"),
    [([0, 1], [[1.0, 1.0]], "an id each"), ([5], [[1.0, 1.0]], r"not in \[0, 5\)")],
)
def test_rows_without_a_place_are_refused(
    ids: list[int], rows: list[list[float]], says: str
) -> None:
    with pytest.raises(OpError, match=says):
        Rows().put(ids, rows)
