"""A master in another process, as a client sees it.

Steps go over a stream of the client's own; the rare calls are ordinary unary ones, so that a
session can be closed while one of its steps runs.
"""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from tracer.model.graph import Graph, Node
from tracer.model.graph_json import graph_to_json, nodes_to_json
from tracer.model.step import SpanContext
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.rpc.channels import (
    CALL_S,
    NOT_SAMPLED,
    channel_options,
    lost,
    secret_metadata,
    step_error,
    trace_metadata,
)
from tracer.rpc.client_stream import ClientStream
from tracer.rpc.frames import (
    OK,
    RUN_CALLABLE,
    RUN_STEP,
    Parts,
)
from tracer.rpc.local_client import LocalClientStream
from tracer.rpc.local_socket import check_local, socket_path
from tracer.rpc.messages import (
    CloseSessionRequest,
    CreateSessionRequest,
    CreateSessionResponse,
    ExtendSessionRequest,
    ExtendSessionResponse,
    ListDevicesRequest,
    ListDevicesResponse,
    MakeCallableRequest,
    MakeCallableResponse,
    Message,
    PartialRunSetupRequest,
    PartialRunSetupResponse,
    ReleaseCallableRequest,
    ResetRequest,
    decode,
    decode_error,
    decode_run_step_result,
    encode,
    encode_run_callable,
    encode_run_step,
)
from tracer.rpc.pulse import Pulse
from tracer.rpc.spans import GRPC, LOCAL, MASTER_SERVICE, METHODS, RpcSpan, call_site
from tracer.runtime.interfaces import (
    SHARED,
    DeviceAttributes,
    MasterInterface,
    RequestNames,
    RunCallableRequest,
    RunStepRequest,
    RunStepResult,
    SessionOptions,
    StepError,
)
from tracer.runtime.request_ids import new_request_id

CONNECT_S = 60.0  #: a master's own limit for all tasks of a new session to answer
MORE_S = 10.0  #: by which a client waits longer: the master knows more, so it speaks first
STEP_S = 70.0  #: the master's own limit of a step (60 s) speaks first, because it knows more


