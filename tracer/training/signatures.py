"""One captured step for each signature of the batches, as tf.function keeps one graph for each.

A captured graph is specialised to dtypes and shapes. A batch of another signature (the short last
one of an epoch) is captured again, over the same variables; the next of its kind finds it here.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from tracer.capture_graph.capture import Batch, Signature, StepCapture
from tracer.model.graph import TensorSpec

Step = TypeVar("Step")

MOST_KEPT = 16  #: signatures; the one unused for longest makes room
MANY = 6  #: signatures in one run, from which on it is worth a warning

FIRST = "first batch"


def signature_text(signature: Signature) -> str:
    """`x float32[4,64], y int64[4]`."""
    return ", ".join(f"{name} {_spec(spec)}" for name, spec in signature.feeds)


def _spec(spec: TensorSpec) -> str:
    return f"{spec.dtype}[{','.join(map(str, spec.shape))}]"


def why_captured(signature: Signature, last: Signature | None, *, is_known: bool) -> str:
    """Why a step is captured: how its batch differs from the last one."""
    if last is None:
        return FIRST
    changes = [
        f"{name} {_spec(spec)}, was {_spec(before)}"
        for (name, spec), (_, before) in zip(signature.feeds, last.feeds, strict=True)
        if spec != before
    ]
    forgotten = f"; one of {MOST_KEPT} kept before was dropped" if is_known else ""
    return "; ".join(changes) + forgotten


def warning_of(signatures: Sequence[str]) -> str:
    """What to tell of a run whose batches had so many signatures; empty if they were few."""
    if len(signatures) < MANY:
        return ""
    shown = "; ".join(signatures[:MANY])
    more = f"; and {len(signatures) - MANY} more" if len(signatures) > MANY else ""
    return (
        f"its batches had {len(signatures)} signatures, and for each the step was captured and "
        f"registered anew: {shown}{more}. Pad batches to one shape, or leave odd ones out"
    )


class SignatureCache(Generic[Step]):
    """`open_step(batch, signature, why)` makes what `close_step` later ends.

    `seen` are the texts of all signatures in the order in which they came.
    """

    def __init__(
        self,
        open_step: Callable[[Batch, str, str], Step],
        close_step: Callable[[Step], None],
    ) -> None:
        self.seen: list[str] = []
        self._open_step = open_step
        self._close_step = close_step
        self._steps: OrderedDict[Signature, Step] = OrderedDict()
        self._last: Signature | None = None

    def step_for(self, batch: Batch) -> Step:
        signature = StepCapture.signature(batch)
        step = self._steps.get(signature)
        if step is None:
            step = self._add(signature, batch)
        if signature != self._last:
            self._steps.move_to_end(signature)
            self._last = signature
        return step

    def _add(self, signature: Signature, batch: Batch) -> Step:
        text = signature_text(signature)
        is_known = text in self.seen
        why = why_captured(signature, self._last, is_known=is_known)
        if len(self._steps) == MOST_KEPT:
            self._close_step(self._steps.popitem(last=False)[1])
        step = self._steps[signature] = self._open_step(batch, text, why)
        if not is_known:
            self.seen.append(text)
        return step

    def close(self) -> None:
        while self._steps:
            self._close_step(self._steps.popitem()[1])
