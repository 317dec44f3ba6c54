"""A worker in another process, as masters and other workers see it."""

import threading
from collections.abc import Mapping

from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.collective import Arrival, Execution
from tracer.model.graph import Graph
from tracer.model.graph_json import graph_to_json
from tracer.model.step import SpanContext
from tracer.model.trace_folder import Flag
from tracer.rpc.channels import CALL_S, CONNECT_S, NOT_SAMPLED, SHUTDOWN_S
from tracer.rpc.collective_messages import decode_execution, encode_arrival
from tracer.rpc.frames import (
    CLEANUP,
    COMPLETE_INSTANCE,
    MARK_RECV_FINISHED,
    RECV_TENSOR,
    RUN_GRAPH,
    START_ABORT,
)
from tracer.rpc.messages import (
    CleanupAllRequest,
    CreateWorkerSessionRequest,
    DeleteWorkerSessionRequest,
    DeregisterGraphRequest,
    Empty,
    GetStatusResponse,
    Message,
    RegisterGraphRequest,
    RegisterGraphResponse,
    decode,
    decode_received,
    decode_run_graph_result,
    encode,
    encode_mark_recv_finished,
    encode_recv_tensor,
    encode_run_graph,
    encode_step_notice,
)
from tracer.rpc.retry import RetriedCall
from tracer.rpc.spans import (
    GRPC,
    LOCAL,
    WORKER_SERVICE,
    RpcSpan,
    call_site,
    end_call,
    frame_sites,
)
from tracer.rpc.tensor_codec import UNREADABLE
from tracer.rpc.transport import Transport
from tracer.runtime.interfaces import (
    ExecutionDone,
    Received,
    RecvDone,
    RunDone,
    RunGraphRequest,
    RunGraphResult,
    StepError,
    WorkerInterface,
    WorkerStatus,
)


