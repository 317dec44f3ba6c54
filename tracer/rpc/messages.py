"""Messages of a master and a worker, named after TF's `master.proto` and `worker.proto`.

Control parts are msgspec arrays; tensors follow them as raw bytes. What travels once or more per
step has a fixed layout (`struct`).
"""

import struct
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec

from tracer.model.step import SpanContext
from tracer.rpc.frames import Buffer, Parts
from tracer.rpc.tensor_codec import decode_tensor, decode_tensors, encode_tensor, encode_tensors
from tracer.runtime.interfaces import (
    Call,
    DeviceAttributes,
    Received,
    RunCallableRequest,
    RunGraphRequest,
    RunGraphResult,
    RunStepRequest,
    RunStepResult,
    StepError,
)

_M = TypeVar("_M", bound="Message")


class Message(msgspec.Struct, array_like=True):
    pass


class Empty(Message):
    pass


class GetStatusResponse(Message):
    devices: tuple[DeviceAttributes, ...]
    pid: int
    is_finished: bool = False


class CreateWorkerSessionRequest(Message):
    session_handle: str
    cluster_def: dict[str, dict[str, str]]
    isolate_session_state: bool = False


class DeleteWorkerSessionRequest(Message):
    session_handle: str


class RegisterGraphRequest(Message):
    session_handle: str
    graph_def: list[dict[str, Any]]
    graph_id: str


class RegisterGraphResponse(Message):
    graph_handle: str


class DeregisterGraphRequest(Message):
    session_handle: str
    graph_handle: str


class CleanupAllRequest(Message):
    container: tuple[str, ...]


class CreateSessionRequest(Message):
    graph_def: list[dict[str, Any]]
    device_filters: tuple[str, ...] = ()
    isolate_session_state: bool = False
    client: str = "unnamed"


class CreateSessionResponse(Message):
    session_handle: str


class ExtendSessionRequest(Message):
    session_handle: str
    graph_def: list[dict[str, Any]]
    current_graph_version: int


class ExtendSessionResponse(Message):
    new_graph_version: int


class PartialRunSetupRequest(Message):
    session_handle: str
    feed: tuple[str, ...]
    fetch: tuple[str, ...]
    target: tuple[str, ...]
    request_id: int


class PartialRunSetupResponse(Message):
    partial_run_handle: str


class MakeCallableRequest(Message):
    session_handle: str
    feed: tuple[str, ...]
    fetch: tuple[str, ...]
    target: tuple[str, ...]
    request_id: int


class MakeCallableResponse(Message):
    handle: int


class ReleaseCallableRequest(Message):
    session_handle: str
    handle: int


class ResetRequest(Message):
    container: tuple[str, ...]
    device_filters: tuple[str, ...]


class CloseSessionRequest(Message):
    session_handle: str


class ListDevicesRequest(Message):
    session_handle: str


class ListDevicesResponse(Message):
    devices: tuple[DeviceAttributes, ...]


class Hello(Message):
    """First message each way on a stream, the server's before the client's: who speaks, what for.

    `address` is where the task serves, empty for a client. `both` is the lane of a client, which
    has one stream; the two of a pair have the same `connection`. `secret` is the cluster's, where
    no metadata carries it.
    """

    task: str
    address: str
    lane: Literal["control", "bulk", "both"]
    connection: int
    secret: str = ""


class _Failure(Message):
    code: str
    message: str
    task: str
    node: str
    derived: bool


class _RunGraphHead(Message):
    session: str
    graph_handle: str
    step_id: int
    context: tuple[int, int, int, int, bool]
    feed_keys: tuple[str, ...]
    fetch_keys: tuple[str, ...]
    call: Call


class _RunStepHead(Message):
    session: str
    context: tuple[int, int, int, int, bool]
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    partial_run: str
    request_id: int


class _RunCallableHead(Message):
    session: str
    handle: int
    context: tuple[int, int, int, int, bool]
    num_feeds: int
    request_id: int


class _FetchedHead(Message):
    step_id: int
    names: tuple[str, ...]
    was_made: bool


_encode = msgspec.msgpack.Encoder().encode
_decoders: dict[type[Message], msgspec.msgpack.Decoder[Any]] = {}


def encode(message: Message) -> bytes:
    return _encode(message)


