"""What one selected thing of a graph is: the facts beside the canvas, as plain values."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracer.model.graph import Input
from tracer.model.graph_table import NodeRow
from vizdist.analysis.node_measures import Measured, StepMeasures
from vizdist.analysis.scopes import ends_of, label_of, parse
from vizdist.figures.graph_folding import FoldNode, Group, groups_with, outer_scopes
from vizdist.figures.graph_frames import iterations_of
from vizdist.figures.graph_identity import Coming, Going, StageFact, history, identity_of
from vizdist.figures.graph_nodes import Look, look_of, short_name
from vizdist.figures.graph_reasons import Why, why_of
from vizdist.figures.graph_stage import PairEdge, StageGraph, device_of
from vizdist.figures.graph_tiles import fold_nodes_of, turning_in

_TURN = re.compile(r";\d+:\d+$")


@dataclass(frozen=True, slots=True)
class InputFact:
    """One data input: the node it comes from, and how.

    `source_box` is set if that is on another device, `over` if it comes through a Recv.
    """

    port: int
    name: str
    label: str
    source_box: str = ""
    over: str = ""
    is_reference: bool = False


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """`origin` is the client's node that an added one grew out of, "" if none is known.

    `scope` is the id of the innermost folded scope that may hold it, "" if none may.
    `arrival` is when the last of its inputs from elsewhere was there, from the start of the step;
    `transfer` how long that one was on its way. Times are ns.
    """

    name: str
    op: str
    look: Look
    box: str
    device: str
    reason: str
    why: Why
    requested: str
    coming: Coming
    changed: bool
    origin: str
    going: Going
    shape: str
    source: str
    measured: Measured
    arrival: int
    transfer: int
    inputs: tuple[InputFact, ...]
    history: tuple[StageFact, ...]
    scope: str


@dataclass(frozen=True, slots=True)
class PairFacts:
    """`num_bytes` as the transport counted them, else what the shape says. `source` is the node.

    `num_uses` inputs take it: so many transfers there would be, did they not share one.
    """

    label: str
    control: bool
    is_cut: bool
    source_box: str
    target_box: str
    send: str
    recv: str
    key: str
    num_bytes: int
    request: int
    wait: int
    transfer: int
    consumers: tuple[str, ...]
    source: str = ""
    num_uses: int = 0


@dataclass(frozen=True, slots=True)
class ScopeFacts:
    """A folded scope: its nodes with op and time, costliest first; how often a loop turned."""

    id: str
    label: str
    box: str
    device: str
    members: tuple[tuple[str, str, int], ...]
    time: int
    iterations: int = 0


@dataclass(frozen=True, slots=True)
class BundleFacts:
    """Pairs between two tiles, largest first; `wait` is the longest of them."""

    source: str
    target: str
    source_box: str
    target_box: str
    control: bool
    num_bytes: int
    wait: int
    pairs: tuple[PairFacts, ...]


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """The whole graph at a stage.

    `num_gone` nodes of the first stage are no more; `largest` are its pairs by bytes, `costliest`
    its nodes by time.
    """

    stage: str
    num_nodes: int
    num_gone: int
    devices: tuple[str, ...]
    num_pairs: int
    num_control: int
    num_bytes: int
    largest: tuple[PairFacts, ...]
    costliest: tuple[tuple[str, str, int], ...]


Facts = NodeFacts | PairFacts | ScopeFacts | BundleFacts | GraphFacts


def facts_of(
    graph: StageGraph,
    stages: Mapping[str, Sequence[NodeRow]],
    measures: StepMeasures,
    selected: Sequence[str],
) -> Facts | None:
    """Facts of the first of some names that this stage knows; of the whole graph if none is asked.

    A name is a node, a folded scope, one end of a pair, a rendezvous key, or a bundle of pairs.
    None: not in this stage.
    """
    if not selected:
        return _graph_facts(graph, stages, measures)
    tiles = set(graph.tiles)
    for name in selected:
        if name in tiles:
            return _node_facts(graph, stages, measures, name)
        for pair in graph.pairs:
            ends = (pair.send, pair.recv, *pair.carriers)
            known = (pair.id, *ends, _of_edge(_key(measures, pair)))
            if _of_edge(name) in known:
                return _pair_facts(graph, measures, pair)
        if scope := _folded_facts(graph, stages, measures, name):
            return scope
    return None


def _measured(measures: StepMeasures, name: str) -> Measured:
    return measures.nodes.get(name, Measured())


def _key(measures: StepMeasures, pair: PairEdge) -> str:
    found = _measured(measures, pair.recv).key or _measured(measures, pair.send).key
    return found or pair.id


def _of_edge(key: str) -> str:
    """A rendezvous key without frame and iteration: all turns of a loop share an edge."""
    return _TURN.sub("", key)


def _node_facts(
    graph: StageGraph,
    stages: Mapping[str, Sequence[NodeRow]],
    measures: StepMeasures,
    name: str,
) -> NodeFacts:
    row = graph.nodes[name]
    identity = identity_of(graph, stages)
    inputs = tuple(_input_facts(graph, name))
    arrivals = [
        (found.start + found.time, found.transfer)
        for fact in inputs
        if fact.over and (found := _measured(measures, fact.over)).runs
    ]
    arrival, transfer = max(arrivals, default=(0, 0))
    return NodeFacts(
        name=row.name,
        op=row.op,
        look=look_of(row),
        box=graph.bands[graph.band_of[name]],
        device=device_of(graph.band_of[name]),
        reason=row.reason,
        why=why_of(graph.nodes, row),
        requested=row.requested_device,
        coming=identity.coming.get(name, ""),
        changed=name in identity.changed,
        origin=identity.origins.get(name, ""),
        going=identity.going.get(name, ""),
        shape=" ".join(f"{dtype} {list(shape)}" for dtype, shape in row.specs[:1]),
        source=row.source,
        measured=_measured(measures, row.name),
        arrival=arrival,
        transfer=transfer,
        inputs=inputs,
        history=tuple(history(stages, row.name)),
        scope=_scope_of(graph, stages, name),
    )


def _scope_of(graph: StageGraph, stages: Mapping[str, Sequence[NodeRow]], name: str) -> str:
    nodes = fold_nodes_of(graph, stages)
    alone = [Group(node.id, "", (node.id,)) for node in nodes if node.id == name]
    return outer_scopes(nodes, alone).get(name, "")


def _input_facts(graph: StageGraph, name: str) -> list[InputFact]:
    row = graph.nodes[name]
    by_end = {pair.recv: pair for pair in graph.pairs if pair.recv}
    facts = []
    data = [text for text in row.inputs if not text.startswith("^")]
    for port, text in enumerate(data):
        source = Input.parse(text).node
        if pair := by_end.get(source):
            origin = pair.src or pair.send or source
            box = graph.bands[pair.src_band]
            facts.append(InputFact(port, origin, pair.label, box, over=source))
            continue
        known = graph.nodes.get(source)
        label = short_name(known) if known else source
        is_reference = known is not None and look_of(known).kind == "variable"
        band = graph.band_of.get(source, "")
        box = graph.bands[band] if band != graph.band_of[name] and band else ""
        facts.append(InputFact(port, source, label, box, is_reference=is_reference))
    return facts


def _pair_facts(graph: StageGraph, measures: StepMeasures, pair: PairEdge) -> PairFacts:
    recv = _measured(measures, pair.recv)
    return PairFacts(
        label=pair.label,
        control=pair.control,
        is_cut=bool(pair.send or pair.recv),
        source_box=graph.bands[pair.src_band],
        target_box=graph.bands[pair.dst_band],
        send=pair.send,
        recv=pair.recv,
        key=recv.key or _measured(measures, pair.send).key,
        num_bytes=0 if pair.control else recv.bytes or pair.num_bytes,
        request=recv.request,
        wait=recv.wait,
        transfer=recv.transfer,
        consumers=tuple(pair.dsts),
        source=pair.src,
        num_uses=pair.num_uses,
    )


def _folded_facts(
    graph: StageGraph,
    stages: Mapping[str, Sequence[NodeRow]],
    measures: StepMeasures,
    name: str,
) -> ScopeFacts | BundleFacts | None:
    """Facts of a folded scope or of what runs between two; both are known by their names alone."""
    nodes = fold_nodes_of(graph, stages)
    if ends := ends_of(name):
        return _bundle_facts(graph, measures, nodes, ends, control=name.endswith(" ^"))
    members = [node.id for node in nodes if name in groups_with(node)]
    if len(members) < 2:
        return None
    band = graph.band_of[members[0]]
    costs = _by_time(graph, measures, members)
    total = sum(time for _, _, time in costs)
    label = label_of(name)
    box, device = graph.bands[band], device_of(band)
    folded = parse(name)
    own = turning_in(nodes, folded.name, members) if folded else []
    turns = iterations_of(graph, own, measures.nodes)
    return ScopeFacts(name, label, box, device, tuple(costs), total, turns)


def _bundle_facts(
    graph: StageGraph,
    measures: StepMeasures,
    nodes: Sequence[FoldNode],
    ends: tuple[str, str],
    *,
    control: bool,
) -> BundleFacts | None:
    source, target = ends
    sources, targets = (
        {node.id for node in nodes if end == node.id or end in groups_with(node)}
        for end in (source, target)
    )
    held = [
        pair
        for pair in graph.pairs
        if pair.control == control and pair.src in sources and targets & set(pair.dsts[:1])
    ]
    if not held:
        return None
    pairs = sorted(
        (_pair_facts(graph, measures, pair) for pair in held), key=lambda pair: -pair.num_bytes
    )
    return BundleFacts(
        source=label_of(source),
        target=label_of(target),
        source_box=pairs[0].source_box,
        target_box=pairs[0].target_box,
        control=control,
        num_bytes=sum(pair.num_bytes for pair in pairs),
        wait=max(pair.wait for pair in pairs),
        pairs=tuple(pairs),
    )


def _by_time(
    graph: StageGraph, measures: StepMeasures, names: Sequence[str]
) -> list[tuple[str, str, int]]:
    rows = [(name, graph.nodes[name]) for name in names]
    found = [(name, row.op, _measured(measures, row.name).time) for name, row in rows]
    return sorted(found, key=lambda item: -item[2])


def _graph_facts(
    graph: StageGraph,
    stages: Mapping[str, Sequence[NodeRow]],
    measures: StepMeasures,
    most: int = 6,
) -> GraphFacts:
    pairs = [_pair_facts(graph, measures, pair) for pair in graph.pairs]
    cut = [pair for pair in pairs if pair.is_cut]
    full = {row.name for row in stages.get("full", ())}
    largest = sorted((p for p in cut if not p.control), key=lambda p: -p.num_bytes)
    costliest = [item for item in _by_time(graph, measures, graph.tiles) if item[2] > 0]
    return GraphFacts(
        stage=graph.stage,
        num_nodes=len(graph.nodes),
        num_gone=len(full - {row.name for row in graph.nodes.values()}),
        devices=tuple(band for band in graph.bands if band),
        num_pairs=len(pairs),
        num_control=sum(pair.control for pair in cut),
        num_bytes=sum(pair.num_bytes for pair in cut),
        largest=tuple(largest[:most]),
        costliest=tuple(costliest[:most]),
    )
