"""Inputs that are made ready ahead of the steps that take them (TF `MultiDeviceIterator`).

    reader   read · cut · copy ▏read · cut · copy ▏…    data.prefetch, on a lane of its own
                           ╲                 ╲
    buffer            a batch for each device, at most N times
                             ╲                 ╲
    client   … step 1 ……………… ▏step 2 ……………… ▏           data.next: what is ready, or a wait for it

The reader is a thread of the same process. It gains what is not Python: the disk, or a step that
computes. The buffers of all devices are one, as every step takes a batch for each of them.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count

from tracer.model.option import Declared, Option
from tracer.model.step import SpanContext
from tracer.record.recorder import Recorder
from tracer.strategies.inputs.step_input import StepInput

PREFETCH: Declared = {
    "prefetch": Option(
        0, "batches that are read ahead for each device; 0: none, a step waits for its own", least=0
    )
}

_END_S = 5.0  #: for a reader that is in the middle of a batch when nobody wants any more


class Prefetched(Iterator[StepInput]):
    """What `inputs` gives, read at most `depth` steps ahead.

    A read is recorded under `context` where `samples` says so of the step that it is for.
    """

    def __init__(
        self,
        inputs: Iterator[StepInput],
        depth: int,
        recorder: Recorder,
        context: SpanContext,
        samples: Callable[[int], bool],
    ) -> None:
        self.num_ready = 0  #: inputs that were there when the last one was asked for
        self.waited_ns = 0  #: for it, where there was none
        self._inputs = inputs
        self._depth = depth
        self._recorder = recorder
        self._context = context
        self._samples = samples
        self._ready: deque[StepInput] = deque()
        self._end: BaseException | None = None  # why there are no more
        self._is_closed = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read_all, name="prefetch", daemon=True)
        self._reader.start()

    def __next__(self) -> StepInput:
        """Raises what reading it raised, and StopIteration at the end."""
        with self._changed:
            self.num_ready = len(self._ready)
            asked = self._recorder.now()
            # no bound of its own: the reader gives an input or ends, and takes as long as the data
            self._changed.wait_for(lambda: self._ready or self._end)
            self.waited_ns = 0 if self.num_ready else self._recorder.now() - asked
            if not self._ready:
                assert self._end is not None
                raise self._end
            given = self._ready.popleft()
            self._changed.notify_all()
            return given

    def close(self) -> None:
        """Nobody takes any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._reader.join(_END_S)

    def _read_all(self) -> None:
        try:
            for number in count(1):
                if not self._has_room():
                    return
                self._read(number)
        except BaseException as end:  # noqa: BLE001 (whoever takes the next one gets it)
            with self._changed:
                self._end = end
                self._changed.notify_all()

    def _has_room(self) -> bool:
        """Waits for it. False: nobody takes any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or len(self._ready) < self._depth)
            return not self._is_closed

    def _read(self, number: int) -> None:
        """Raises StopIteration at the end, which data that end tell with their last input."""
        context = self._context
        if not self._samples(number):
            context = context._replace(sampled=False)
        with self._recorder.span("data.prefetch", context) as span:
            given = next(self._inputs, None)
            if given is not None:
                given = given.owned()
                span.stop_clock()
                span.set("vizdist.data.for_step", number)
                span.set("vizdist.batch", given.num_rows)
                span.set("vizdist.data.replicas", len(given.replicas))
                span.set("vizdist.data.ready", self._add(given))
        if given is None or given.is_last:
            raise StopIteration

    def _add(self, given: StepInput) -> int:
        """How many are ready with it."""
        with self._changed:
            self._ready.append(given)
            self._changed.notify_all()
            return len(self._ready)


@contextmanager
def prefetched(
    inputs: Iterator[StepInput],
    depth: int,
    recorder: Recorder,
    context: SpanContext,
    samples: Callable[[int], bool],
) -> Iterator[Iterator[StepInput]]:
    """`inputs` themselves where nothing is to be read ahead."""
    if not depth:
        yield inputs
        return
    with closing(Prefetched(inputs, depth, recorder, context, samples)) as ahead:
        yield ahead
