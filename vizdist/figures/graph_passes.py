"""What the optimizations of a graph did, as their spans say it."""

from typing import NamedTuple

import numpy as np

from vizdist.store.graphs import CHUNK_KIND, GraphTable
from vizdist.store.trace import Trace

KINDS = ("removed", "added", "changed")


class PassChange(NamedTuple):
    """One pass, and how many nodes it removed, added and changed."""

    name: str
    removed: int = 0
    added: int = 0
    changed: int = 0


def passes_of(trace: Trace, graph: GraphTable) -> tuple[PassChange, ...]:
    """The passes of the request that registered a graph, in order; none where none was asked for.

    Its spans share a trace, and its pruning began what belongs to this graph.
    """
    spans = trace.all
    chunks = np.flatnonzero(spans.is_kind(CHUNK_KIND) & (spans.start == graph.start))
    passes = np.flatnonzero(spans.is_kind("graph.optimize"))
    if not len(chunks) or not len(passes):
        return ()
    own = spans.trace_lo == spans.trace_lo[chunks[0]]
    pruned = spans.start[own & spans.is_kind("graph.prune") & (spans.start < graph.start)]
    since = pruned.max() if len(pruned) else 0
    passes = passes[own[passes] & (spans.start[passes] >= since)]
    passes = passes[spans.start[passes] < graph.start]
    ordered = passes[np.argsort(spans.start[passes], kind="stable")].tolist()
    attributes = trace.attributes(ordered)
    return tuple(_change(attributes[place]) for place in ordered if place in attributes)


def _change(attributes: dict[str, object]) -> PassChange:
    counts = [attributes.get(f"vizdist.pass.{kind}", 0) for kind in KINDS]
    whole = [count if isinstance(count, int) else 0 for count in counts]
    return PassChange(str(attributes.get("vizdist.pass.name", "")), *whole)
