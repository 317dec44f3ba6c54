"""How many uses one transfer serves: what would go over once for each, did they not share it."""

from collections.abc import Mapping
from types import MappingProxyType

from vizdist.analysis.kept import kept
from vizdist.analysis.keys import key_of
from vizdist.figures.graph_stage import CUT_STAGES, edge_key, read_stage
from vizdist.store.trace import StepInfo, Trace

Uses = Mapping[tuple[str, str, str], int]  #: by source, target and edge name of a key

NOT_KNOWN: Uses = MappingProxyType({})


@kept(most=4)
def shared_uses(trace: Trace, step: StepInfo) -> Uses:
    """Of the graph that a step ran, as its last cut made it."""
    table = trace.graph(step)
    last = [stage for stage in CUT_STAGES if table is not None and stage in table.stages]
    if table is None or not last:
        return NOT_KNOWN
    graph = read_stage(last[-1], table.stages[last[-1]])
    ends = [(graph.nodes[pair.recv or pair.send], pair) for pair in graph.pairs if pair.send]
    return {edge_key(row): pair.num_uses for row, pair in ends}


def uses_of(key: str, uses: Uses) -> int:
    """Of a rendezvous key; 1 of one that no graph knows."""
    read = key_of(key)
    return max(1, uses.get((read.src_device, read.dst_device, read.edge_name), 1))
