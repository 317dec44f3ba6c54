"""How a gRPC channel or server is set up, and the secret that every call carries."""

import hmac
from collections.abc import Iterable, Mapping
from typing import Any

import grpc

from tracer.model.step import SpanContext
from tracer.rpc.messages import decode_error, encode_error
from tracer.runtime.interfaces import StepError

STREAM_SERVICE = "vizdist.Frames"
STREAM = "Exchange"

SECRET_KEY = "vizdist-secret"
ERROR_KEY = "vizdist-error-bin"
TRACE_KEY = "traceparent"
STEP_KEY = "vizdist-step"

CONNECT_S = 10.0  #: one try to reach a task
CALL_S = 60.0  #: an answer to a rare call
SHUTDOWN_S = 5.0

Metadata = tuple[tuple[str, str], ...]

SILENCE_S = 5.0  #: after which a peer that answers no ping is lost

#: A peer that answers no ping for 5 s is lost. The pings come from gRPC's own threads, so a long
#: kernel is no silence; a stopped process is.
_HEARTBEAT = (
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", int(1000 * SILENCE_S)),
    # some versions never start the timer above; this one, for any ping, they do (default 60 s)
    ("grpc.http2.ping_timeout_ms", int(1000 * SILENCE_S)),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)

_UNLIMITED = (
    # errors travel in metadata, and a user's message may be long
    ("grpc.max_metadata_size", 1 << 20),
    ("grpc.absolute_max_metadata_size", 1 << 20),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)

SERVER_OPTIONS = (
    # Linux would let a second server share the port and split the calls between the two
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 500),
    ("grpc.http2.max_ping_strikes", 0),
    *_HEARTBEAT,
    *_UNLIMITED,
)


def channel_options(*, allow_proxy: bool) -> tuple[tuple[str, int], ...]:
    return (
        ("grpc.enable_http_proxy", int(allow_proxy)),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.client_idle_timeout_ms", 2**31 - 1),  # a channel that leaves has lost its peer
        *_HEARTBEAT,
        *_UNLIMITED,
    )


def secret_metadata(secret: str) -> Metadata:
    return ((SECRET_KEY, secret),) if secret else ()


def has_secret(metadata: Iterable[tuple[str, str | bytes]] | None, secret: str) -> bool:
    """Compares in constant time; a cluster without a secret lets everyone in."""
    if not secret:
        return True
    given = next((value for key, value in metadata or () if key == SECRET_KEY), "")
    text = given.encode() if isinstance(given, str) else given
    return hmac.compare_digest(text, secret.encode())


REFUSED = "the cluster's secret is missing or wrong; start every task and client with the same one"


def trace_metadata(context: SpanContext) -> Metadata:
    """W3C trace context; the ordinal step number goes beside it."""
    if not context.sampled:
        return ()
    parent = f"00-{context.trace_id}-{context.span:016x}-01"
    return ((TRACE_KEY, parent), (STEP_KEY, str(context.step)))


NOT_SAMPLED = SpanContext(0, 0, sampled=False)


def context_of(metadata: Iterable[tuple[str, str | bytes]] | None) -> SpanContext:
    """What `trace_metadata` wrote; not sampled if it is absent or foreign."""
    known = {key: str(value) for key, value in metadata or () if key in (TRACE_KEY, STEP_KEY)}
    parts = known.get(TRACE_KEY, "").split("-")
    try:
        _, trace, span, flags = parts
        sampled = bool(int(flags, 16) & 1)
        step = int(known.get(STEP_KEY, "0"))
        return SpanContext(int(trace[:16], 16), int(trace[16:], 16), int(span, 16), step, sampled)
    except ValueError:
        return NOT_SAMPLED


def error_metadata(error: StepError) -> tuple[tuple[str, bytes], ...]:
    return ((ERROR_KEY, encode_error(error)),)


#: gRPC's asyncio stream hides the status of a call that ends while it writes behind this text
_BROKEN_WRITE = "Internal error from Core"


def step_error(error: Any, peer: str, address: str) -> StepError:
    """Of a grpc.RpcError: what the peer raised, else what happened on the way, naming the task."""
    for key, value in error.trailing_metadata() or ():
        if key == ERROR_KEY and isinstance(value, bytes):
            return decode_error(value)
    code, details = error.code(), error.details() or ""
    if details == _BROKEN_WRITE:
        code, details = grpc.StatusCode.UNAVAILABLE, "the connection ended as a message was sent"
    elif code is grpc.StatusCode.CANCELLED:  # nobody here did: the other side hung up
        code = grpc.StatusCode.UNAVAILABLE
    return lost(peer, address, code.name, details)


def lost(peer: str, address: str, code: str, details: str) -> StepError:
    text = f"{peer} at {address}: {details or 'the connection ended'}"
    return StepError(code, text, task=peer)


STATUS: Mapping[str, grpc.StatusCode] = {status.name: status for status in grpc.StatusCode}
