"""GPUs for tests without one.

`FakeDriver` makes streams that live on a timeline: what is launched takes time there while the host
goes on, an event lies where its stream had come to, and whoever waits for one waits, by the fake
clock, until then. `QueuedStream` is the other half: its work is really put off, and done in
whatever order its waits allow, by a scheduler that may be as mean as it likes.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from tests.fakes import FakeClock
from tracer.ops.kernel import Event, Kernel, OpContext, OpDef, Stream
from tracer.ops.registry import lookup

CPU = torch.device("cpu")


class FakeEvent:
    def __init__(self, driver: "FakeDriver", at: int) -> None:
        self.at = at
        self._driver = driver

    def synchronize(self) -> None:
        self._driver.num_synchronized += 1
        if self._driver.fails_with is not None:
            raise self._driver.fails_with
        late = self.at + self._driver.wake_up_ns() - self._driver.clock.now_ns()
        self._driver.clock.advance(max(0, late))

    def elapsed_time(self, end_event: Any) -> float:
        """As CUDA gives it: a float of few digits, by a clock that is not the host's."""
        device_ns = (end_event.at - self.at) / (1.0 + self._driver.drift)
        return float(np.float32(device_ns / 1e6))


class FakeStream:
    def __init__(self, driver: "FakeDriver") -> None:
        self.num_waits = 0
        self.num_held = 0
        self.num_copies = 0
        self._driver = driver
        self._busy_until = 0

    def current(self) -> contextlib.AbstractContextManager[object]:
        return self._driver.on(self)

    def launch(self, ns: int) -> None:
        self._busy_until = max(self._busy_until, self._driver.clock.now_ns()) + ns

    def record(self) -> Event:
        return FakeEvent(self._driver, max(self._busy_until, self._driver.clock.now_ns()))

    def wait(self, event: Event) -> None:
        assert isinstance(event, FakeEvent)
        self.num_waits += 1
        self._busy_until = max(self._busy_until, event.at)

    def hold(self, tensor: torch.Tensor) -> None:
        self.num_held += 1

    def pinned(self, like: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(like)

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def to_host(self, tensor: torch.Tensor, pinned: torch.Tensor) -> None:
        pinned.copy_(self._copy(tensor))

    def to_device(self, pinned: torch.Tensor) -> torch.Tensor:
        return self._copy(pinned)

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        assert self._driver.current is self, "a copy was launched on another stream"
        self.num_copies += 1
        self.launch(self._driver.copy_ns)
        return tensor.clone()


class FakeDriver:
    """`drift`: how much faster the host counts; `wake_up_ns`: how late a waiting thread notices."""

    def __init__(self, clock: FakeClock | None = None, drift: float = 0.0) -> None:
        self.clock = clock or FakeClock()
        self.drift = drift
        self.copy_ns = 0
        self.wake_up_ns: Callable[[], int] = lambda: 0
        self.streams: list[FakeStream] = []
        self.num_synchronized = 0
        self.fails_with: Exception | None = None
        self._local = threading.local()

    def find(self, text: str) -> tuple[torch.device, str]:
        return CPU, text

    def stream(self, device: torch.device) -> FakeStream:
        self.streams.append(FakeStream(self))
        return self.streams[-1]

    @property
    def current(self) -> FakeStream | None:
        return getattr(self._local, "stream", None)

    @contextlib.contextmanager
    def on(self, stream: FakeStream) -> Iterator[None]:
        before = self.current
        self._local.stream = stream
        try:
            yield
        finally:
            self._local.stream = before

    @property
    def num_waits(self) -> int:
        return sum(stream.num_waits for stream in self.streams)

    @property
    def num_held(self) -> int:
        return sum(stream.num_held for stream in self.streams)

    def taking(self, op: str, ns: int, launch_ns: int = 0) -> Callable[[str], OpDef]:
        """A registry in which `op` is launched in `launch_ns` and then takes a GPU `ns`."""

        def bind(node: Any, context: OpContext) -> Kernel:
            inner = lookup(op).bind(node, context)

            def kernel(*inputs: Any) -> Any:
                self.clock.advance(launch_ns)
                if self.current is not None:
                    self.current.launch(ns)
                return inner(*inputs)

            return kernel

        return lambda name: OpDef(op, bind) if name == op else lookup(name)


class _Point:
    """An event of queued streams: there once its stream has come to it."""

    def __init__(self) -> None:
        self.has_come = False

    def synchronize(self) -> None:
        raise AssertionError("the host waited")

    def elapsed_time(self, end_event: Any) -> float:
        raise AssertionError("nobody times this")


class QueuedStream:
    """Work that waits to be done; `memory` is given back to the stream that it was taken on."""

    def __init__(self) -> None:
        self.num_waits = 0
        self.num_held = 0
        self.held: dict[int, set[QueuedStream]] = {}
        self._todo: deque[Callable[[], bool]] = deque()
        self._free: list[tuple[torch.Tensor, list[_Point]]] = []

    def current(self) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext()

    def launch(self, work: Callable[[], object]) -> None:
        def done() -> bool:
            work()
            return True

        self._todo.append(done)

    def record(self) -> Event:
        point = _Point()
        self.launch(lambda: setattr(point, "has_come", True))
        return point

    def wait(self, event: Event) -> None:
        assert isinstance(event, _Point)
        self.num_waits += 1
        self._todo.append(lambda: event.has_come)

    def hold(self, tensor: torch.Tensor) -> None:
        self.num_held += 1
        self.held.setdefault(id(tensor), set()).add(self)

    def pinned(self, like: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(like)

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def to_host(self, tensor: torch.Tensor, pinned: torch.Tensor) -> None:
        self.launch(lambda: pinned.copy_(tensor))

    def to_device(self, pinned: torch.Tensor) -> torch.Tensor:
        there = torch.zeros_like(pinned)
        self.to_host(pinned, there)
        return there

    def take(self) -> torch.Tensor:
        """Memory, used before if it can be: torch's caching allocator in small."""
        for at, (block, points) in enumerate(self._free):
            if all(point.has_come for point in points):
                del self._free[at]
                return block
        return torch.zeros(())

    def give_back(self, block: torch.Tensor, holders: Sequence["QueuedStream"]) -> None:
        """The host lets go; streams that hold the block must come to where they are now first."""
        points = []
        for stream in holders:
            if stream is not self and stream in stream.held.pop(id(block), ()):
                point = stream.record()
                assert isinstance(point, _Point)
                points.append(point)
        self._free.append((block, points))

    def step(self) -> bool:
        """Does the next piece of work; False: there is none, or it must wait."""
        if self._todo and self._todo[0]():
            self._todo.popleft()
            return True
        return False

    @property
    def is_done(self) -> bool:
        return not self._todo


def drain(streams: Sequence[QueuedStream]) -> None:
    """Always goes on with the first stream that can."""
    while any(stream.step() for stream in streams):
        pass
    assert all(stream.is_done for stream in streams), "streams wait in a circle"


def is_stream(stream: FakeStream | QueuedStream) -> Stream:
    """Both are what the runtime takes for a stream; mypy sees to it."""
    return stream
