"""What a GPU had made before it ran what needs it, by its own clock and not by that of launches.

A copy stands for the Send or Recv that it serves. A tensor that stays on the card is handed over
without one: then what made it is what its consumer awaited.
"""

import numpy as np

from vizdist.analysis.graph_inputs import inputs_of
from vizdist.store.graphs import GraphTable
from vizdist.store.segments import Array
from vizdist.store.spans import Spans

_ANY_TIME = np.iinfo(np.int64).max


def gpu_order(
    graph: GraphTable | None,
    spans: Spans,
    is_on_gpu: Array,
    partition: Array,
    parent: Array,
    sender: Array,
    times: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Pairs (before, behind) of places in `spans`; `times` are when each began and ended.

    `parent` is a place too, and `sender` of a recv, -1 for none; `partition` is a number.
    """
    if not is_on_gpu.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    copies = np.flatnonzero(spans.is_kind("copy.run") & (parent >= 0))
    names = spans.codes("name").copy()
    names[copies] = names[parent[copies]]
    is_handed = spans.is_kind("rendezvous.send", "rendezvous.recv")
    is_handed[parent[copies]] = False
    begun = np.where(is_on_gpu, times[0], _ANY_TIME)  # a Send begins when its tensor is promised
    where = np.where(is_on_gpu | is_handed, partition, -1)
    made, needed = inputs_of(graph, spans, names, where, begun, times[1])
    by_gpu, for_gpu = is_on_gpu[made], is_on_gpu[needed]
    maker = np.full(len(spans) + 1, -1)  # the last place is for what has no sender
    maker[needed[by_gpu & ~for_gpu]] = made[by_gpu & ~for_gpu]
    handed = maker[sender[made[~by_gpu & for_gpu]]]
    before = np.concatenate((made[by_gpu & for_gpu], handed))
    behind = np.concatenate((needed[by_gpu & for_gpu], needed[~by_gpu & for_gpu]))
    return before[before >= 0], behind[before >= 0]
