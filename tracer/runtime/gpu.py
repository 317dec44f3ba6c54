"""What a GPU device has beyond its name: streams, times, and a thread that waits for it.

Ops are launched on the *compute* stream, copies between host and device run on the *copies* stream,
and anchors on a third one. The host never waits while it launches. What must wait for the GPU (a
copy that another task asked for, the end of a partition) is handed to one thread, which waits for
it in the order in which it was launched.
"""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch

from tracer.model.step import SpanContext
from tracer.ops.kernel import Event, Kernel, Stream
from tracer.ops.transfer import Copied, InFlight, arrive, copy_to_device, copy_to_host, depart
from tracer.record.device import DeviceTimes, Timed
from tracer.record.recorder import Recorder
from tracer.runtime.device_thread import DeviceThread
from tracer.runtime.interfaces import StepError

#: (key, tensor, is_dead, span): LocalRendezvous.send
Send = Callable[..., None]
#: called when a GPU has done all it was given, with what went wrong there
Drained = Callable[[Exception | None], None]


class Driver(Protocol):
    """Finds physical GPUs and makes streams on them."""

    def find(self, text: str) -> tuple[torch.device, str]:
        """Where tensors of the device `text` live, and what its physical device is called.

        Raises NoSuchGpu.
        """
        ...

    def stream(self, device: torch.device) -> Stream: ...


class Gpu:
    """`name` is that of its thread; `anchors` the site of the spans that compare its clock."""

    def __init__(
        self,
        name: str,
        device: torch.device,
        driver: Driver,
        recorder: Recorder,
        anchors: int,
    ) -> None:
        self.compute, self.copies, clock = (driver.stream(device) for _ in range(3))
        self.now = recorder.now
        self.times = DeviceTimes(recorder, clock.record, anchors)
        self._device = device
        self._thread = DeviceThread(name)

    def mark(self) -> Event:
        return self.compute.record()

    def launched(
        self,
        site: int,
        context: SpanContext,
        launch: int,
        when: int,
        begun: Event,
        num_bytes: int,
        extra: int,
        key: int = 0,
    ) -> None:
        """An op was launched by span `launch` at `when`, after the mark `begun`."""
        ended = self.compute.record()
        self.times.add(
            Timed(site, context.under(launch), when, begun, ended, num_bytes, extra, key)
        )

    def on_stream(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with what it launches on the compute stream."""
        current = self.compute.current

        def call(*args: Any) -> Any:
            with current():
                return function(*args)

        return call

    def sender(self, *, stays: bool, site: int) -> Kernel:
        """What hands a value of this device over: (send, key, value, is_dead, span, context).

        One that `stays` on a GPU of this task leaves with its event; others are copied to the host
        and sent when they are there.
        """

        def to_stream(
            send: Send, key: str, value: Any, is_dead: bool = False, span: int = 0, *_: Any
        ) -> None:
            send(key, depart(value, self.compute), is_dead, span)

        def to_host(
            send: Send,
            key: str,
            value: Any,
            is_dead: bool = False,
            span: int = 0,
            context: SpanContext | None = None,
        ) -> None:
            when = self.now()
            copied = copy_to_host(value, self.compute, self.copies)
            if context is not None:
                self._tell(copied, site, context.under(span), when)
            self._thread.submit(partial(_wait_and_send, copied, send, key, is_dead, span))

        return to_stream if stays else to_host

    def receiver(self, site: int) -> Kernel:
        """What puts a value that came from elsewhere on this device: (value, context)."""

        def receive(value: Any, context: SpanContext | None = None) -> Any:
            if isinstance(value, InFlight):
                return self._of_stream(value)
            if not isinstance(value, torch.Tensor):
                return value
            when = self.now()
            copied = copy_to_device(value, self.compute, self.copies)
            if context is not None:
                self._tell(copied, site, context, when)
            return copied.tensor

        return receive

    def _of_stream(self, value: InFlight) -> torch.Tensor:
        tensor = arrive(value, self.compute)
        if tensor.device == self._device:
            return tensor
        with value.stream.current(), self.compute.current():  # torch joins the two for the copy
            return tensor.to(self._device, non_blocking=True)

    def receive_on_host(self, value: Any, _context: SpanContext | None = None) -> Any:
        """Puts what came from elsewhere on the host, for kernels that read it there."""
        return self.to_host(self._of_stream(value)) if isinstance(value, InFlight) else value

    def to_device(self, value: Any) -> Any:
        """A host value that a kernel needs here; strings stay where they are."""
        if not isinstance(value, torch.Tensor):
            return value
        return copy_to_device(value, self.compute, self.copies).tensor

    def to_host(self, value: Any) -> Any:
        """A value that a kernel reads on the host, now: the one place where a launch waits."""
        if not isinstance(value, torch.Tensor):
            return value
        copied = copy_to_host(value, self.compute, self.copies)
        copied.ended.synchronize()
        return copied.tensor

    def _tell(self, copied: Copied, site: int, context: SpanContext, when: int) -> None:
        num_bytes = copied.tensor.nbytes
        self.times.add(Timed(site, context, when, copied.begun, copied.ended, num_bytes))

    def when_drained(self, then: Drained) -> None:
        """Calls `then` when all that was launched so far is done; then tells its times."""
        mark, ends = self.times.mark(), self._ends()
        self._thread.submit(partial(self._drained, mark, ends, then))

    def _ends(self) -> tuple[Event, Event] | Exception:
        try:
            return self.compute.record(), self.copies.record()
        except Exception as error:  # noqa: BLE001 (of something launched before)
            return error

    def _drained(self, mark: int, ends: tuple[Event, Event] | Exception, then: Drained) -> None:
        error = _error_of(ends)
        try:
            then(error)
        finally:
            self._settle(mark, error)

    def _settle(self, mark: int, error: Exception | None) -> None:
        if error is not None:
            self.times.drop(mark)
            return
        self.times.settle(mark)
        self.times.anchor_if_due()

    def close(self) -> None:
        """Tells what is left, and how its clock stands at the end."""
        self._thread.submit(partial(self._last, self.times.mark(), self._ends()))
        self._thread.close()

    def _last(self, mark: int, ends: tuple[Event, Event] | Exception) -> None:
        error = _error_of(ends)
        self._settle(mark, error)
        if error is None:
            self.times.anchor()


def _error_of(ends: tuple[Event, ...] | Exception) -> Exception | None:
    """What a GPU failed with: it is told where the host waits, not where it was launched."""
    if isinstance(ends, Exception):
        return ends
    try:
        for end in ends:
            end.synchronize()
    except Exception as error:  # noqa: BLE001 (as of a kernel)
        return error
    return None


def _wait_and_send(copied: Copied, send: Send, key: str, is_dead: bool, span: int) -> None:
    """A copy that fails is told by the partition's end, which waits behind it."""
    if _error_of((copied.ended,)) is None:
        with contextlib.suppress(StepError):  # the step was aborted meanwhile
            send(key, copied.tensor, is_dead, span)