class RemoteWorker(WorkerInterface):
    def __init__(self, transport: Transport, task: TaskName, address: str) -> None:
        self.task = task
        self.address = address
        self._transport = transport
        self._peer = str(task)
        self._recorder = transport.recorder
        self._sites: Mapping[int, int] = frame_sites(
            self._recorder, "rpc.client", self._peer, address, LOCAL if transport.local else GRPC
        )
        self._contexts: dict[int, SpanContext] = {}  # recorded steps that are not cleaned up
        self._running: set[int] = set()  # steps of ours there, where calls are made again

    # rare calls: unary, they wait

    def get_status(self, context: SpanContext | None = None, /) -> WorkerStatus:
        payload = self._unary("GetStatus", Empty(), context, timeout_s=CONNECT_S)
        answer = decode(GetStatusResponse, payload)
        return WorkerStatus(answer.devices, answer.pid, answer.is_finished)

    def create_worker_session(
        self,
        session: str,
        cluster: ClusterSpec,
        isolated: bool = False,
        context: SpanContext | None = None,
    ) -> None:
        request = CreateWorkerSessionRequest(session, cluster.to_json(), isolated)
        self._unary("CreateWorkerSession", request, context)

    def delete_worker_session(self, session: str) -> None:
        self._hear_out()
        request = DeleteWorkerSessionRequest(session)
        self._unary("DeleteWorkerSession", request, is_farewell=True)

    def register_graph(
        self, session: str, graph: Graph, context: SpanContext, graph_id: str = ""
    ) -> str:
        request = RegisterGraphRequest(session, graph_to_json(graph), graph_id)
        answer = self._unary("RegisterGraph", request, context)
        return decode(RegisterGraphResponse, answer).graph_handle

    def deregister_graph(self, session: str, graph_handle: str) -> None:
        request = DeregisterGraphRequest(session, graph_handle)
        self._unary("DeregisterGraph", request, is_farewell=True)

    def cleanup_all(self, containers: tuple[str, ...] = ()) -> None:
        self._unary("CleanupAll", CleanupAllRequest(containers))

    def _unary(
        self,
        name: str,
        request: Message,
        context: SpanContext | None = None,
        timeout_s: float = CALL_S,
        *,
        is_farewell: bool = False,
    ) -> bytes:
        method = f"{WORKER_SERVICE}/{name}"
        site = call_site(self._recorder, "rpc.client", method, self._peer, self.address)
        with RpcSpan(self._recorder.open(site, context or self._transport.context)) as call:
            call.answer = self._transport.unary(
                self._peer,
                self.address,
                method,
                encode(request),
                call.context,
                timeout_s,
                is_farewell=is_farewell,
            )
        return bytes(call.answer)

    def _hear_out(self) -> None:
        """Waits until the worker has heard what was said on the stream; a lost one never will."""
        connection = self._transport.open_connection(self.address)
        if connection is None:
            return
        heard = threading.Event()
        payload = encode_step_notice(0, NOT_SAMPLED, None)
        connection.call(CLEANUP, payload, lambda _, __: heard.set())
        heard.wait(SHUTDOWN_S)

    # calls of a step: frames, nothing waits

    def run_graph(self, request: RunGraphRequest, done: RunDone) -> None:
        if self._transport.peers_cache_responses:
            self._running.add(request.step_id)
        context, span = request.context, None
        if context.sampled:
            span = self._recorder.open(self._sites[RUN_GRAPH], context)
            self._contexts[request.step_id] = context
            context = span.context

        def on_answer(payload: memoryview, error: StepError | None) -> None:
            if error is None:
                try:
                    result = decode_run_graph_result(payload)
                except UNREADABLE as fault:
                    error = self._unreadable("RunGraph", fault)
            if error is not None:
                result = RunGraphResult(error=error)
            end_call(span, error, num_bytes=len(payload))
            done(result)

        try:
            payload = encode_run_graph(request, context)
        except StepError as error:
            on_answer(memoryview(b""), error)
            return
        self._transport.connection(self._peer, self.address).call(RUN_GRAPH, payload, on_answer)

    def recv_tensor(
        self, step_id: int, key: str, request_id: int, context: SpanContext, done: RecvDone
    ) -> None:
        span = None
        if context.sampled:
            span = self._recorder.open(self._sites[RECV_TENSOR], context, self._recorder.key(key))
            context = span.context

        def on_answer(payload: memoryview, error: StepError | None) -> None:
            if error is None:
                try:
                    received = decode_received(payload)
                except UNREADABLE as fault:
                    error = self._unreadable("RecvTensor", fault)
            if error is not None:
                received = Received(error=error)
            num_bytes = 0 if received.tensor is None else received.tensor.nbytes
            self._transport.received_bytes += num_bytes
            flags = received.is_dead * Flag.DEAD
            end_call(span, error, num_bytes=num_bytes, flags=flags, extra=request_id)
            if is_retried:
                self._mark_recv_finished(request_id)
            done(received)

        payload = encode_recv_tensor(step_id, key, request_id, context)
        transport, peer, address = self._transport, self._peer, self.address
        is_retried = self._may_ask_again(step_id, request_id)
        if is_retried:
            RetriedCall(transport, peer, address, RECV_TENSOR, payload, on_answer).ask()
        else:
            transport.connection(peer, address).call(RECV_TENSOR, payload, on_answer)

    def _may_ask_again(self, step_id: int, request_id: int) -> bool:
        """A step that we run there ends with the connection, and its answers with it."""
        is_kept = self._transport.peers_cache_responses and request_id != 0
        return is_kept and step_id not in self._running

    def _mark_recv_finished(self, request_id: int) -> None:
        """Rides with the next message; if it is lost, the step's cleanup does what it would."""
        connection = self._transport.open_connection(self.address)
        if connection is not None:
            payload = encode_mark_recv_finished(request_id)
            connection.tell(MARK_RECV_FINISHED, payload, now=False)

    def complete_instance(
        self, arrival: Arrival, context: SpanContext, done: ExecutionDone
    ) -> None:
        span = None
        if context.sampled:
            span = self._recorder.open(self._sites[COMPLETE_INSTANCE], context)
            context = span.context

        def on_answer(payload: memoryview, error: StepError | None) -> None:
            outcome: Execution | StepError
            try:
                outcome = error or decode_execution(payload)
            except UNREADABLE as fault:
                outcome = self._unreadable("CompleteInstance", fault)
            failure = outcome if isinstance(outcome, StepError) else None
            end_call(span, failure, num_bytes=len(payload))
            done(outcome)

        payload = encode_arrival(arrival, context)
        connection = self._transport.connection(self._peer, self.address)
        connection.call(COMPLETE_INSTANCE, payload, on_answer)

    def start_abort(self, step_id: int, error: StepError) -> None:
        self._tell(START_ABORT, step_id, self._contexts.get(step_id), error)

    def cleanup_graph(self, step_id: int) -> None:
        self._running.discard(step_id)
        self._tell(CLEANUP, step_id, self._contexts.pop(step_id, None), None)

    def _tell(
        self, kind: int, step_id: int, context: SpanContext | None, error: StepError | None
    ) -> None:
        """A lost worker needs no telling: it ends our steps when it sees that we are gone."""
        connection = self._transport.open_connection(self.address)
        if connection is None:
            return
        context = context or NOT_SAMPLED
        if context.sampled:
            now = self._recorder.now()
            span = self._recorder.writer().record(self._sites[kind], context, now, now)
            context = context.under(span)
        payload = encode_step_notice(step_id, context, error)
        connection.tell(kind, payload, now=kind == START_ABORT)

    def _unreadable(self, method: str, fault: Exception) -> StepError:
        text = f"the answer of {self._peer} at {self.address} to {method} cannot be read: {fault}"
        return StepError("INTERNAL", text, task=self._peer)
