"""Gradients that were put into accumulators, and those that came after the update they were for."""

from dataclasses import dataclass

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.step_split import op_mask
from vizdist.store.trace import Trace


@dataclass(frozen=True, slots=True)
class Gathered:
    """`dropped` of the `given` gradients were stale; `first`: span of the first such, or 0."""

    given: int
    dropped: int
    first: int
    step: int


def gathered_gradients(trace: Trace) -> Gathered | None:
    """None where nothing was gathered: every worker updates by itself."""
    spans = trace.all
    is_given = op_mask(spans, lambda op: op.endswith("AccumulatorApplyGradient"))
    if not is_given.any():
        return None
    dropped = spans.take(is_given & ((spans.flags & Flag.DROPPED) != 0))
    at = int(np.argmin(dropped.start)) if len(dropped) else -1
    first, step = (int(dropped.span[at]), int(dropped.step[at])) if len(dropped) else (0, 0)
    return Gathered(int(is_given.sum()), len(dropped), first, step)
