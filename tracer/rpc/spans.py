"""The RPC pair in the trace: `rpc.client` where a call is made, `rpc.server` where it is served.

The client's span id travels with the call and is the parent of the server's; the pair is joined by
that, never by names or times. Names follow OTel's conventions for RPC.
"""

from collections.abc import Mapping
from typing import Self

from tracer.record.open_span import OpenSpan
from tracer.record.recorder import Recorder
from tracer.rpc.frames import (
    CLEANUP,
    COMPLETE_INSTANCE,
    RECV_TENSOR,
    RUN_CALLABLE,
    RUN_GRAPH,
    RUN_STEP,
    START_ABORT,
    Buffer,
)
from tracer.runtime.interfaces import StepError

MASTER_SERVICE = "tensorflow.MasterService"
WORKER_SERVICE = "tensorflow.WorkerService"

#: what is said of a call's way: gRPC, or the same frames on a unix socket beside shared memory
GRPC: Mapping[str, str] = {"rpc.system.name": "grpc", "network.transport": "tcp"}
LOCAL: Mapping[str, str] = {"rpc.system.name": "vizdist.local", "network.transport": "unix"}

#: TF has no StartAbort: its master cancels the RunGraph call, which a frame cannot
METHODS: Mapping[int, str] = {
    RUN_STEP: f"{MASTER_SERVICE}/RunStep",
    RUN_CALLABLE: f"{MASTER_SERVICE}/RunCallable",
    RUN_GRAPH: f"{WORKER_SERVICE}/RunGraph",
    RECV_TENSOR: f"{WORKER_SERVICE}/RecvTensor",
    COMPLETE_INSTANCE: f"{WORKER_SERVICE}/CompleteInstance",
    CLEANUP: f"{WORKER_SERVICE}/CleanupGraph",
    START_ABORT: f"{WORKER_SERVICE}/StartAbort",
}


def call_site(
    recorder: Recorder,
    kind: str,
    method: str,
    peer: str,
    address: str = "",
    wire: Mapping[str, str] = GRPC,
) -> int:
    """The site of `rpc.client` or `rpc.server` spans of one method and peer."""
    attributes = {
        **wire,
        "rpc.method": method,
        "vizdist.peer": peer,
        **({"server.address": address} if address else {}),
    }
    return recorder.site(kind, name=method.rpartition("/")[2], attributes=attributes)


def frame_sites(
    recorder: Recorder, kind: str, peer: str, address: str, wire: Mapping[str, str]
) -> Mapping[int, int]:
    """Frame kind → site."""
    return {
        frame: call_site(recorder, kind, method, peer, address, wire)
        for frame, method in METHODS.items()
    }


def end_call(
    span: OpenSpan | None,
    error: StepError | None = None,
    *,
    num_bytes: int = 0,
    flags: int = 0,
    extra: int = 0,
) -> None:
    """Ends the span of a call, if it has one; a failed one says why."""
    if span is None:
        return
    if error is not None:
        span.set("rpc.response.status_code", error.code)
        span.fail(error)
    span.close(num_bytes=num_bytes, flags=flags, extra=extra)


class RpcSpan:
    """The span of a call that lasts as long as a `with` block; an error in it is the span's."""

    def __init__(self, span: OpenSpan) -> None:
        self._span = span
        self.context = span.context
        self.answer: Buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and not isinstance(error, StepError):
            self._span.fail(error)
            error = None
        end_call(self._span, error, num_bytes=len(self.answer))
