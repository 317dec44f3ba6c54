"""OTLP/gRPC: one unary call a batch; messages go as the bytes they are."""

from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from tracer.record.export_target import ExportTarget, Tls
from tracer.record.otlp_answer import Answer, Verdict, taken

METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
STATUS_DETAILS: Final = "grpc-status-details-bin"
RETRIED: Final = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)
_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)


class GrpcSender:
    def __init__(self, target: ExportTarget) -> None:
        self._target = target
        self._channel = _channel(target)
        self._export: Any = self._channel.unary_unary(METHOD)

    def send(self, request: bytes) -> Answer:
        is_compressed = self._target.is_compressed
        try:
            response = self._export(
                request,
                timeout=self._target.timeout_s,
                metadata=tuple(self._target.headers.items()),
                compression=grpc.Compression.Gzip if is_compressed else None,
            )
        except grpc.RpcError as error:
            return _answer(error)
        return taken(response)

    def close(self) -> None:
        self._channel.close()


def _answer(error: grpc.RpcError) -> Answer:
    """A receiver that is full (RESOURCE_EXHAUSTED) is asked again only if it says when."""
    wait_s = _asked_wait(error)
    is_full = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    is_retried = error.code() in RETRIED or (is_full and wait_s is not None)
    verdict = Verdict.LATER if is_retried else Verdict.REFUSED
    return Answer(verdict, f"{error.code().name} {error.details()}", wait_s=wait_s or 0.0)


def _asked_wait(error: grpc.RpcError) -> float | None:
    trailer: Any = error.trailing_metadata() or ()
    details = next((value for name, value in trailer if name == STATUS_DETAILS), b"")
    try:
        for detail in Status.FromString(details).details:
            info = RetryInfo()
            if detail.Unpack(info):
                return float(info.retry_delay.seconds + info.retry_delay.nanos / 1e9)
    except DecodeError:
        pass
    return None


def _channel(target: ExportTarget) -> grpc.Channel:
    host = f"[{target.host}]" if ":" in target.host else target.host
    address = f"{host}:{target.port}"
    if not target.is_secure:
        return grpc.insecure_channel(address, options=_OPTIONS)
    return grpc.secure_channel(address, _credentials(target.tls), options=_OPTIONS)


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    authorities, key, certificate = (
        Path(path).read_bytes() if path else None
        for path in (tls.authorities, tls.key, tls.certificate)
    )
    return grpc.ssl_channel_credentials(authorities, key, certificate)
