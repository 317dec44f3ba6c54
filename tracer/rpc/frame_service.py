"""What is called once or more a step, served from frames: RunStep, RunGraph, RecvTensor, notices.

Nothing here waits: the runtime calls back on the thread that has the value, and the answer gathers
with whatever else that thread has for the peer.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

from tracer.model.collective import Execution
from tracer.model.step import SpanContext
from tracer.model.trace_folder import Flag
from tracer.record.open_span import OpenSpan
from tracer.rpc.collective_messages import decode_arrival, encode_execution
from tracer.rpc.connection import NOTHING, Connection, Handler
from tracer.rpc.frames import (
    CLEANUP,
    COMPLETE_INSTANCE,
    MARK_RECV_FINISHED,
    OK,
    RECV_TENSOR,
    RUN_CALLABLE,
    RUN_GRAPH,
    RUN_STEP,
    START_ABORT,
    Parts,
)
from tracer.rpc.messages import (
    decode_mark_recv_finished,
    decode_recv_tensor,
    decode_run_callable,
    decode_run_graph,
    decode_run_step,
    decode_step_notice,
    encode_fetched,
    encode_received,
)
from tracer.rpc.pipe import Outgoing
from tracer.rpc.spans import end_call, frame_sites
from tracer.rpc.transport import Transport
from tracer.runtime.interfaces import (
    Received,
    RunCallableRequest,
    RunGraphResult,
    RunStepRequest,
    RunStepResult,
    ServedMaster,
    ServedWorker,
    StepDone,
    StepError,
)

R = TypeVar("R", RunStepRequest, RunCallableRequest)


class _Served:
    """One call being served: where its answer goes, and its span if the step is recorded."""

    __slots__ = ("_call_id", "_connection", "_key", "_service", "_span", "_step_id")

    def __init__(
        self,
        service: "FrameService",
        connection: Connection,
        call_id: int,
        step_id: int,
        span: OpenSpan | None,
        key: str = "",
    ) -> None:
        self._key = key
        self._service = service
        self._connection = connection
        self._call_id = call_id
        self._step_id = step_id
        self._span = span

    def received(self, item: Received) -> None:
        if item.error is not None:
            self.refuse(item.error)
            return
        flags = item.is_dead * Flag.DEAD | item.deferred * Flag.DEFERRED
        num_bytes = getattr(item.tensor, "nbytes", 0)
        self._answer(lambda: encode_received(item, self._key), num_bytes, flags, item.wait_ns)

    def graph_was_run(self, result: RunGraphResult) -> None:
        if result.error is not None:
            self.refuse(result.error)
        else:
            self._answer(lambda: encode_fetched(result.fetched))

    def step_was_run(self, result: RunStepResult | StepError) -> None:
        if isinstance(result, StepError):
            self.refuse(result)
        else:
            fetched, step_id, was_made = result
            self._answer(lambda: encode_fetched(fetched, step_id, was_made=was_made))

    def all_have_arrived(self, outcome: Execution | StepError) -> None:
        if isinstance(outcome, StepError):
            self.refuse(outcome)
            return
        wait_ns = self._service.since(self._span) if self._span else 0
        self._answer(lambda: encode_execution(outcome), wait_ns=wait_ns)

    def refuse(self, error: StepError) -> None:
        end_call(self._span, error)
        self._connection.refuse(self._call_id, error)

    def _answer(
        self, encode: Callable[[], Parts], num_bytes: int = 0, flags: int = 0, wait_ns: int = 0
    ) -> None:
        try:
            payload = encode()
        except StepError as error:
            self.refuse(error)
            return
        except Exception as error:  # noqa: BLE001 (nobody else would tell the caller)
            text = f"the answer cannot be sent: {type(error).__name__}: {error}"
            self.refuse(StepError("INTERNAL", text, task=self._service.task))
            return
        frame = self._connection.control.frame(OK, self._call_id, payload)
        if frame is None:
            self._answer_slowly(payload, num_bytes, flags, wait_ns)
            return
        end_call(self._span, num_bytes=num_bytes or payload[1], flags=flags, extra=wait_ns)
        self._connection.control.send(frame)

    def _answer_slowly(self, payload: Parts, num_bytes: int, flags: int, wait_ns: int) -> None:
        """Chunk by chunk, so that an abort of the step can end it on the way."""
        under_way = self._service.under_way

        def on_end(is_sent: bool) -> None:
            under_way.remove(self._step_id, outgoing)
            if is_sent:
                end_call(self._span, num_bytes=num_bytes or payload[1], flags=flags, extra=wait_ns)
            else:
                end_call(self._span, outgoing.error or self._connection.error)

        outgoing = Outgoing(OK, self._call_id, payload, on_end)
        under_way.add(self._step_id, outgoing)
        self._connection.bulk.send_large(outgoing)


class _UnderWay:
    """Large answers that are being sent, by step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_step: dict[int, list[Outgoing]] = {}

    def add(self, step_id: int, outgoing: Outgoing) -> None:
        with self._lock:
            self._by_step.setdefault(step_id, []).append(outgoing)

    def remove(self, step_id: int, outgoing: Outgoing) -> None:
        with self._lock:
            mates = self._by_step.get(step_id, [])
            mates.remove(outgoing)
            if not mates:
                del self._by_step[step_id]

    def give_up(self, step_id: int, error: StepError) -> None:
        with self._lock:
            for outgoing in self._by_step.get(step_id, ()):
                outgoing.give_up(error)

    def __len__(self) -> int:
        return len(self._by_step)


