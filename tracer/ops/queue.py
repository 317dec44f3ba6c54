"""FIFO queues between steps (TF `fifo_queue.cc`, `queue_ops.cc`; whitepaper §4.6).

A queue lives in its task, as a variable does. Who puts into a full one, or takes from an empty one,
waits without a thread: whoever makes room, or brings an element, ends the wait.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from tracer.model.graph import Node, TensorSpec
from tracer.ops.dtypes import spec_of, torch_dtype
from tracer.ops.kernel import AsyncKernel, Cancel, Done, Kernel, OpContext, OpDef, OpError, direct
from tracer.ops.shapes import Specs

Element = tuple[Any, ...]  # a tensor a component

UNBOUNDED = -1
ANY_SHAPE = (-1,)


@dataclass(eq=False, slots=True)
class _Wait:
    """An operation that cannot end yet; `element` is what is to be put, None of a taker."""

    done: Done
    element: Element | None = None


class FIFOQueue:
    """Elements go out in the order in which they came; so do those who wait."""

    def __init__(self, name: str, capacity: int, components: Specs) -> None:
        """A component without a known shape has one with a dim of -1."""
        self.name = name
        self.capacity = capacity
        self.components = components
        self._lock = threading.Lock()
        self._elements: deque[Element] = deque()
        self._putters: deque[_Wait] = deque()
        self._takers: deque[_Wait] = deque()
        self._is_closed = False

    @property
    def size(self) -> int:
        return len(self._elements)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def put(self, done: Done, element: Element) -> Cancel:
        """Ends when the element is in. CANCELLED once the queue is closed."""
        self._check(element)
        wait = _Wait(done, element)
        with self._lock:
            if self._is_closed:
                raise OpError("CANCELLED", f"FIFOQueue '{self.name}' is closed.")
            self._putters.append(wait)
        self._go_on()
        return lambda: self._take_back(self._putters, wait)

    def take(self, done: Done) -> Cancel:
        """Ends with the oldest element. OUT_OF_RANGE if the queue is closed and will have none."""
        wait = _Wait(done)
        with self._lock:
            self._takers.append(wait)
        self._go_on()
        return lambda: self._take_back(self._takers, wait)

    def close(self, *, cancel_pending: bool) -> None:
        """What is in stays to be taken; those who wait to put may still do so, unless cancelled."""
        with self._lock:
            if self._is_closed and not cancel_pending:
                raise OpError("CANCELLED", f"Queue '{self.name}' is already closed.")
            self._is_closed = True
            cancelled = list(self._putters) if cancel_pending else []
            if cancel_pending:
                self._putters.clear()
        for wait in cancelled:
            wait.done(error=self._cancelled("Enqueue"))
        self._go_on()

    def _check(self, element: Element) -> None:
        self.check_number(len(element))
        for number, (value, wanted) in enumerate(zip(element, self.components, strict=True)):
            found = spec_of(value)
            if found.dtype != wanted.dtype or not _fits(found.shape, wanted.shape):
                raise OpError(
                    "INVALID_ARGUMENT",
                    f"Shape mismatch in tuple component {number} of FIFOQueue '{self.name}'. "
                    f"Expected {wanted.dtype} {list(wanted.shape)}, got {found.dtype} "
                    f"{list(found.shape)}",
                )

    def check_number(self, components: int) -> None:
        if components != (wanted := len(self.components)):
            raise OpError(
                "INVALID_ARGUMENT",
                f"Wrong number of components in tuple for FIFOQueue '{self.name}'. "
                f"Expected {wanted}, got {components}",
            )

    def _take_back(self, waits: deque[_Wait], wait: _Wait) -> None:
        with self._lock:
            if wait not in waits:  # it has ended
                return
            waits.remove(wait)
        wait.done(error=self._cancelled("Dequeue" if wait.element is None else "Enqueue"))

    def _cancelled(self, what: str) -> OpError:
        return OpError("CANCELLED", f"{what} operation of FIFOQueue '{self.name}' was cancelled")

    def _go_on(self) -> None:
        """Ends all waits that can end; outside the lock, as what they let run comes back here."""
        with self._lock:
            ended = list(self._ended())
        for end in ended:
            end()

    def _ended(self) -> Iterable[Callable[[], None]]:
        while True:
            if self._putters and (self.capacity == UNBOUNDED or self.size < self.capacity):
                putter = self._putters.popleft()
                assert putter.element is not None
                self._elements.append(putter.element)
                yield putter.done
            elif self._takers and self._elements:
                yield _with_result(self._takers.popleft(), self._elements.popleft())
            elif self._takers and self._is_closed:
                yield self._out_of_range(self._takers.popleft())
            else:
                return

    def _out_of_range(self, taker: _Wait) -> Callable[[], None]:
        error = OpError(
            "OUT_OF_RANGE",
            f"FIFOQueue '{self.name}' is closed and has insufficient elements "
            "(requested 1, current size 0)",
        )
        return lambda: taker.done(error=error)


def _with_result(taker: _Wait, element: Element) -> Callable[[], None]:
    result = element[0] if len(element) == 1 else element
    return lambda: taker.done(result)


def _fits(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Of a component that has no shape, -1 stands for every dim."""
    if wanted == ANY_SHAPE:
        return True
    return len(found) == len(wanted) and all(
        w in (-1, f) for f, w in zip(found, wanted, strict=True)
    )


