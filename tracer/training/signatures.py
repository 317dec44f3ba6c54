"""One captured step for each signature of the batches, as tf.function keeps one graph for each.

A captured graph is specialised to dtypes and shapes. A batch of another signature (the short last
one of an epoch) is captured again, over the same variables; the next of its kind finds it here.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from tracer.capture_graph.capture import Batch, Evaluation, Signature, StepCapture
from tracer.model.graph import TensorSpec
from tracer.strategies.inputs.step_input import StepInput
from tracer.strategies.replica_names import prefix

Step = TypeVar("Step")
Key = tuple[Any, ...]

MOST_KEPT = 16  #: signatures; the one unused for longest makes room
MANY = 6  #: signatures in one run, from which on it is worth a warning

FIRST = "first batch"


def signature_of(batches: Sequence[Batch]) -> Signature:
    """Of what all replicas are fed, by the names of the feeds."""
    feeds = {
        f"{prefix(replica)}{name}": tensor
        for replica, batch in enumerate(batches)
        for name, tensor in zip("xy", batch, strict=True)
    }
    return Signature.of(feeds)


def signature_text(signature: Signature) -> str:
    """`x float32[4,64], y int64[4]`."""
    return ", ".join(f"{name} {_spec(spec)}" for name, spec in signature.feeds)


def modes_text(train: str, evaluation: Evaluation | None) -> str:
    """What a graph is specialised to, by mode: `train x float32[4,64], …; eval x …`."""
    judged = StepCapture.signature(evaluation.batch) if evaluation else None
    return f"train {train}" + (f"; eval {signature_text(judged)}" if judged else "")


def _spec(spec: TensorSpec) -> str:
    return f"{spec.dtype}[{','.join(map(str, spec.shape))}]"


class Kind(NamedTuple):
    """What a step is specialised to: its losses are scaled by the rows of the global batch."""

    signature: Signature
    global_batch: int


def why_captured(kind: Kind, last: Kind | None, *, is_known: bool) -> str:
    """Why a step is captured: how its batch differs from the last one."""
    if last is None:
        return FIRST
    pairs = zip(kind.signature.feeds, last.signature.feeds, strict=True)
    changes = [
        f"{name} {_spec(spec)}, was {_spec(before)}"
        for (name, spec), (_, before) in pairs
        if spec != before
    ]
    if not changes and kind.global_batch != last.global_batch:
        changes.append(f"global batch {kind.global_batch}, was {last.global_batch}")
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


def key_of(given: StepInput) -> Key:
    """Inputs of one key are of one Kind; had for every step, without making a Signature."""
    key: Key = (given.global_batch,)
    for replica in given.replicas:
        x, y = replica.batch
        key += x.dtype, x.shape, y.dtype, y.shape
    return key


class SignatureCache(Generic[Step]):
    """`open_step(given, signature, why)` makes what `close_step` later ends.

    `seen` are the texts of all signatures in the order in which they came.
    """

    def __init__(
        self,
        open_step: Callable[[StepInput, str, str], Step],
        close_step: Callable[[Step], None],
    ) -> None:
        self.seen: list[str] = []
        self._open_step = open_step
        self._close_step = close_step
        self._steps: OrderedDict[Key, tuple[Kind, Step]] = OrderedDict()
        self._known: set[Key] = set()
        self._last: Key = ()

    def step_for(self, given: StepInput) -> Step:
        key = key_of(given)
        if key != self._last:
            if key not in self._steps:
                self._add(key, given)
            self._steps.move_to_end(key)
            self._last = key
        return self._steps[key][1]

    def _add(self, key: Key, given: StepInput) -> None:
        signature = signature_of([replica.batch for replica in given.replicas])
        kind, text = Kind(signature, given.global_batch), signature_text(signature)
        last = self._steps[self._last][0] if self._last else None
        why = why_captured(kind, last, is_known=key in self._known)
        if len(self._steps) == MOST_KEPT:
            self._close_step(self._steps.popitem(last=False)[1][1])
        self._steps[key] = kind, self._open_step(given, text, why)
        self._known.add(key)
        if text not in self.seen:
            self.seen.append(text)

    def renew(self, renewed: Callable[[Step], Step]) -> None:
        """Puts another step in the place of each."""
        for key, (kind, step) in list(self._steps.items()):
            self._steps[key] = kind, renewed(step)

    def close(self) -> None:
        while self._steps:
            self._close_step(self._steps.popitem()[1][1])
