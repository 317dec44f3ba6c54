"""What a receiver may answer to a batch, the same for both protocols, and how to send one."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

UNREADABLE: Final = "the receiver took the spans, but does not answer as OTLP has it"


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

    Some receivers answer in JSON or in words; they have the spans all the same.
    """
    try:
        partial = ExportTraceServiceResponse.FromString(response).partial_success
    except DecodeError:
        return Answer(Verdict.TAKEN, UNREADABLE)
    return Answer(Verdict.TAKEN, partial.error_message, partial.rejected_spans)