def decode(kind: type[_M], data: Buffer) -> _M:
    """Raises msgspec.DecodeError (a ValueError) for bytes that are not this message."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    message: _M = decoder.decode(data)
    return message


def encode_error(error: StepError) -> bytes:
    return _encode(_Failure(error.code, error.message, error.task, error.node, error.derived))


def decode_error(data: Buffer) -> StepError:
    failure = decode(_Failure, data)
    return StepError(
        failure.code,
        failure.message,
        task=failure.task,
        node=failure.node,
        derived=failure.derived,
    )


_LENGTH = struct.Struct("<Q")


def _with_tensors(head: Message, tensors: Mapping[str, Any]) -> Parts:
    """Length of the head, the head padded to 8, the tensors."""
    control = _encode(head)
    padded = control + bytes(-len(control) & 7)
    buffers, num_bytes = encode_tensors(tensors)
    return [_LENGTH.pack(len(control)), padded, *buffers], 8 + len(padded) + num_bytes


def _head(kind: type[_M], payload: memoryview) -> tuple[_M, int]:
    """The head and where the tensors begin."""
    (length,) = _LENGTH.unpack_from(payload)
    return decode(kind, payload[8 : 8 + length]), 8 + length + (-length & 7)


def encode_run_graph(request: RunGraphRequest, context: SpanContext) -> Parts:
    head = _RunGraphHead(
        request.session,
        request.graph_handle,
        request.step_id,
        context,
        tuple(request.feeds),
        request.fetch_keys,
        request.call,
    )
    return _with_tensors(head, request.feeds)


def decode_run_graph(payload: memoryview) -> RunGraphRequest:
    head, at = _head(_RunGraphHead, payload)
    tensors = decode_tensors(payload, at, len(head.feed_keys))
    return RunGraphRequest(
        head.session,
        head.graph_handle,
        head.step_id,
        SpanContext(*head.context),
        dict(zip(head.feed_keys, tensors, strict=True)),
        head.fetch_keys,
        head.call,
    )


def encode_run_step(request: RunStepRequest, context: SpanContext) -> Parts:
    head = _RunStepHead(
        request.session,
        context,
        tuple(request.feeds),
        request.fetches,
        request.targets,
        request.partial_run,
        request.request_id,
    )
    return _with_tensors(head, request.feeds)


def decode_run_step(payload: memoryview) -> RunStepRequest:
    head, at = _head(_RunStepHead, payload)
    tensors = decode_tensors(payload, at, len(head.feeds))
    return RunStepRequest(
        head.session,
        dict(zip(head.feeds, tensors, strict=True)),
        head.fetches,
        head.targets,
        SpanContext(*head.context),
        head.partial_run,
        head.request_id,
    )


def encode_run_callable(request: RunCallableRequest, context: SpanContext) -> Parts:
    feeds = {f"feed {index}": tensor for index, tensor in enumerate(request.feeds)}
    head = _RunCallableHead(
        request.session, request.handle, context, len(feeds), request.request_id
    )
    return _with_tensors(head, feeds)


def decode_run_callable(payload: memoryview) -> RunCallableRequest:
    head, at = _head(_RunCallableHead, payload)
    tensors = decode_tensors(payload, at, head.num_feeds)
    return RunCallableRequest(
        head.session, head.handle, tuple(tensors), SpanContext(*head.context), head.request_id
    )


def encode_fetched(fetched: Mapping[str, Any], step_id: int = 0, *, was_made: bool = True) -> Parts:
    """What RunStep and RunGraph answer."""
    return _with_tensors(_FetchedHead(step_id, tuple(fetched), was_made), fetched)


def _decode_fetched(payload: memoryview) -> tuple[dict[str, Any], int, bool]:
    head, at = _head(_FetchedHead, payload)
    tensors = decode_tensors(payload, at, len(head.names))
    return dict(zip(head.names, tensors, strict=True)), head.step_id, head.was_made


def decode_run_graph_result(payload: memoryview) -> RunGraphResult:
    return RunGraphResult(_decode_fetched(payload)[0])


def decode_run_step_result(payload: memoryview) -> RunStepResult:
    return RunStepResult(*_decode_fetched(payload))


_PULL = struct.Struct("<5QIB3x")  # step id, request id, context
_CONTEXT = struct.Struct("<4QIB3x")  # step id, context
_REQUEST_ID = struct.Struct("<Q")
_PULLED = struct.Struct("<QQ")  # send span, wait in ns << 2 | deferred << 1 | dead


def encode_recv_tensor(step_id: int, key: str, request_id: int, context: SpanContext) -> Parts:
    head = _PULL.pack(step_id, request_id, *context)
    name = key.encode()
    return [head, name], len(head) + len(name)


def decode_recv_tensor(payload: memoryview) -> tuple[int, str, int, SpanContext]:
    """(step id, key, request id, context)."""
    step_id, request_id, hi, lo, span, step, sampled = _PULL.unpack_from(payload)
    key = str(payload[_PULL.size :], "utf-8")
    return step_id, key, request_id, SpanContext(hi, lo, span, step, bool(sampled))


def encode_received(received: Received, key: str = "") -> Parts:
    """A RecvTensor answer that is no error. Raises StepError if the tensor cannot be sent."""
    waited = received.wait_ns << 2 | received.deferred << 1 | received.is_dead
    head = _PULLED.pack(received.send_span, waited)
    if received.tensor is None:
        return [head], len(head)
    buffers, num_bytes = encode_tensor(received.tensor, key)
    return [head, *buffers], len(head) + num_bytes


def decode_received(payload: memoryview) -> Received:
    send_span, waited = _PULLED.unpack_from(payload)
    tensor = decode_tensor(payload, _PULLED.size)[0] if len(payload) > _PULLED.size else None
    return Received(tensor, bool(waited & 1), send_span, None, waited >> 2, bool(waited & 2))


def encode_mark_recv_finished(request_id: int) -> Parts:
    return [_REQUEST_ID.pack(request_id)], _REQUEST_ID.size


def decode_mark_recv_finished(payload: memoryview) -> int:
    request_id: int = _REQUEST_ID.unpack_from(payload)[0]
    return request_id


def encode_step_notice(step_id: int, context: SpanContext, error: StepError | None) -> Parts:
    """CleanupGraph (without an error) and StartAbort."""
    head = _CONTEXT.pack(step_id, *context)
    text = encode_error(error) if error else b""
    return [head, text], len(head) + len(text)


def decode_step_notice(payload: memoryview) -> tuple[int, SpanContext, StepError | None]:
    step_id, hi, lo, span, step, sampled = _CONTEXT.unpack_from(payload)
    text = payload[_CONTEXT.size :]
    error = decode_error(text) if text else None
    return step_id, SpanContext(hi, lo, span, step, bool(sampled)), error
