"""Which spans tell in what order a step went: those of its request, and its graph's preparation."""

import numpy as np

from tracer.model.schema import SPAN_KINDS
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

ON_THREADS = ("op.run", "op.launch", "rendezvous.send")

_CALLS = ("rpc.client", "rpc.server")
_WORKS = ("graph.prune", "graph.place", "graph.optimize", "graph.partition", "graph.register")
PREPARING = (*_WORKS, *_CALLS)
_DEEP = 3  #: a call, its service, the registration, the cut in it

#: all but remarks, and loops, which are their ops'
_KINDS = tuple(
    kind.name
    for kind in SPAN_KINDS.values()
    if kind.name in (*_CALLS, "rendezvous.recv", "copy.run")
    or (kind.relation == "nested" and kind.lane != "loops")
)


def ordered_places(trace: Trace, step: StepInfo) -> Array:
    """Where they lie in the table of the trace."""
    places = trace.step_places(step)
    places = places[_is_meant(trace.all.take(places))]
    return np.concatenate((places, _preparation(trace, step)))


def _is_meant(spans: Spans) -> Array:
    """A call that fetches a value is told by its recv."""
    is_value = spans.is_kind(*_CALLS) & spans.has_word("name", "RecvTensor")
    mask: Array = spans.is_kind(*_KINDS) & ~is_value
    return mask


def _preparation(trace: Trace, step: StepInfo) -> Array:
    """What made the step's graph ready, if that happened in the step.

    It is no part of the request, as later steps need the graph too.
    """
    graph = trace.graph(step)
    if graph is None or not step.start <= graph.start <= step.end:
        return np.empty(0, np.int64)
    window = step.start, step.end
    places = np.flatnonzero(trace.mask(window=window, step=0, kinds=PREPARING))
    spans = trace.all.take(places)
    is_meant = ~spans.is_kind(*_CALLS) | spans.has_word("name", "RegisterGraph")
    is_meant &= (spans.start >= step.start) & (spans.end <= step.end)
    found = is_meant & (spans.parent == 0) & (spans.task == graph.task)
    for _ in range(_DEEP):
        found |= is_meant & np.isin(spans.parent, spans.span[found])
    works: Array = places[found]
    return works
