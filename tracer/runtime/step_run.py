"""What all executors have in common: the step they serve, how they ask, record and fail."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch

from tracer.model.step import SpanContext
from tracer.model.trace_folder import Flag
from tracer.ops.kernel import DEAD, OpError
from tracer.record.open_span import OpenSpan
from tracer.record.recorder import Recorder
from tracer.runtime.interfaces import Received, RecvDone, StepError
from tracer.runtime.prepared import PreparedNode, PreparedPartition
from tracer.runtime.remote_rendezvous import StepRendezvous

ExecutorDone = Callable[[StepError | None], None]


class StepRun:
    """One worker's side of one step.

    `args` and `results` serve tasks without a cluster (`_Arg`, `_Retval`).
    """

    __slots__ = ("args", "context", "rendezvous", "results")

    def __init__(
        self, rendezvous: StepRendezvous, context: SpanContext, args: Mapping[str, torch.Tensor]
    ) -> None:
        self.rendezvous = rendezvous
        self.context = context
        self.args = args
        self.results: dict[str, torch.Tensor] = {}

    def pull(self, node: PreparedNode, context: SpanContext, done: RecvDone, key: str = "") -> None:
        """Asks for the value of a `_Recv`, here or in the task that makes it; `key`: in a loop."""
        if node.source is None:
            self.rendezvous.local.recv(key or node.key, done)
        else:
            self.rendezvous.recv_remote(node.source, key or node.key, context, done)


class Executor(Protocol):
    """Runs one device's partition; `done` is called once, when nothing of it runs or waits."""

    def run(self, step: StepRun, done: ExecutorDone) -> None: ...


def error_at(
    partition: PreparedPartition, node: PreparedNode | None, error: Exception
) -> StepError:
    """An exception of a node as the step's error; an abort met on the way is passed on."""
    if isinstance(error, StepError):
        return error
    reason = OpError.of(error)
    name = node.name if node is not None else ""
    return StepError(reason.code, reason.message, task=partition.task, node=name)


def device_error(partition: PreparedPartition, error: Exception) -> StepError:
    """What a GPU failed with after its launches had gone well; of which node, it does not say."""
    text = f"{partition.device.name} ({partition.device.physical}): {error}"
    return StepError("INTERNAL", text, task=partition.task)


def dead_result(partition: PreparedPartition, node: PreparedNode) -> StepError:
    """Of a `_Retval` whose value was never made (TF `direct_session.cc`)."""
    text = f"Retval[{node.index}] does not have value"
    return StepError("INVALID_ARGUMENT", text, task=partition.task, node=node.name)


def value_of(node: PreparedNode, received: Received, span: OpenSpan | None) -> Any:
    """What a `_Recv` got, on its device, or DEAD; a copy to a GPU is told under the recv's span.

    Raises the StepError that it got.
    """
    if received.error is not None:
        raise received.error
    if received.is_dead:
        return DEAD
    if not node.run_site or span is None or not span.context.sampled:
        return node.kernel(received.tensor)
    return node.kernel(received.tensor, span.context)


def close_recv(recorder: Recorder, span: OpenSpan, received: Received, *, is_remote: bool) -> int:
    """Ends a `rendezvous.recv` span: it waited until the value existed, the rest is transfer.

    Returns its end in ns.
    """
    end = recorder.now()
    flags = (Flag.REMOTE if is_remote else 0) | (Flag.DEFERRED if received.deferred else 0)
    if received.error is not None:
        recorder.annotate(span.span, {}, error=received.error.message)
        span.close(end, flags=flags | Flag.ERROR)
        return end
    span.close(
        end,
        num_bytes=received.tensor.nbytes if received.tensor is not None else 0,
        link=received.send_span,
        flags=flags | (Flag.DEAD if received.is_dead else 0),
        extra=received.wait_ns if is_remote else end - span.start,
    )
    return end
