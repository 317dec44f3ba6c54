"""A master in another process, as a client sees it.

The client has a stream of its own, and the thread that asks for a step is the one that waits on it.
gRPC's blocking interface does this as fast as a loop driven by the caller (measured), and several
clients may share a process, which loops may not.
"""

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import grpc

from tracer.model.graph import Graph
from tracer.model.graph_json import graph_to_json
from tracer.model.step import SpanContext
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.rpc.channels import (
    CALL_S,
    NOT_SAMPLED,
    STREAM,
    STREAM_SERVICE,
    channel_options,
    lost,
    secret_metadata,
    step_error,
    trace_metadata,
)
from tracer.rpc.frames import (
    LARGE_BYTES,
    OK,
    RUN_STEP,
    FrameReader,
    Parts,
    chunk_frames,
    small_frame,
)
from tracer.rpc.messages import (
    CloseSessionRequest,
    CreateSessionRequest,
    CreateSessionResponse,
    Hello,
    ListDevicesRequest,
    ListDevicesResponse,
    Message,
    decode,
    decode_error,
    decode_run_step_result,
    encode,
    encode_run_step,
)
from tracer.rpc.spans import MASTER_SERVICE, METHODS, RpcSpan, call_site
from tracer.rpc.transport import hello_message, read_hello
from tracer.rpc.watch import Watch
from tracer.runtime.interfaces import (
    DeviceAttributes,
    MasterInterface,
    RunStepRequest,
    RunStepResult,
    StepError,
)

STEP_S = 70.0  #: the master's own limit of a step (60 s) speaks first, because it knows more


class RemoteMaster(MasterInterface):
    """`client` is what the caller is called in errors and traces; `context` is the run's root."""

    def __init__(
        self,
        address: str,
        *,
        client: str = "client",
        secret: str = "",
        recorder: Recorder = NO_RECORDER,
        context: SpanContext = NOT_SAMPLED,
        allow_proxy: bool = False,
        step_timeout_s: float = STEP_S,
    ) -> None:
        self.address = address
        self._peer = "the master"  # until it says its name
        self._client = client
        self._metadata = secret_metadata(secret)
        self._recorder = recorder
        self._context = context
        self._step_timeout_s = step_timeout_s
        self._channel = grpc.insecure_channel(address, channel_options(allow_proxy=allow_proxy))
        self._lock = threading.Lock()
        self._stream: _ClientStream | None = None

    def create_session(self, graph: Graph, context: SpanContext) -> str:
        request = CreateSessionRequest(graph_to_json(graph))
        return decode(
            CreateSessionResponse, self._unary("CreateSession", request, context)
        ).session_handle

    def close_session(self, session: str) -> None:
        self._unary("CloseSession", CloseSessionRequest(session), self._context)

    def list_devices(self, session: str) -> tuple[DeviceAttributes, ...]:
        answer = self._unary("ListDevices", ListDevicesRequest(session), self._context)
        return decode(ListDevicesResponse, answer).devices

    def _unary(self, name: str, request: Message, context: SpanContext) -> bytes:
        if self._stream is None:  # else a step may hold the lock, and this call may be to end it
            with self._lock:
                self._dialed()
        method = f"{MASTER_SERVICE}/{name}"
        with self._span(method, context) as call:
            stub: Any = self._channel.unary_unary(f"/{method}")
            metadata = self._metadata + trace_metadata(call.context)
            try:
                call.answer = bytes(stub(encode(request), timeout=CALL_S, metadata=metadata))
            except grpc.RpcError as error:
                raise step_error(error, self._peer, self.address) from None
        return bytes(call.answer)

    def run_step(self, request: RunStepRequest) -> RunStepResult:
        """One step at a time; a second thread waits its turn. Raises StepError."""
        with self._lock:
            stream = self._dialed()
            if not request.context.sampled:
                payload = self._exchange(stream, encode_run_step(request, request.context))
            else:
                with self._span(METHODS[RUN_STEP], request.context) as call:
                    parts = encode_run_step(request, call.context)
                    payload = call.answer = self._exchange(stream, parts)
        return decode_run_step_result(payload)

    def _span(self, method: str, context: SpanContext) -> RpcSpan:
        site = call_site(self._recorder, "rpc.client", method, self._peer, self.address)
        return RpcSpan(self._recorder.open(site, context))

    def _dialed(self) -> "_ClientStream":
        """The stream, opened on first use and after a failure."""
        if self._stream is None:
            try:
                self._stream = _ClientStream(self._channel, self._metadata, self._client)
            except grpc.RpcError as error:
                raise step_error(error, self._peer, self.address) from None
            self._peer = self._stream.peer
        return self._stream

    def _exchange(self, stream: "_ClientStream", parts: Parts) -> memoryview:
        try:
            kind, payload = stream.exchange(parts, self._step_timeout_s)
        except grpc.RpcError as error:
            self._hang_up()
            if stream.timed_out:
                text = f"no answer to RunStep in {self._step_timeout_s:.0f} s"
                raise lost(self._peer, self.address, "DEADLINE_EXCEEDED", text) from None
            raise step_error(error, self._peer, self.address) from None
        except BaseException:  # also Ctrl-C: the answer may still come, to nobody
            self._hang_up()
            raise
        if kind != OK:
            raise decode_error(payload)
        return payload

    def _hang_up(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def close(self) -> None:
        self._hang_up()
        self._channel.close()


class _ClientStream:
    def __init__(self, channel: grpc.Channel, metadata: Any, client: str) -> None:
        self._outbox: SimpleQueue[Iterator[bytes] | None] = SimpleQueue()
        method: Any = channel.stream_stream(f"/{STREAM_SERVICE}/{STREAM}")
        self._call: Any = method(self._messages(), metadata=metadata)
        self._reader = FrameReader()
        self._number = 0
        self._watch = Watch(self._call.cancel)
        self._outbox.put(iter((hello_message(Hello(client, "", "both", 0)),)))
        try:
            with self._watch.limit(CALL_S):
                self.peer = read_hello(self._next()).task
        except BaseException:
            self.close()
            raise

    @property
    def timed_out(self) -> bool:
        return self._watch.fired

    def _messages(self) -> Iterator[bytes]:
        """What gRPC's sender thread takes, each when the one before has left."""
        while (messages := self._outbox.get()) is not None:
            yield from messages

    def exchange(self, parts: Parts, timeout_s: float) -> tuple[int, memoryview]:
        """(Ok or Err, payload) of one call."""
        self._number += 1
        self._outbox.put(_messages_of(self._number, parts))
        with self._watch.limit(timeout_s):
            while True:
                for kind, call_id, payload in self._reader.frames(self._next()):
                    if call_id == self._number:
                        return kind, payload

    def _next(self) -> bytes:
        message: bytes | None = next(self._call, None)
        if message is None:
            raise StepError("UNAVAILABLE", "the task ended its stream with this client")
        return message

    def close(self) -> None:
        self._outbox.put(None)
        self._call.cancel()
        self._watch.stop()


def _messages_of(call_id: int, parts: Parts) -> Iterator[bytes]:
    if parts[1] <= LARGE_BYTES:
        return iter((b"".join(small_frame(RUN_STEP, call_id, parts)[0]),))
    return (b"".join(chunk[0]) for chunk in chunk_frames(RUN_STEP, call_id, parts))
