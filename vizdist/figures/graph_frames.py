"""The loops of a graph: which nodes turn in the same frame, and which frames lie in which.

A trace's table of nodes names no frame, but its edges tell: a frame is what hangs together once
the edges into every Enter and out of every Exit are cut.
"""

from collections.abc import Iterable, Mapping, Sequence

from tracer.model.graph import CONTROL_LOOP
from vizdist.analysis.node_measures import Measured
from vizdist.analysis.scopes import scope_of, shared_scope
from vizdist.figures.graph_stage import Edge, StageGraph

ENTERS = ("Enter", "RefEnter")
EXITS = ("Exit", "RefExit")
TURNS = ("NextIteration", "RefNextIteration")
_NAMELESS = "frame"


def frames_of(graph: StageGraph) -> dict[str, tuple[str, ...]]:
    """Node → its frames, outermost first; nodes outside of all loops are left out.

    A frame is called by the scope that its Enters share.
    """
    flows = graph.flows()
    enters = [name for name in graph.tiles if graph.nodes[name].op in ENTERS]
    if not enters:
        return {}
    part = _parts(graph, flows)
    named = _named(enters, part)
    parents = _parents(graph, flows, part, named)
    chains = {root: _chain(root, named, parents) for root in named}
    return {name: chains[part[name]] for name in graph.tiles if chains.get(part[name])}


def _parts(graph: StageGraph, flows: Iterable[Edge]) -> dict[str, str]:
    """Node → a node that stands for all it hangs together with."""
    above = {name: name for name in graph.nodes}

    def root(name: str) -> str:
        while above[name] != name:
            above[name] = name = above[above[name]]
        return name

    for src, dst, _ in flows:
        is_inside = src in above and graph.nodes[src].op not in EXITS
        if is_inside and graph.nodes[dst].op not in ENTERS:
            above[root(src)] = root(dst)
    return {name: root(name) for name in graph.nodes}


def _named(enters: Iterable[str], part: Mapping[str, str]) -> dict[str, str]:
    """Part → the name of its frame, for the parts that something enters."""
    found: dict[str, list[str]] = {}
    for name in enters:
        found.setdefault(part[name], []).append(name)
    named: dict[str, str] = {}
    for root, own in found.items():
        client = [name for name in own if not name.startswith(CONTROL_LOOP)]
        name = shared_scope(scope_of(one, 99) for one in client or own) or _NAMELESS
        alike = sum(other.split(" ")[0] == name for other in named.values())
        named[root] = f"{name} {alike + 1}" if alike else name
    return named


def _parents(
    graph: StageGraph, flows: Iterable[Edge], part: Mapping[str, str], named: Mapping[str, str]
) -> dict[str, str]:
    """Part of a frame → that of the frame around it, from which its Enters take values."""
    return {
        part[dst]: part[src]
        for src, dst, _ in flows
        if graph.nodes[dst].op in ENTERS
        and part.get(src, "") in named
        and graph.nodes[src].op not in EXITS  # which lie in the frame that they leave
    }


def _chain(root: str, named: Mapping[str, str], parents: Mapping[str, str]) -> tuple[str, ...]:
    """Names of a frame and those around it; nothing where it would lie in itself."""
    chain: list[str] = []
    seen: set[str] = set()
    while root in named:
        if root in seen:
            return ()
        seen.add(root)
        chain.insert(0, named[root])
        root = parents.get(root, "")
    return tuple(chain)


def iterations_of(graph: StageGraph, names: Sequence[str], measured: Mapping[str, Measured]) -> int:
    """How often a frame turned: as often as a NextIteration of it had a value to pass on."""
    turns = [graph.nodes[name].name for name in names if graph.nodes[name].op in TURNS]
    found = [measured[name] for name in turns if name in measured]
    return max((one.runs - one.dead for one in found), default=0)
