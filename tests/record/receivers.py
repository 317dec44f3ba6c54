"""Real OTLP receivers on loopback: an HTTP server and a gRPC server that decode with protobuf."""

import gzip
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

TLS = Path(__file__).parent.parent / "golden" / "tls"  #: made for loopback and for tests alone
CERTIFICATE, KEY = TLS / "certificate.pem", TLS / "key.pem"
STATUS_DETAILS = "grpc-status-details-bin"


@dataclass
class Receiver:
    """What arrived, and what is answered: `script` first, then that all is well."""

    script: list[Any] = field(default_factory=list)
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    taken: list[ResourceSpans] = field(default_factory=list)
    url: str = ""
    answers: threading.Event = field(default_factory=threading.Event)  #: cleared: it lets wait
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.answers.set()

    def take(self, request: ExportTraceServiceRequest, headers: dict[str, str]) -> Any:
        """The scripted answer; None takes the spans."""
        assert self.answers.wait(20)
        with self._lock:
            self.requests.append(request)
            self.headers.append(headers)
            answer = self.script.pop(0) if self.script else None
            if answer is None or isinstance(answer, ExportTracePartialSuccess):
                self.taken += request.resource_spans
            return answer

    @property
    def spans(self) -> list[Span]:
        return [s for one in self.taken for scope in one.scope_spans for s in scope.spans]


def partly(rejected: int, message: str) -> ExportTracePartialSuccess:
    return ExportTracePartialSuccess(rejected_spans=rejected, error_message=message)


def response(answer: Any) -> ExportTraceServiceResponse:
    return ExportTraceServiceResponse(partial_success=answer)


@contextmanager
def http_receiver(
    *script: tuple[int, dict[str, str], bytes]
    | tuple[int, dict[str, str]]
    | ExportTracePartialSuccess,
    is_secure: bool = False,
) -> Iterator[Receiver]:
    """A scripted answer is (status, headers) and perhaps a body, or a partial success."""
    receiver = Receiver(list(script))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers["content-encoding"] == "gzip":
                body = gzip.decompress(body)
            told = {name.lower(): value for name, value in self.headers.items()}
            told["path"] = self.path
            answer = receiver.take(ExportTraceServiceRequest.FromString(body), told)
            if isinstance(answer, tuple):
                status, headers, *bodies = answer
                not_now: bytes = Status(message="not now").SerializeToString()
                self._answer(status, headers, bodies[0] if bodies else not_now)
            else:
                self._answer(200, {}, response(answer).SerializeToString())

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        receiver.url = f"http{'s' if is_secure else ''}://127.0.0.1:{server.server_port}"
        if is_secure:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(CERTIFICATE, KEY)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def grpc_receiver(
    *script: grpc.StatusCode | tuple[grpc.StatusCode, float], is_secure: bool = False
) -> Iterator[Receiver]:
    """A scripted answer is a status, or (status, the seconds after which to try again)."""
    receiver = Receiver(list(script))

    class Service(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request: ExportTraceServiceRequest, context: Any) -> Any:  # noqa: N802
            told = {name: str(value) for name, value in context.invocation_metadata()}
            answer = receiver.take(request, told)
            if isinstance(answer, tuple):
                answer, seconds = answer
                context.set_trailing_metadata([(STATUS_DETAILS, _retry_after(seconds))])
            if isinstance(answer, grpc.StatusCode):
                context.abort(answer, "not now")
            return response(answer)

    server = grpc.server(ThreadPoolExecutor(2))
    serve: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
    serve(Service(), server)
    if is_secure:
        keys = grpc.ssl_server_credentials([(KEY.read_bytes(), CERTIFICATE.read_bytes())])
        receiver.url = f"grpcs://127.0.0.1:{server.add_secure_port('127.0.0.1:0', keys)}"
    else:
        receiver.url = f"grpc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield receiver
    finally:
        server.stop(0).wait()


def _retry_after(seconds: float) -> bytes:
    status = Status(message="not now")
    delay = Duration(nanos=round(seconds * 1e9))
    status.details.add().Pack(RetryInfo(retry_delay=delay))
    return bytes(status.SerializeToString())