class FrameService:
    def __init__(
        self, transport: Transport, worker: ServedWorker, master: ServedMaster | None
    ) -> None:
        self.task = transport.task
        self._recorder = transport.recorder
        self._worker = worker
        self._master = master
        self.under_way = _UnderWay()
        self.handlers: dict[int, Handler] = {
            RUN_GRAPH: self._run_graph,
            RECV_TENSOR: self._recv_tensor,
            MARK_RECV_FINISHED: self._mark_recv_finished,
            COMPLETE_INSTANCE: self._complete_instance,
            CLEANUP: self._cleanup,
            START_ABORT: self._start_abort,
        }
        if master is not None:
            self.handlers |= {RUN_STEP: self._run_step, RUN_CALLABLE: self._run_callable}

    def _open(
        self, connection: Connection, kind: int, context: SpanContext, key: str = ""
    ) -> OpenSpan | None:
        if not context.sampled:
            return None
        sites = connection.sites
        if not sites:
            sites = frame_sites(self._recorder, "rpc.server", connection.peer, "", connection.wire)
            connection.sites = sites
        return self._recorder.open(sites[kind], context, self._recorder.key(key) if key else 0)

    def _recv_tensor(self, connection: Connection, call_id: int, payload: memoryview) -> None:
        step_id, key, request_id, context = decode_recv_tensor(payload)
        span = self._open(connection, RECV_TENSOR, context, key)
        served = _Served(self, connection, call_id, step_id, span, key)
        if span is not None:
            context = span.context
        try:
            self._worker.recv_tensor(step_id, key, request_id, context, served.received)
        except StepError as error:
            served.refuse(error)

    def since(self, span: OpenSpan) -> int:
        """For how long a call has been served, in ns."""
        return self._recorder.now() - span.start

    def _complete_instance(self, connection: Connection, call_id: int, payload: memoryview) -> None:
        arrival, context = decode_arrival(payload)
        span = self._open(connection, COMPLETE_INSTANCE, context)
        served = _Served(self, connection, call_id, 0, span)
        try:
            self._worker.complete_instance(arrival, context, served.all_have_arrived)
        except StepError as error:
            served.refuse(error)

    def _mark_recv_finished(self, _: Connection, __: int, payload: memoryview) -> None:
        self._worker.mark_recv_finished(decode_mark_recv_finished(payload))

    def _run_graph(self, connection: Connection, call_id: int, payload: memoryview) -> None:
        request = decode_run_graph(payload)
        span = self._open(connection, RUN_GRAPH, request.context)
        served = _Served(self, connection, call_id, request.step_id, span)
        if span is not None:
            request = request._replace(context=span.context)
        connection.running.add(request.step_id)
        try:
            self._worker.run_graph(request, served.graph_was_run)
        except StepError as error:
            served.refuse(error)

    def _run_step(self, connection: Connection, call_id: int, payload: memoryview) -> None:
        request = decode_run_step(payload)
        assert self._master is not None
        self._start(connection, call_id, RUN_STEP, request, self._master.start_step)

    def _run_callable(self, connection: Connection, call_id: int, payload: memoryview) -> None:
        request = decode_run_callable(payload)
        assert self._master is not None
        self._start(connection, call_id, RUN_CALLABLE, request, self._master.start_callable)

    def _start(
        self,
        connection: Connection,
        call_id: int,
        kind: int,
        request: R,
        start: Callable[[R, StepDone], None],
    ) -> None:
        span = self._open(connection, kind, request.context)
        served = _Served(self, connection, call_id, 0, span)
        if span is not None:
            request = request._replace(context=span.context)
        try:
            start(request, served.step_was_run)
        except StepError as error:
            served.refuse(error)

    def _cleanup(self, connection: Connection, call_id: int, payload: memoryview) -> None:
        """With a call id it is answered: then everything said before has been heard."""
        step_id, context, _ = decode_step_notice(payload)
        if step_id:
            span = self._open(connection, CLEANUP, context)
            connection.running.discard(step_id)
            self._worker.cleanup_graph(step_id)
            end_call(span)
        if call_id:
            connection.answer(call_id, NOTHING)

    def _start_abort(self, connection: Connection, _: int, payload: memoryview) -> None:
        step_id, context, error = decode_step_notice(payload)
        span = self._open(connection, START_ABORT, context)
        self.abort(step_id, error or StepError("ABORTED", f"step {step_id:x} was aborted"))
        end_call(span)

    def abort(self, step_id: int, error: StepError) -> None:
        """Ends a step here, also the large answers that are half sent."""
        self.under_way.give_up(step_id, error)
        self._worker.start_abort(step_id, error)

    def peer_was_lost(self, connection: Connection) -> None:
        """Nobody will end or clean up the steps that this peer ran here."""
        assert connection.error is not None
        while connection.running:
            step_id = connection.running.pop()
            self.abort(step_id, connection.error)
            self._worker.cleanup_graph(step_id)
        self._worker.peer_was_lost(connection.peer, connection.error)