def _bind_queue(node: Node, context: OpContext) -> Kernel:
    name = node.attrs.get("shared_name") or node.name
    capacity, components = _capacity(node), _components(node)
    queue = context.resources.resource(
        node.attrs.get("container", ""), name, lambda: FIFOQueue(name, capacity, components)
    )
    if (queue.capacity, queue.components) != (capacity, components):
        raise OpError(
            "INVALID_ARGUMENT",
            f"Shared queue '{name}' has capacity {queue.capacity} and components "
            f"{queue.components} in this task; {node.name} asks for {capacity} and {components}",
        )
    return lambda: queue


def _capacity(node: Node) -> int:
    """Every negative one is without bound, as in TF."""
    capacity = int(node.attrs.get("capacity", UNBOUNDED))
    if not capacity:
        raise OpError(
            "INVALID_ARGUMENT",
            f"{node.name} has capacity 0, so no element could ever be put; "
            f"it must be at least 1, or {UNBOUNDED} for a queue without bound",
        )
    return max(capacity, UNBOUNDED)


def _components(node: Node) -> Specs:
    types = node.attrs["component_types"]
    for dtype in types:
        if dtype != "string":
            torch_dtype(dtype)
    shapes = node.attrs.get("shapes") or [[-1]] * len(types)
    if len(shapes) != len(types):
        raise OpError(
            "INVALID_ARGUMENT",
            f"{node.name} has {len(types)} component_types and {len(shapes)} shapes; "
            "give a shape a component, or none at all",
        )
    pairs = zip(types, shapes, strict=True)
    return tuple(TensorSpec(dtype, tuple(shape)) for dtype, shape in pairs)


def _put(done: Done, queue: FIFOQueue, *components: Any) -> Cancel:
    return queue.put(done, components)


def _put_many(done: Done, queue: FIFOQueue, *components: Any) -> Cancel | None:
    """A row of all components makes an element; ends when all are in."""
    queue.check_number(len(components))
    if len({len(component) for component in components}) > 1:
        sizes = ", ".join(str(len(component)) for component in components)
        raise OpError(
            "INVALID_ARGUMENT",
            f"All input tensors must have the same size in the 0th dimension, not {sizes}",
        )
    rows = list(zip(*(component.unbind() for component in components), strict=True))
    if not rows:
        done()
        return None
    ended = _AllEnded(done, len(rows))
    cancels = [queue.put(ended, row) for row in rows]

    def take_back() -> None:
        for cancel in cancels:
            cancel()

    return take_back


class _AllEnded:
    """Ends when the last of several does, or with the first error."""

    def __init__(self, done: Done, count: int) -> None:
        self._done = done
        self._count = count
        self._lock = threading.Lock()

    def __call__(self, result: Any = None, error: Exception | None = None) -> None:
        del result
        with self._lock:
            if not self._count:
                return
            self._count = 0 if error is not None else self._count - 1
            if self._count:
                return
        self._done(error=error)


def _bind_take(node: Node, _context: OpContext) -> AsyncKernel:
    components = len(node.attrs["component_types"])

    def take(done: Done, queue: FIFOQueue) -> Cancel:
        queue.check_number(components)
        return queue.take(done)

    return take


def _bind_close(node: Node, _context: OpContext) -> Kernel:
    cancel_pending = bool(node.attrs.get("cancel_pending_enqueues"))
    return lambda queue: queue.close(cancel_pending=cancel_pending)


def _handle_spec(_node: Node, _inputs: list[Any]) -> Specs:
    return (TensorSpec("resource", ()),)


def _always(kernel: AsyncKernel) -> Callable[[Node, OpContext], AsyncKernel]:
    return lambda _node, _context: kernel


OPS: tuple[OpDef, ...] = (
    OpDef(
        "FIFOQueueV2",
        _bind_queue,
        infer=_handle_spec,
        stateful=True,
        is_view=True,
        says="A queue that lives in its task, of at most `capacity` elements.",
    ),
    OpDef(
        "QueueEnqueueV2",
        _always(_put),
        num_outputs=0,
        stateful=True,
        is_async=True,
        says="Puts an element in; waits while the queue is full.",
    ),
    OpDef(
        "QueueEnqueueManyV2",
        _always(_put_many),
        num_outputs=0,
        stateful=True,
        is_async=True,
        says="Puts each row in as an element of its own.",
    ),
    OpDef(
        "QueueDequeueV2",
        _bind_take,
        num_outputs=lambda node: len(node.attrs["component_types"]),
        stateful=True,
        is_async=True,
        says="Takes the oldest element; waits while the queue is empty.",
    ),
    OpDef("QueueCloseV2", _bind_close, num_outputs=0, stateful=True),
    direct("QueueSizeV2", lambda queue: torch.tensor(queue.size, dtype=torch.int32), stateful=True),
    direct("QueueIsClosedV2", lambda queue: torch.tensor(queue.is_closed), stateful=True),
)
