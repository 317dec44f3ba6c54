"""Frames that come late or never, for tasks for which that was asked."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from tracer.model.fault import Fault, Kind
from tracer.model.step import SpanContext
from tracer.record.recorder import Recorder
from tracer.rpc.connection import Connection, Handler
from tracer.rpc.frames import RECV_TENSOR, RUN_GRAPH
from tracer.rpc.loop import RpcLoop
from tracer.rpc.messages import decode_recv_tensor, decode_run_graph
from tracer.runtime import turn
from tracer.runtime.faults import is_due, record_fault
from tracer.runtime.interfaces import StepError

_CONTEXT_OF: dict[int, Callable[[memoryview], SpanContext]] = {
    RECV_TENSOR: lambda payload: decode_recv_tensor(payload)[3],
    RUN_GRAPH: lambda payload: decode_run_graph(payload).context,
}


def let_frames_fail(
    handlers: dict[int, Handler], faults: Sequence[Fault], loop: RpcLoop, recorder: Recorder
) -> None:
    """Puts itself before the handlers of what peers ask of this task."""
    for fault in faults:
        if fault.kind is Kind.DELAY:
            delay = _Delay(fault, loop, recorder)
            handlers.update({kind: delay.before(kind, handlers[kind]) for kind in handlers})
        elif fault.kind is Kind.DROP:
            handlers[RECV_TENSOR] = _Drop(fault, recorder).before(handlers[RECV_TENSOR])


class _Drop:
    """The first request for a tensor that is due is forgotten."""

    def __init__(self, fault: Fault, recorder: Recorder) -> None:
        self._fault = fault
        self._recorder = recorder
        self._is_over = False

    def before(self, handler: Handler) -> Handler:
        def handle(connection: Connection, call_id: int, payload: memoryview) -> None:
            context = _CONTEXT_OF[RECV_TENSOR](payload)
            if self._is_over or not is_due(self._fault, context):
                handler(connection, call_id, payload)
                return
            self._is_over = True
            record_fault(self._recorder, self._fault, context)

        return handle


class _Delay:
    """From the first request on that is due, all frames wait, and keep their order."""

    def __init__(self, fault: Fault, loop: RpcLoop, recorder: Recorder) -> None:
        self._fault = fault
        self._loop = loop
        self._recorder = recorder
        self._has_begun = False
        self._waiting: deque[Callable[[], None]] = deque()

    def before(self, kind: int, handler: Handler) -> Handler:
        def handle(connection: Connection, call_id: int, payload: memoryview) -> None:
            if not self._has_begun:
                self._look(kind, payload)
            if not self._has_begun:
                handler(connection, call_id, payload)
                return
            kept = memoryview(bytes(payload))  # a stream may use its buffer again
            self._waiting.append(partial(_handle, handler, connection, call_id, kept))
            self._loop.later(self._fault.delay_ms / 1000, self._next)

        return handle

    def _look(self, kind: int, payload: memoryview) -> None:
        if kind in _CONTEXT_OF and is_due(self._fault, context := _CONTEXT_OF[kind](payload)):
            self._has_begun = True
            record_fault(self._recorder, self._fault, context)

    def _next(self) -> None:
        turn.run(self._waiting.popleft())


def _handle(handler: Handler, connection: Connection, call_id: int, payload: memoryview) -> None:
    try:
        handler(connection, call_id, payload)
    except StepError as error:
        connection.refuse(call_id, error)
