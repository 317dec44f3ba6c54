"""One node through the stages: whether it is the client's own, where it came from, why it went.

A node is known by its name in every stage; what is not in the first stage was added on the way.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tracer.model.graph import Input
from tracer.model.graph_table import STAGES, NodeRow, input_node
from vizdist.figures.graph_nodes import look_of, short_name
from vizdist.figures.graph_stage import StageGraph

#: how a node came: it was built by the client, or who put it there
Coming = Literal["", "client", "loop", "cut", "pass"]
#: how a node went: nothing needs it, the client feeds its value, an optimization did without it
Going = Literal["", "unneeded", "fed", "pass"]

_BY_REASON: Mapping[str, Coming] = {"cut": "cut", "control_loop": "loop"}
_COPY = "/replicate/"  #: in the name of a constant's copy, after the constant's


@dataclass(frozen=True, slots=True)
class Identity:
    """Of one stage: what came, out of what, and what goes with the next stages.

    `changed` are the client's own nodes that an optimization made into something else.
    """

    coming: Mapping[str, Coming] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    origins: Mapping[str, str] = field(default_factory=dict)
    going: Mapping[str, Going] = field(default_factory=dict)


def identity_of(graph: StageGraph, stages: Mapping[str, Sequence[NodeRow]]) -> Identity:
    """Nodes by their id in the stage; those that nothing happened to are left out."""
    client = _names(stages.get("full", ()))
    coming = {
        name: found for name, row in graph.nodes.items() if (found := how_it_came(row, client))
    }
    changed = frozenset() if graph.stage in ("full", "pruned") else _changed(graph, stages)
    return Identity(coming, changed, _origins(graph, coming), _going(graph, stages))


def how_it_came(row: NodeRow, client: frozenset[str]) -> Coming:
    """`client` are the names of the first stage; where a trace lacks it, none was added."""
    if not client or row.name in client:
        return ""
    if _is_clients_end(row):
        return "client"
    return _BY_REASON.get(row.reason, "pass")


def _is_clients_end(row: NodeRow) -> bool:
    return bool(row.attrs.get("client_terminated")) or row.op in ("_Arg", "_Retval")


def _names(rows: Iterable[NodeRow]) -> frozenset[str]:
    return frozenset(row.name for row in rows)


def _origins(graph: StageGraph, coming: Mapping[str, Coming]) -> dict[str, str]:
    """Added node → the client's node that it grows out of: what it names, else the nearest."""
    near: dict[str, list[str]] = {name: [] for name in graph.nodes}
    for src, dst, _ in graph.flows():
        if src in near and dst in near:
            near[dst].insert(0, src)
            near[src].append(dst)
    answer = {
        name: pair.src
        for pair in graph.pairs
        for name in (pair.send, pair.recv, *pair.carriers)
        if name in coming
    }
    for name in coming.keys() - answer.keys():
        named = _named_origin(graph.nodes[name])
        answer[name] = named or _nearest(name, near, coming)
    return {name: origin for name, origin in answer.items() if origin}


def _named_origin(row: NodeRow) -> str:
    """The placeholder that a feed stands for, the constant that a copy is of."""
    if _is_clients_end(row) and look_of(row).kind == "feed":
        return Input.parse(short_name(row)).node
    return row.name.split(_COPY)[0] if _COPY in row.name else ""


def _nearest(start: str, near: Mapping[str, Sequence[str]], added: Mapping[str, Coming]) -> str:
    seen, pending = {start}, deque([start])
    while pending:
        name = pending.popleft()
        if name not in added:
            return name
        fresh = [other for other in near[name] if other not in seen]
        seen.update(fresh)
        pending.extend(fresh)
    return ""


def _changed(graph: StageGraph, stages: Mapping[str, Sequence[NodeRow]]) -> frozenset[str]:
    """Optimizations run between pruning and the cut; what each node was and takes tells."""
    before = {row.name: (row.op, row.inputs) for row in stages.get("pruned", ())}
    after = {row.name: (row.op, row.inputs) for row in stages.get("placed", ())}
    names = {name for name, was in before.items() if name in after and after[name] != was}
    return frozenset(name for name, row in graph.nodes.items() if row.name in names)


def _going(graph: StageGraph, stages: Mapping[str, Sequence[NodeRow]]) -> dict[str, Going]:
    """Why nodes of this stage are in no later one; a stage that the trace lacks says nothing."""
    later = [stages[s] for s in STAGES[STAGES.index(graph.stage) + 1 :] if s in stages]
    if not later:
        return {}
    following = _names(later[0])
    fed = {_named_origin(row) for row in later[0] if _is_clients_end(row)}
    why: Going = "unneeded" if graph.stage == "full" else "pass"
    return {
        name: "fed" if row.name in fed else why
        for name, row in graph.nodes.items()
        if row.name not in following
    }


# one node in every stage


@dataclass(frozen=True, slots=True)
class StageFact:
    """Stages in which one thing holds: `absent`, `whole`, or `cut` (inputs became pairs)."""

    first: str
    last: str
    state: str
    num_cut: int = 0


def history(stages: Mapping[str, Sequence[NodeRow]], name: str) -> list[StageFact]:
    """What the node was at every stage, equal neighbours joined."""
    facts: list[StageFact] = []
    for stage in STAGES:
        if stage not in stages:
            continue
        state, num_cut = _state(stages[stage], name)
        if facts and (facts[-1].state, facts[-1].num_cut) == (state, num_cut):
            facts[-1] = StageFact(facts[-1].first, stage, state, num_cut)
        else:
            facts.append(StageFact(stage, stage, state, num_cut))
    return facts


def _state(rows: Sequence[NodeRow], name: str) -> tuple[str, int]:
    found = [row for row in rows if row.name == name]
    if not found:
        return "absent", 0
    recvs = {row.name for row in rows if look_of(row).kind == "recv"}
    cut = [text for text in found[0].inputs if input_node(text) in recvs]
    return ("cut", len(cut)) if cut else ("whole", 0)
