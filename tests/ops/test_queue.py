"""FIFO queues: order, room, closing; who waits is ended once, by whoever makes it possible."""

import threading
from typing import Any

import pytest
import torch

from tests.ops.graph_runner import PlainResources, context
from tracer.model.graph import Node
from tracer.ops.kernel import OpError
from tracer.ops.registry import lookup


class Ended:
    """A `done` that keeps what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Exception | None]] = []

    def __call__(self, result: Any = None, error: Exception | None = None) -> None:
        self.calls.append((result, error))

    def is_over(self) -> bool:
        return bool(self.calls)

    @property
    def value(self) -> Any:
        ((result, error),) = self.calls
        assert error is None
        return result.item() if isinstance(result, torch.Tensor) else result

    @property
    def code(self) -> str:
        ((_, error),) = self.calls
        assert isinstance(error, OpError)
        return error.code


class Bench:
    """A queue and its ops, bound as in a graph."""

    def __init__(self, capacity: int = -1, **attrs: Any) -> None:
        self.resources = PlainResources()
        attrs = {"component_types": ["float32"], "capacity": capacity, **attrs}
        self.queue = self.bind("FIFOQueueV2", **attrs)()
        self.types = attrs["component_types"]

    def bind(self, op: str, **attrs: Any) -> Any:
        return lookup(op).bind(Node("q", op, attrs=attrs), context(self.resources))

    def put(self, *values: float) -> Ended:
        ended = Ended()
        self.bind("QueueEnqueueV2")(ended, self.queue, *map(torch.tensor, values))
        return ended

    def take(self) -> Ended:
        ended = Ended()
        self.cancel = self.bind("QueueDequeueV2", component_types=self.types)(ended, self.queue)
        return ended

    def close(self, *, cancel: bool = False) -> None:
        self.bind("QueueCloseV2", cancel_pending_enqueues=cancel)(self.queue)

    @property
    def size(self) -> int:
        return int(self.bind("QueueSizeV2")(self.queue))


def test_elements_go_out_in_the_order_in_which_they_came() -> None:
    q = Bench()
    assert all(q.put(value).is_over() for value in (1.0, 2.0, 3.0))
    assert q.size == 3
    assert [q.take().value for _ in range(3)] == [1.0, 2.0, 3.0]
    assert q.size == 0


def test_who_finds_it_empty_waits_and_gets_what_comes_first_come_first_served() -> None:
    q = Bench()
    first, second = q.take(), q.take()
    q.put(1.0)
    assert (first.value, second.is_over()) == (1.0, False)
    q.put(2.0)
    assert second.value == 2.0


def test_who_finds_it_full_waits_until_one_is_taken() -> None:
    q = Bench(capacity=1)
    q.put(1.0)
    waiting = q.put(2.0)
    assert (waiting.is_over(), q.size) == (False, 1)
    assert q.take().value == 1.0
    assert (waiting.is_over(), q.size) == (True, 1)


def test_an_element_of_several_components_comes_back_as_a_tuple() -> None:
    q = Bench(component_types=["float32", "float32"])
    q.put(1.0, 2.0)
    assert [each.item() for each in q.take().value] == [1.0, 2.0]


def test_after_closing_what_is_in_can_be_taken_then_the_range_is_over() -> None:
    q = Bench()
    q.put(1.0)
    q.close()
    with pytest.raises(OpError, match="is closed") as refused:
        q.put(2.0)
    assert refused.value.code == "CANCELLED"
    assert q.take().value == 1.0
    assert q.take().code == "OUT_OF_RANGE"
    assert bool(q.bind("QueueIsClosedV2")(q.queue))


def test_closing_ends_those_who_wait_for_elements() -> None:
    q = Bench()
    waiting = [q.take(), q.take()]
    q.close()
    assert [each.code for each in waiting] == ["OUT_OF_RANGE"] * 2


def test_those_who_wait_for_room_may_still_put_after_closing() -> None:
    q = Bench(capacity=1)
    q.put(1.0)
    waiting = q.put(2.0)
    q.close()
    assert not waiting.is_over()
    assert [q.take().value, q.take().value] == [1.0, 2.0]
    assert waiting.is_over()
    assert q.take().code == "OUT_OF_RANGE"


def test_unless_closing_cancels_them() -> None:
    q = Bench(capacity=1)
    q.put(1.0)
    waiting = q.put(2.0)
    q.close(cancel=True)
    assert waiting.code == "CANCELLED"
    assert [q.take().value, q.take().code] == [1.0, "OUT_OF_RANGE"]


def test_closing_twice_is_an_error_unless_it_cancels() -> None:
    q = Bench()
    q.close()
    with pytest.raises(OpError, match="already closed"):
        q.close()
    q.close(cancel=True)


def test_a_wait_that_is_taken_back_takes_nothing() -> None:
    q = Bench()
    waiting = q.take()
    q.cancel()
    assert waiting.code == "CANCELLED"
    q.cancel()
    q.put(1.0)
    assert len(waiting.calls) == 1
    assert q.size == 1


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (torch.zeros(3), r"Expected float32 \[2\], got float32 \[3\]"),
        (torch.zeros(2, dtype=torch.int32), "got int32"),
    ],
)
def test_an_element_of_another_kind_is_refused(value: torch.Tensor, says: str) -> None:
    q = Bench(shapes=[[2]])
    with pytest.raises(OpError, match=says):
        q.bind("QueueEnqueueV2")(Ended(), q.queue, value)
    assert q.size == 0


def test_too_many_components_are_counted_on_both_sides() -> None:
    q = Bench()
    with pytest.raises(OpError, match=r"for FIFOQueue 'q'. Expected 1, got 2") as put:
        q.put(1.0, 2.0)
    q.types = ["float32", "float32"]
    with pytest.raises(OpError, match=r"for FIFOQueue 'q'. Expected 1, got 2") as taken:
        q.take()
    assert (put.value.code, taken.value.code) == ("INVALID_ARGUMENT", "INVALID_ARGUMENT")
    with pytest.raises(OpError, match="q has 1 component_types and 2 shapes"):
        Bench(shapes=[[], []])


def test_every_negative_capacity_is_without_bound_and_none_is_refused() -> None:
    q = Bench(capacity=-2)
    assert q.put(1.0).is_over()
    with pytest.raises(OpError, match="q has capacity 0, so no element could ever be put"):
        Bench(capacity=0)


def test_many_elements_are_put_at_once_a_row_each() -> None:
    q = Bench(capacity=2)
    ended = Ended()
    q.bind("QueueEnqueueManyV2")(ended, q.queue, torch.tensor([1.0, 2.0, 3.0]))
    assert (q.size, ended.is_over()) == (2, False)
    assert [q.take().value, ended.is_over()] == [1.0, True]
    assert [q.take().value for _ in range(2)] == [2.0, 3.0]
    none = Ended()
    q.bind("QueueEnqueueManyV2")(none, q.queue, torch.zeros(0))
    assert none.is_over()


def test_many_that_wait_for_room_are_cancelled_together() -> None:
    q = Bench(capacity=1)
    ended = Ended()
    cancel = q.bind("QueueEnqueueManyV2")(ended, q.queue, torch.tensor([1.0, 2.0, 3.0]))
    cancel()
    assert ended.code == "CANCELLED"
    assert [q.take().value, q.size] == [1.0, 0]


def test_rows_of_components_are_as_many_in_each() -> None:
    q = Bench(component_types=["float32", "float32"])
    with pytest.raises(OpError, match="same size in the 0th dimension, not 1, 2"):
        q.bind("QueueEnqueueManyV2")(Ended(), q.queue, torch.zeros(1), torch.zeros(2))


def test_two_graphs_share_a_queue_by_name_and_must_agree_on_it() -> None:
    q = Bench(capacity=2, shared_name="work")
    attrs = {"component_types": ["float32"], "shared_name": "work"}
    assert q.bind("FIFOQueueV2", capacity=2, **attrs)() is q.queue
    with pytest.raises(OpError, match="has capacity 2"):
        q.bind("FIFOQueueV2", capacity=3, **attrs)


def test_nothing_is_lost_or_doubled_when_threads_meet() -> None:
    q = Bench(capacity=3)
    takers = [Ended() for _ in range(400)]

    def put(start: int) -> None:
        for number in range(start, start + 100):
            q.queue.put(Ended(), (torch.tensor(float(number)),))

    def take(some: list[Ended]) -> None:
        for each in some:
            q.queue.take(each)

    threads = [threading.Thread(target=put, args=(100 * i,)) for i in range(4)]
    threads += [threading.Thread(target=take, args=(takers[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(each.value for each in takers) == list(range(400))
