"""An asynchronous kernel that runs: how it ends, and how it is told to end."""

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from tracer.model.step import SpanContext
from tracer.ops.kernel import Cancel
from tracer.record.open_span import OpenSpan
from tracer.runtime.interfaces import StepError
from tracer.runtime.prepared import PreparedNode
from tracer.runtime.step_run import StepRun

Place = TypeVar("Place")


class Waits(Protocol[Place]):
    """The run of a partition, which is told the end. `context` is of what it does."""

    step: StepRun
    context: SpanContext

    def waited(self, wait: "Wait[Place]", result: Any, error: Exception | None) -> None:
        """On whatever thread."""
        ...


class Wait(Generic[Place]):
    """What the kernel is handed as `done`; `place` is where its run has it.

    Its cancel knows it, and perhaps what the kernel was given: so it lets go of that when it ends.
    """

    __slots__ = ("_cancel", "_open", "_run", "place", "ready", "span")

    def __init__(
        self, run: Waits[Place], place: Place, ready: int, span: OpenSpan | None = None
    ) -> None:
        self._run = run
        self._open = [self]
        self._cancel: Cancel | None = None
        self.place = place
        self.ready = ready
        self.span = span

    @property
    def step(self) -> StepRun:
        return self._run.step

    @property
    def context(self) -> SpanContext:
        """What the kernel's own spans lie under."""
        return self.span.context if self.span is not None else self._run.context

    def __call__(self, result: Any = None, error: Exception | None = None) -> None:
        """Only the first call counts: an end and a cancel may race."""
        try:
            self._open.pop()
        except IndexError:
            return
        self._cancel = None
        self._run.waited(self, result, error)

    def goes_on(self, cancel: Cancel | None) -> None:
        """The kernel's call has returned; it may have ended before that, or end meanwhile."""
        self._cancel = cancel
        if not self._open:
            self._cancel = None

    def cancel(self) -> None:
        if (cancel := self._cancel) is not None:
            cancel()

    def close_span(self, outputs: Sequence[Any], failure: StepError | None) -> None:
        if self.span is None:
            return
        if failure is not None:
            self.span.fail(failure.message)
        self.span.close(num_bytes=bytes_of(outputs), ready=self.ready)


def by_port(node: PreparedNode, result: Any) -> Sequence[Any]:
    """A kernel's result as the node's outputs; ValueError if there are too few or too many.

    Of a node that drops, which has none, it is whether it did.
    """
    if len(node.outputs) == 1 or node.drops:
        return (result,)
    if node.outputs and len(result) != len(node.outputs):
        raise ValueError(f"the kernel gave {len(result)} outputs, {len(node.outputs)} are declared")
    return result if node.outputs else ()


def bytes_of(values: Sequence[Any]) -> int:
    """A variable, or what a kernel leaves out, has none."""
    return sum(getattr(value, "nbytes", 0) for value in values)
