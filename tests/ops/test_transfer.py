"""Tensors on their way between streams: in order, however slow one of them is."""

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.fake_gpu import FakeDriver, FakeStream, QueuedStream, drain
from tracer.model.graph import Node
from tracer.ops.kernel import Event, OpError
from tracer.ops.transfer import OPS, arrive, copy_to_device, copy_to_host, depart

HAND_OVERS = 200
ONE = torch.ones(3)


def streams(count: int) -> list[FakeStream]:
    driver = FakeDriver()
    return [driver.stream(torch.device("cpu")) for _ in range(count)]


def counts(*of: FakeStream) -> list[tuple[int, int]]:
    return [(stream.num_waits, stream.num_held) for stream in of]


def test_a_crossing_waits_once_and_holds_once_on_the_stream_that_takes() -> None:
    source, target = streams(2)
    assert arrive(depart(ONE, source), target) is ONE
    assert counts(source, target) == [(0, 0), (1, 1)]


def test_on_its_own_stream_a_tensor_arrives_without_either() -> None:
    (stream,) = streams(1)
    assert arrive(depart(ONE, stream), stream) is ONE
    assert counts(stream) == [(0, 0)]


def test_a_copy_to_the_host_crosses_once_to_the_stream_of_copies() -> None:
    compute, copies = streams(2)
    compute.launch(5_000)
    copied = copy_to_host(ONE, compute, copies)
    assert copied.tensor.equal(ONE)
    assert counts(compute, copies) == [(0, 0), (1, 1)]
    assert copied.begun.elapsed_time(copied.ended) == 0
    assert compute.record().elapsed_time(copied.begun) == 0  # not before the tensor was made


def test_a_copy_to_the_device_crosses_once_to_the_stream_that_computes() -> None:
    compute, copies = streams(2)
    copied = copy_to_device(ONE, compute, copies)
    assert copied.tensor.equal(ONE)
    assert counts(compute, copies) == [(1, 1), (0, 0)]


def hand_over(
    producer: QueuedStream, consumer: QueuedStream, work: Callable[[], None] = lambda: None
) -> list[float]:
    """200 tensors made on one stream and read on another; `work` goes on in between."""
    seen: list[float] = []

    def reads(tensor: torch.Tensor) -> Callable[[], None]:
        return lambda: seen.append(float(tensor))

    def makes(tensor: torch.Tensor, value: int) -> Callable[[], object]:
        return lambda: tensor.fill_(value)

    for number in range(HAND_OVERS):
        block = producer.take()
        producer.launch(makes(block, number))
        consumer.launch(reads(arrive(depart(block, producer), consumer)))
        producer.give_back(block, [consumer])
        work()
    return seen


IN_ORDER = [float(number) for number in range(HAND_OVERS)]


@pytest.mark.parametrize("slow", ["producer", "consumer"])
def test_200_hand_overs_come_in_order_however_slow_a_side_is(slow: str) -> None:
    producer, consumer = QueuedStream(), QueuedStream()
    order = [consumer, producer] if slow == "producer" else [producer, consumer]
    seen = hand_over(producer, consumer)
    drain(order)
    assert seen == IN_ORDER
    assert (consumer.num_waits, consumer.num_held) == (HAND_OVERS, HAND_OVERS)
    assert (producer.num_waits, producer.num_held) == (0, 0)


@settings(max_examples=20)
@given(some.lists(some.sampled_from([0, 1]), max_size=4 * HAND_OVERS))
def test_hand_overs_come_in_order_whoever_runs_meanwhile(turns: list[int]) -> None:
    both = QueuedStream(), QueuedStream()
    left = iter(turns)

    def a_few_turns() -> None:
        for _, turn in zip(range(4), left, strict=False):
            both[turn].step()

    seen = hand_over(*both, a_few_turns)
    drain(both)
    assert seen == IN_ORDER


class Hasty(QueuedStream):
    """Does not wait."""

    def wait(self, event: Event) -> None:
        pass


class Careless(QueuedStream):
    """Does not hold."""

    def hold(self, tensor: torch.Tensor) -> None:
        pass


def test_without_the_wait_a_slow_producer_would_be_overtaken() -> None:
    producer, consumer = QueuedStream(), Hasty()
    seen = hand_over(producer, consumer)
    drain([consumer, producer])
    assert seen != IN_ORDER


def test_without_the_hold_a_slow_consumer_would_read_what_came_later() -> None:
    producer, consumer = QueuedStream(), Careless()
    seen = hand_over(producer, consumer)
    drain([producer, consumer])
    assert seen != IN_ORDER


@pytest.mark.parametrize("first", [0, 1, 2])
def test_copies_there_and_back_are_in_order_too(first: int) -> None:
    compute, copies, other = QueuedStream(), QueuedStream(), QueuedStream()
    order: Sequence[QueuedStream] = [compute, copies, other]
    there = copy_to_device(torch.tensor(7.0), compute, copies).tensor
    doubled = torch.zeros(())
    compute.launch(lambda: doubled.copy_(there * 2))
    back = copy_to_host(doubled, compute, other).tensor
    drain([*order[first:], *order[:first]])
    assert float(back) == 14.0


def test_a_transfer_has_no_kernel_of_its_own() -> None:
    for op in OPS:
        with pytest.raises(OpError, match="its executor must run it itself"):
            op.bind(Node("x", op.name), None)  # type: ignore[arg-type]
