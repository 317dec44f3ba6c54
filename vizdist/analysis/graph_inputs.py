"""Whose end an op awaited: the inputs that the graph names, as spans of the step."""

from collections.abc import Sequence

import numpy as np

from tracer.model.graph_table import NodeRow, input_node
from vizdist.store.graphs import GraphTable
from vizdist.store.segments import Array
from vizdist.store.spans import Spans

_Edges = tuple[Array, Array]
_NO_EDGES = np.empty(0, np.int64), np.empty(0, np.int64)


def inputs_of(
    graph: GraphTable | None, spans: Spans, names: Array, where: Array, begun: Array, ended: Array
) -> _Edges:
    """Pairs (producer, consumer) of places in `spans`.

    `names` are codes of the nodes that spans stand for. `where` numbers the partition that a span
    is part of, -1 for none: only there its inputs are. Of a loop it is the producer of the same
    iteration, else the one that ended last before (an Enter, the loop that was left); of a
    NextIteration that of the iteration before.
    """
    code = {word: number for number, word in enumerate(spans.words["name"])}
    edges = _named_edges(graph, code)
    if edges is None:
        return _NO_EDGES
    width = len(code)
    here = np.flatnonzero(where >= 0)
    node = where[here] * width + names[here]
    consumer, name = _joined(*edges, names[here])
    wanted = where[here][consumer] * width + name
    repeats = np.isin(name, names[here][spans.has_word("op", "NextIteration")[here]])
    tag = _tags(spans)[here]
    begun = begun[here][consumer]
    found = _same_tag(node, tag, wanted, tag[consumer] - repeats, ended[here], begun)
    rest = np.flatnonzero((found < 0) & ~repeats)
    found[rest] = last_before(node, ended[here], wanted[rest], begun[rest])
    known = found >= 0
    return here[found[known]], here[consumer[known]]


def _named_edges(graph: GraphTable | None, code: dict[str, int]) -> tuple[Array, Array] | None:
    """(consumer, producer) as codes of names, in the order of consumers; None: not known."""
    rows: Sequence[NodeRow] = graph.last_rows if graph else ()
    pairs = {
        (code[row.name], code[name])
        for row in rows
        if row.name in code
        for name in map(input_node, row.inputs)
        if name in code
    }
    if not pairs:
        return None
    consumer, producer = np.array(sorted(pairs), np.int64).T
    return consumer, producer


def _joined(consumers: Array, producers: Array, names: Array) -> _Edges:
    """For every span and every input of its node: (which span, the code of the input)."""
    low = np.searchsorted(consumers, names, "left")
    count = np.searchsorted(consumers, names, "right") - low
    span = np.repeat(np.arange(len(names)), count)
    first = np.repeat(np.cumsum(count) - count, count)
    return span, producers[np.repeat(low, count) + np.arange(len(span)) - first]


def _tags(spans: Spans) -> Array:
    """Numbers that are alike for spans of one iteration of one loop."""
    _, frame = np.unique(spans.frame_id, return_inverse=True)
    iteration = spans.iteration + 1
    most = int(iteration.max(initial=0)) + 1
    return np.asarray(frame * most + iteration)


def _same_tag(
    node: Array, tag: Array, wanted: Array, wanted_tag: Array, ended: Array, begun: Array
) -> Array:
    most = int(tag.max(initial=0)) + 1
    every = node * most + tag
    order = np.argsort(every, kind="stable")
    at = np.searchsorted(every[order], wanted * most + wanted_tag)
    place = order[np.minimum(at, len(order) - 1)]
    is_meant = (every[place] == wanted * most + wanted_tag) & (ended[place] <= begun)
    return np.where(is_meant, place, -1)


def last_before(
    group: Array, ended: Array, wanted: Array, limit: Array, own: Array | None = None
) -> Array:
    """What of the wanted group ended last, by the limit, and is not `own`; -1: nothing did."""
    if not len(group):
        return np.full(len(wanted), -1)
    order = np.lexsort((ended, group))
    _, rank = np.unique(np.concatenate((ended, limit)), return_inverse=True)
    most = len(rank) + 1
    every = group[order] * most + rank[: len(ended)][order]
    at = np.searchsorted(every, wanted * most + rank[len(ended) :], "right") - 1
    if own is not None:
        at = np.where((at >= 0) & (order[at] == own), at - 1, at)
    place = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (group[place] == wanted), place, -1)
