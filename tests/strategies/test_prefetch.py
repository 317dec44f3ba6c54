"""Inputs read ahead: how many, in which order, what ends them, and what is recorded of it."""

import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

import pytest

from tests.fakes import recorded
from tests.strategies.inputs_golden import elements, ids_of, rows
from tests.training.trained import trained
from tracer.model.step import trace_of_step
from tracer.ops.kernel import OpError
from tracer.record.clock import FakeClock
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.runtime.interfaces import StepError
from tracer.strategies.inputs.distribute import distribute_dataset
from tracer.strategies.inputs.next_input import next_input
from tracer.strategies.inputs.prefetch import Prefetched, prefetched
from tracer.strategies.inputs.step_input import StepInput
from tracer.workloads import digits_mlp

RUN = trace_of_step("r", "run", 0)
WAIT_S = 20.0


def every(_step: int) -> bool:
    return True


def inputs(count: int, batch: int = 2) -> Iterator[StepInput]:
    return distribute_dataset(rows(elements(count * batch), batch))


def ahead(
    given: Iterator[StepInput], depth: int = 2, recorder: Recorder = NO_RECORDER
) -> Prefetched:
    return Prefetched(given, depth, recorder, RUN, every)


def test_inputs_come_in_order_and_end_as_they_would_anyway() -> None:
    with closing(ahead(inputs(5))) as given:
        assert [ids_of(one) for one in given] == [ids_of(one) for one in inputs(5)]
        with pytest.raises(StopIteration):
            next(given)


@pytest.mark.parametrize("depth", [1, 3])
def test_at_most_so_many_are_read_ahead(depth: int) -> None:
    taken, leads = 0, list[int]()

    def watched() -> Iterator[StepInput]:
        for number, one in enumerate(inputs(9), 1):
            leads.append(number - taken)
            yield one

    with closing(ahead(watched(), depth)) as given:
        for _ in given:
            taken += 1
    assert max(leads) <= depth + 1  # the one that is being read is not ready yet


def test_what_reading_raises_comes_after_what_was_read_before() -> None:
    def breaking() -> Iterator[StepInput]:
        yield from islice(inputs(3), 2)
        raise OpError("DATA_LOSS", "the third batch cannot be read")

    with closing(ahead(breaking(), depth=5)) as given:
        for number in (1, 2):
            next_input(given, number, NO_RECORDER, RUN)
        with pytest.raises(StepError, match="the third batch cannot be read") as caught:
            next_input(given, 3, NO_RECORDER, RUN)
    assert caught.value.code == "DATA_LOSS"


def test_whoever_has_enough_ends_the_reader() -> None:
    given = ahead(inputs(100), depth=1)
    next(given)
    given.close()
    assert not given._reader.is_alive()


def test_nothing_is_read_ahead_where_nobody_asks_for_it() -> None:
    own = inputs(3)
    with prefetched(own, 0, NO_RECORDER, RUN, every) as given:
        assert given is own


def test_a_wait_for_the_reader_is_measured_and_what_is_ready_is_counted() -> None:
    clock, asked = FakeClock(1_000), threading.Event()

    def slow() -> Iterator[StepInput]:
        for number, one in enumerate(inputs(2), 1):
            if number == 1:
                assert asked.wait(WAIT_S)
                clock.advance(5_000)
            yield one

    with recorded("client", clock) as recording:
        recorder, now = recording.recorder, recording.recorder.now
        main = threading.current_thread()

        def noted() -> int:
            """The reader goes on once its client has begun to wait."""
            read = now()
            if threading.current_thread() is main:
                asked.set()
            return read

        recorder.now = noted
        with closing(ahead(slow(), 1, recorder)) as given:
            next(given)
            assert (given.num_ready, given.waited_ns) == (0, 5_000)
            while not given._ready:
                given._reader.join(0.001)
            next(given)
            assert (given.num_ready, given.waited_ns) == (1, 0)


def test_reads_are_recorded_for_the_steps_that_are_and_waits_with_what_is_taken() -> None:
    with recorded() as recording:
        recorder = recording.recorder
        given = Prefetched(inputs(4), 2, recorder, RUN, lambda step: step % 2 == 1)
        with closing(given):
            for number in range(1, 5):
                next_input(given, number, recorder, trace_of_step("r", "worker:0", number))
        given._reader.join(WAIT_S)
        spans = recording.spans()
    reads = [span for span in spans if span.kind == "data.prefetch"]
    assert [span.attributes["vizdist.data.for_step"] for span in reads] == [1, 3]
    assert {span.attributes["vizdist.batch"] for span in reads} == {2}
    assert all(1 <= span.attributes["vizdist.data.ready"] <= 2 for span in reads)
    nexts = [span for span in spans if span.kind == "data.next"]
    assert all(span.attributes["vizdist.data.ready"] <= 2 for span in nexts)
    assert all(0 <= span.extra <= span.end - span.start for span in nexts)


def test_a_model_trains_the_same_whether_its_inputs_are_read_ahead_or_not() -> None:
    workload = digits_mlp.workload(batch=16)
    alone = trained(workload, "one_device", 6)
    ahead_of = trained(workload, "one_device", 6, options={"prefetch": "3"})
    assert ahead_of.fitted.losses == alone.fitted.losses
    assert [span.kind for span in ahead_of.spans].count("data.prefetch") >= 6