class RemoteMaster(MasterInterface):
    """`client` is what the caller is called in errors and traces; `context` is the run's root.

    With `sockets`, steps go by the master's unix socket in that folder.
    """

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
        connect_s: float = CONNECT_S,
        sockets: Path | None = None,
    ) -> None:
        self.address = address
        self._peer = "the master"  # until it says its name
        self._client = client
        self._id = f"{client} {new_request_id():x}"
        self._secret = secret
        self._sockets = sockets
        self._wire = LOCAL if sockets else GRPC
        self._metadata = secret_metadata(secret)
        self._recorder = recorder
        self._context = context
        self._step_timeout_s = step_timeout_s
        self._create_s = connect_s + MORE_S
        self._options = channel_options(allow_proxy=allow_proxy)
        self._channel = grpc.insecure_channel(address, self._options)
        self._sites: dict[tuple[str, str], int] = {}  # by method and peer
        self._lock = threading.Lock()
        self._stream: ClientStream | LocalClientStream | None = None

    def create_session(
        self, graph: Graph, context: SpanContext, options: SessionOptions = SHARED
    ) -> str:
        request = CreateSessionRequest(
            graph_to_json(graph), options.device_filters, options.isolate_session_state, self._id
        )
        answer = self._unary("CreateSession", request, context, self._create_s)
        return decode(CreateSessionResponse, answer).session_handle

    def extend_session(self, session: str, nodes: tuple[Node, ...], version: int) -> int:
        request = ExtendSessionRequest(session, nodes_to_json(nodes), version)
        answer = self._unary("ExtendSession", request, self._context)
        return decode(ExtendSessionResponse, answer).new_graph_version

    def partial_run_setup(self, session: str, names: RequestNames, request_id: int = 0) -> str:
        request = PartialRunSetupRequest(session, *names, request_id or new_request_id())
        answer = self._unary("PartialRunSetup", request, self._context)
        return decode(PartialRunSetupResponse, answer).partial_run_handle

    def make_callable(self, session: str, names: RequestNames, request_id: int = 0) -> int:
        request = MakeCallableRequest(session, *names, request_id or new_request_id())
        answer = self._unary("MakeCallable", request, self._context)
        return decode(MakeCallableResponse, answer).handle

    def release_callable(self, session: str, handle: int) -> None:
        self._unary("ReleaseCallable", ReleaseCallableRequest(session, handle), self._context)

    def reset(self, containers: tuple[str, ...] = (), device_filters: tuple[str, ...] = ()) -> None:
        self._unary("Reset", ResetRequest(containers, device_filters), self._context)

    def close_session(self, session: str) -> None:
        self._unary("CloseSession", CloseSessionRequest(session), self._context)

    def list_devices(self, session: str) -> tuple[DeviceAttributes, ...]:
        answer = self._unary("ListDevices", ListDevicesRequest(session), self._context)
        return decode(ListDevicesResponse, answer).devices

    def _unary(
        self, name: str, request: Message, context: SpanContext, timeout_s: float = CALL_S
    ) -> bytes:
        if self._stream is None:  # else a step may hold the lock, and this call may be to end it
            with self._lock:
                self._dialed()
        method = f"{MASTER_SERVICE}/{name}"
        with self._span(method, context) as call:
            stub: Any = self._channel.unary_unary(f"/{method}")
            metadata = self._metadata + trace_metadata(call.context)
            try:
                call.answer = bytes(stub(encode(request), timeout=timeout_s, metadata=metadata))
            except grpc.RpcError as error:
                raise step_error(error, self._peer, self.address) from None
        return bytes(call.answer)

    def run_step(self, request: RunStepRequest) -> RunStepResult:
        """One step at a time; a second thread waits its turn. Raises StepError."""
        if not request.request_id:
            request = request._replace(request_id=new_request_id())
        return self._step(RUN_STEP, request.context, partial(encode_run_step, request))

    def run_callable(self, request: RunCallableRequest) -> RunStepResult:
        if not request.request_id:
            request = request._replace(request_id=new_request_id())
        return self._step(RUN_CALLABLE, request.context, partial(encode_run_callable, request))

    def _step(
        self, kind: int, context: SpanContext, encode: Callable[[SpanContext], Parts]
    ) -> RunStepResult:
        with self._lock:
            stream = self._dialed()
            if not context.sampled:
                payload = self._exchange(stream, kind, encode(context))
            else:
                with self._span(METHODS[kind], context) as call:
                    parts = encode(call.context)
                    payload = call.answer = self._exchange(stream, kind, parts)
        return decode_run_step_result(payload)

    def _span(self, method: str, context: SpanContext) -> RpcSpan:
        known = method, self._peer
        site = self._sites.get(known)
        if site is None:
            wire = self._wire if method in (METHODS[RUN_STEP], METHODS[RUN_CALLABLE]) else GRPC
            site = call_site(self._recorder, "rpc.client", *known, self.address, wire)
            self._sites[known] = site
        return RpcSpan(self._recorder.open(site, context))

    def _dialed(self) -> ClientStream | LocalClientStream:
        """The stream, opened on first use and after a failure."""
        if self._stream is None:
            try:
                self._stream = self._dial()
            except grpc.RpcError as error:
                raise step_error(error, self._peer, self.address) from None
            except TimeoutError:
                raise self._late("this client's stream", CALL_S) from None
            self._peer = self._stream.peer
        return self._stream

    def _dial(self) -> ClientStream | LocalClientStream:
        if self._sockets is None:
            return ClientStream(self.address, self._options, self._metadata, self._client)
        check_local(self.address)
        path = socket_path(self._sockets, self.address)
        listen = partial(Pulse, self._channel)
        return LocalClientStream(path, self.address, self._client, self._secret, listen)

    def _late(self, what: str, limit_s: float) -> StepError:
        text = f"no answer to {what} in {limit_s:.0f} s"
        return lost(self._peer, self.address, "DEADLINE_EXCEEDED", text)

    def _exchange(
        self, stream: ClientStream | LocalClientStream, kind: int, parts: Parts
    ) -> memoryview:
        try:
            answer, payload = stream.exchange(kind, parts, self._step_timeout_s)
        except grpc.RpcError as error:
            self._hang_up()
            raise step_error(error, self._peer, self.address) from None
        except TimeoutError:
            self._hang_up()
            method = METHODS[kind].rpartition("/")[2]
            raise self._late(method, self._step_timeout_s) from None
        except BaseException:  # also Ctrl-C: the answer may still come, to nobody
            self._hang_up()
            raise
        if answer != OK:
            raise decode_error(payload)
        return payload

    def _hang_up(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def close(self) -> None:
        self._hang_up()
        self._channel.close()
