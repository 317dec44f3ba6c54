"""Real streams: values come over in order while the stream that makes them sleeps."""

import pytest
import torch

from tracer.ops.kernel import Event
from tracer.ops.transfer import arrive, copy_to_device, copy_to_host, depart
from tracer.runtime.cuda import CudaStream

HAND_OVERS = 200
SIZE = 1 << 16
NAP = 2_000_000  #: clock cycles: about a millisecond


class Hasty(CudaStream):
    """Does not wait."""

    def wait(self, event: Event) -> None:
        pass


def stream(kind: type[CudaStream] = CudaStream) -> CudaStream:
    return kind(torch.device("cuda", 0))


def hand_over(producer: CudaStream, consumer: CudaStream) -> tuple[list[float], bool]:
    """What the consumer read, and whether all was launched while the producer still slept."""
    sums = []
    for number in range(HAND_OVERS):
        with producer.current():
            torch.cuda._sleep(NAP)  # type: ignore[no-untyped-call]
            made = torch.full((SIZE,), float(number), device="cuda:0")
        taken = arrive(depart(made, producer), consumer)
        del made  # its memory is free to be used again, unless it is held
        with consumer.current():
            sums.append(taken.sum() / SIZE)
    is_ahead = not producer._stream.query()
    torch.cuda.synchronize()
    return [float(one) for one in sums], is_ahead


def test_200_hand_overs_from_a_sleeping_stream_come_in_order() -> None:
    seen, is_ahead = hand_over(stream(), stream())
    assert seen == [float(number) for number in range(HAND_OVERS)]
    assert is_ahead, "the host waited for the producer"


def test_without_the_wait_values_would_be_read_before_they_are_made() -> None:
    seen, _ = hand_over(stream(), stream(Hasty))
    assert seen != [float(number) for number in range(HAND_OVERS)]


def test_200_copies_to_the_host_are_there_when_their_event_is() -> None:
    compute, copies = stream(), stream()
    copied = []
    for number in range(HAND_OVERS):
        with compute.current():
            torch.cuda._sleep(NAP)  # type: ignore[no-untyped-call]
            made = torch.full((SIZE,), float(number), device="cuda:0")
        copied.append(copy_to_host(made, compute, copies))
        del made
    for number, one in enumerate(copied):
        one.ended.synchronize()
        assert one.tensor.is_pinned()
        assert bool((one.tensor == number).all())


@pytest.mark.parametrize("is_pinned", [False, True])
def test_200_copies_to_the_device_are_there_for_what_is_launched_next(is_pinned: bool) -> None:
    compute, copies = stream(), stream()
    sums = []
    for number in range(HAND_OVERS):
        host = torch.full((SIZE,), float(number))
        if is_pinned:
            host = host.pin_memory()
        there = copy_to_device(host, compute, copies).tensor
        del host
        with compute.current():
            sums.append(there.sum() / SIZE)
        del there
    torch.cuda.synchronize()
    assert [float(one) for one in sums] == [float(number) for number in range(HAND_OVERS)]


def test_a_non_contiguous_value_arrives_as_it_is() -> None:
    compute, copies = stream(), stream()
    with compute.current():
        value = torch.arange(12.0, device="cuda:0").reshape(3, 4).t()
    copied = copy_to_host(value, compute, copies)
    copied.ended.synchronize()
    assert copied.tensor.equal(torch.arange(12.0).reshape(3, 4).t())
