"""CompleteInstance on the wire (TF `worker.proto`): a rank arrives, and hears that all have."""

from tracer.model.collective import Arrival, Execution
from tracer.model.step import SpanContext
from tracer.rpc.frames import Buffer, Parts
from tracer.rpc.messages import Message, decode, encode


class CompleteInstanceRequest(Message):
    context: tuple[int, int, int, int, bool]
    arrival: Arrival


class CompleteInstanceResponse(Message):
    execution: Execution


def encode_arrival(arrival: Arrival, context: SpanContext) -> Parts:
    data = encode(CompleteInstanceRequest(context, arrival))
    return [data], len(data)


def decode_arrival(payload: Buffer) -> tuple[Arrival, SpanContext]:
    request = decode(CompleteInstanceRequest, payload)
    return request.arrival, SpanContext(*request.context)


def encode_execution(execution: Execution) -> Parts:
    data = encode(CompleteInstanceResponse(execution))
    return [data], len(data)


def decode_execution(payload: Buffer) -> Execution:
    return decode(CompleteInstanceResponse, payload).execution
