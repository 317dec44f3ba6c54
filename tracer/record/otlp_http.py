"""OTLP/HTTP: one POST a batch on a connection that is kept."""

import gzip
import http.client
import ssl
import time
from email.utils import parsedate_to_datetime
from typing import Final

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status

from tracer import __version__
from tracer.record.export_target import ExportTarget, Tls
from tracer.record.otlp_answer import Answer, Verdict, taken

CONTENT_TYPE: Final = "application/x-protobuf"
RETRIED: Final = frozenset({429, 502, 503, 504})  #: what OTLP allows to send again
ANSWER_LIMIT: Final = 1 << 20  #: bytes of an answer that are looked at


class HttpSender:
    def __init__(self, target: ExportTarget) -> None:
        self._target = target
        self._headers = {
            "content-type": CONTENT_TYPE,
            "user-agent": f"vizdist/{__version__}",
            **({"content-encoding": "gzip"} if target.is_compressed else {}),
            **target.headers,
        }
        self._connection = _connection(target)

    def send(self, request: bytes) -> Answer:
        body = gzip.compress(request, 1) if self._target.is_compressed else request
        try:
            self._connection.request("POST", self._target.path, body, self._headers)
            response = self._connection.getresponse()
            told = response.read(ANSWER_LIMIT)
            if not response.isclosed():  # more than we care for
                self._connection.close()
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()  # the next request opens it again
            return self._failed(error)
        if response.status == http.client.OK:
            return taken(told)
        verdict = Verdict.LATER if response.status in RETRIED else Verdict.REFUSED
        message = f"HTTP {response.status} {response.reason} {_said(told)}".strip()
        return Answer(verdict, message, wait_s=seconds_of(response.headers["retry-after"]))

    def _failed(self, error: Exception) -> Answer:
        """What HTTP cannot carry stands in the error, and may be secret."""
        is_malformed = isinstance(error, http.client.InvalidURL)
        if is_malformed or not isinstance(error, OSError | http.client.HTTPException):
            return Answer(Verdict.REFUSED, f"{self._target}: HTTP cannot carry its path or headers")
        return Answer(Verdict.LATER, f"{self._target} cannot be reached: {error}")

    def close(self) -> None:
        self._connection.close()


def _connection(target: ExportTarget) -> http.client.HTTPConnection:
    if not target.is_secure:
        return http.client.HTTPConnection(target.host, target.port, timeout=target.timeout_s)
    return http.client.HTTPSConnection(
        target.host, target.port, timeout=target.timeout_s, context=_context(target.tls)
    )


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.authorities or None)
    if tls.certificate:
        context.load_cert_chain(tls.certificate, tls.key or None)
    return context


def _said(told: bytes) -> str:
    """The message of an error's body, which is a google.rpc.Status."""
    try:
        return str(Status.FromString(told).message)
    except DecodeError:
        return ""


def seconds_of(retry_after: str | None) -> float:
    """`Retry-After`: seconds or a date; 0 if there is none that can be read."""
    if retry_after is None:
        return 0.0
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return 0.0
