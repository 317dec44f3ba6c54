"""The spans worth a look where nothing is selected yet: those that were at work longest."""

import numpy as np

from vizdist.store.segments import Array
from vizdist.store.trace import StepInfo, Trace

#: Spans that hold others: as long as what they hold, so they tell nothing new.
_HOLDERS = ("session.run", "partition.run", "run", "rpc.client", "rpc.server")


def longest(trace: Trace, step: StepInfo | None, most: int) -> list[int]:
    """Places in the table, of one step or of all, the longest first; waiting is no work."""
    places = trace.step_places(step) if step else np.arange(len(trace))
    spans = trace.all.take(places)
    at_work = ~spans.is_kind(*_HOLDERS) & ~_is_parent(trace, spans.span)
    chosen, spans = places[at_work], spans.take(at_work)
    lengths = spans.duration - np.clip(spans.wait, 0, spans.duration)
    order: list[int] = chosen[np.argsort(-lengths, kind="stable")[:most]].tolist()
    return order


def _is_parent(trace: Trace, spans: Array) -> Array:
    """Whether others lie in it; 0 is no id."""
    is_parent: Array = (spans != 0) & np.isin(spans, trace.all.parent)
    return is_parent
