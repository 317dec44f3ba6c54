"""What a receiver may answer to a batch, the same for both protocols, and how to send one."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse


class Verdict(Enum):
    TAKEN = "taken"
    LATER = "later"  #: the same batch may be sent again
    REFUSED = "refused"  #: and would be again


@dataclass(frozen=True, slots=True)
class Answer:
    """`rejected` spans of a batch that was taken; `wait_s` is what the receiver asks for."""

    verdict: Verdict
    message: str = ""
    rejected: int = 0
    wait_s: float = 0.0


class Sender(Protocol):
    def send(self, request: bytes) -> Answer:
        """Sends a serialized request; returns within the target's timeout, raises nothing."""
        ...

    def close(self) -> None: ...


def taken(response: bytes) -> Answer:
    """An answer without error: all spans, or all but some, which are not to be sent again.

    Raises DecodeError if it is no OTLP answer.
    """
    partial = ExportTraceServiceResponse.FromString(response).partial_success
    return Answer(Verdict.TAKEN, partial.error_message, partial.rejected_spans)
