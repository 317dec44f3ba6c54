"""The tiles of one stage: which nodes share one, what it is called, where along x it may stand."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tracer.model.graph import CONTROL_LOOP
from tracer.model.graph_table import NodeRow
from vizdist.analysis.node_measures import NOTHING_MEASURED, StepMeasures
from vizdist.analysis.scopes import FRAME, label_of, parse, scope_label, scope_of, shared_scope
from vizdist.figures.graph_bundles import Bundle, Held, bundles_of, links_of, placed_pair, tag_links
from vizdist.figures.graph_folding import AS_IT_OPENS, MOST_DEPTH, Choice, FoldNode, Group, fold
from vizdist.figures.graph_frames import frames_of
from vizdist.figures.graph_labels import told_apart
from vizdist.figures.graph_layout import Sketch
from vizdist.figures.graph_nodes import phases_of, short_name, text_width
from vizdist.figures.graph_ranks import dataflow_order
from vizdist.figures.graph_shapes import LABEL_LIMIT, TILE, Link, Pair, Tile
from vizdist.figures.graph_stage import StageGraph, read_stage

LATE_KINDS = ("variable", "read", "feed")
_NAMED_APART = ("const", "feed", "fetch")  #: alike by the dozen, or called by what they are


@dataclass(frozen=True)
class StageTiles:
    """A stage with its nodes put into tiles, and its edges between those; `late` as _late_tiles.

    `depth` is that of the scopes of ops that stayed apart.
    """

    graph: StageGraph
    phases: Mapping[str, str]
    nodes: Sequence[FoldNode]
    groups: Sequence[Group]
    depth: int
    tile_of: Mapping[str, str]
    late: Mapping[str, bool]

    @cached_property
    def labels(self) -> dict[str, str]:
        """Told apart within each box, as far as their names differ; constants are not."""
        found = {group.id: _label(self.graph, group) for group in self.groups}
        for groups in self._by_box.values():
            names = [(found[group.id], _path(self.graph, group)) for group in groups]
            found |= zip([group.id for group in groups], told_apart(names), strict=True)
        return found

    @cached_property
    def roles(self) -> dict[str, str]:
        """Of tiles whose label another one of their box has too: what family they are of."""
        found: dict[str, str] = {}
        for groups in self._by_box.values():
            count = Counter(self.labels[group.id] for group in groups)
            alike = [group for group in groups if count[self.labels[group.id]] > 1]
            found |= {group.id: _role(self.graph, group) for group in alike}
        return found

    @cached_property
    def _by_box(self) -> dict[str, list[Group]]:
        found: dict[str, list[Group]] = defaultdict(list)
        for group in self.groups:
            first = group.members[0]
            if self.graph.looks[first].kind not in _NAMED_APART:
                found[self.graph.bands[self.graph.band_of[first]]].append(group)
        return found

    @cached_property
    def widths(self) -> dict[str, float]:
        return {g.id: _label_width(self.graph, g, self._written(g.id)) for g in self.groups}

    def _written(self, tile: str) -> str:
        role = self.roles.get(tile, "")
        return f"{self.labels[tile]} · {role}" if role else self.labels[tile]

    @cached_property
    def bundles(self) -> list[Bundle]:
        folded = [group.id for group in self.groups if group.is_folded]
        return bundles_of(self.graph.pairs, self.tile_of, folded)

    @cached_property
    def pairs(self) -> list[Pair]:
        return [placed_pair(bundle, self.phases) for bundle in self.bundles]

    @cached_property
    def links(self) -> tuple[list[Link], dict[tuple[str, str], Held]]:
        """The edges between tiles, and what they and those to the tags of pairs hold."""
        links, held = links_of(self.graph, self.graph.edges, self.tile_of)
        return links, held | tag_links(self.bundles, self.tile_of)

    @property
    def sketch(self) -> Sketch:
        tiles = [_tile(self, group) for group in self.groups]
        return Sketch(tiles, self.links[0], self.pairs, self.graph.bands)


def tiles_of(
    stages: Mapping[str, Sequence[NodeRow]],
    stage: str,
    measures: StepMeasures = NOTHING_MEASURED,
    choice: Choice = AS_IT_OPENS,
) -> StageTiles:
    """KeyError if the trace does not hold the stage."""
    graph = read_stage(stage, stages[stage], measures.master)
    phases = phases_in(graph, stages)
    nodes = _fold_nodes(graph, phases)
    groups, depth = fold(nodes, choice)
    tile_of = {name: group.id for group in groups for name in group.members}
    groups = _in_dataflow_order(graph, groups, tile_of)
    late = _late_tiles(graph, groups, tile_of, phases)
    return StageTiles(graph, phases, nodes, groups, depth, tile_of, late)


def phases_in(
    graph: StageGraph, stages: Mapping[str, Sequence[NodeRow]] | None = None
) -> dict[str, str]:
    """Phase of every tile. The client's whole graph does not say what is fetched; pruning does."""
    tiles = {name: graph.nodes[name] for name in graph.tiles}
    phases = phases_of(tiles, ((edge.src, edge.dst) for edge in graph.flows()))
    if graph.stage == "full" and stages and "pruned" in stages:
        pruned = phases_in(read_stage("pruned", stages["pruned"]))
        phases |= {name: pruned[name] for name in phases if name in pruned}
    return phases


def fold_nodes_of(graph: StageGraph, stages: Mapping[str, Sequence[NodeRow]]) -> list[FoldNode]:
    """The nodes of a stage as folding sees them, in dataflow order."""
    return _fold_nodes(graph, phases_in(graph, stages))


def _fold_nodes(graph: StageGraph, phases: Mapping[str, str]) -> list[FoldNode]:
    flows = [(edge.src, edge.dst) for edge in graph.flows()]
    order = dataflow_order(graph.tiles, flows)
    frames = frames_of(graph)
    return [
        FoldNode(
            name,
            graph.band_of[name],
            phases[name],
            graph.looks[name].kind,
            place,
            graph.nodes[name].op,
            frames.get(name, ()),
        )
        for place, name in enumerate(order)
    ]


def _in_dataflow_order(
    graph: StageGraph, groups: Sequence[Group], tile_of: Mapping[str, str]
) -> list[Group]:
    found = {group.id: group for group in groups}
    flows = ((edge.src, edge.dst) for edge in graph.flows())
    known = {(tile_of[a], tile_of[b]) for a, b in flows if a in tile_of and b in tile_of}
    return [found[name] for name in dataflow_order(list(found), known)]


def _tile(stage: StageTiles, group: Group) -> Tile:
    """A late tile as such; one that writes has no consumer to stand before and follows."""
    first = group.members[0]
    band = stage.graph.band_of[first]
    tile = Tile(
        group.id,
        stage.graph.bands[band],
        band,
        label_width=stage.widths[group.id],
        is_backward=stage.phases[first] == "backward",
    )
    if group.id not in stage.late:
        return tile
    writes = stage.late[group.id]
    return replace(tile, follows=writes, late=not writes)


def is_loop(group: Group) -> bool:
    folded = parse(group.id)
    return group.is_folded and folded is not None and folded.family == FRAME


def turning_in(nodes: Iterable[FoldNode], scope: str, members: Container[str]) -> list[str]:
    """Those of a folded loop that turn in it, not in one within."""
    return [n.id for n in nodes if n.frames[-1:] == (scope,) and n.id in members]


def _label_width(graph: StageGraph, group: Group, text: str) -> float:
    if graph.looks[group.members[0]].kind in ("feed", "fetch"):
        text = f"fetch {text}"  # the canvas says which it is
    if is_loop(group):
        text = max(text, "99 iterations", key=len)  # stands below
    return min(LABEL_LIMIT, max(TILE, text_width(text)))


def _label(graph: StageGraph, group: Group) -> str:
    if is_loop(group):
        return label_of(group.id)
    if group.is_folded:
        scopes = [scope_of(name, MOST_DEPTH) for name in group.members]
        return scope_label(shared_scope(scopes))
    return short_name(graph.nodes[group.members[0]])


def _path(graph: StageGraph, group: Group) -> str:
    """What a label is short for; a read is called after its variable."""
    if group.is_folded:
        folded = parse(group.id)
        scopes = [scope_of(name, MOST_DEPTH) for name in group.members]
        return folded.name if folded and is_loop(group) else shared_scope(scopes)
    name = graph.nodes[group.members[0]].name
    if name.startswith(CONTROL_LOOP):  # named after an edge that it is not about
        return short_name(graph.nodes[group.members[0]])
    is_read = graph.looks[group.members[0]].kind == "read"
    return name.removesuffix("/Read").removesuffix("/read") if is_read else name


def _role(graph: StageGraph, group: Group) -> str:
    folded = parse(group.id) if group.is_folded else None
    if folded is not None:
        return folded.family
    return "read" if graph.looks[group.members[0]].kind == "read" else ""


def _late_tiles(
    graph: StageGraph,
    groups: Sequence[Group],
    tile_of: Mapping[str, str],
    phases: Mapping[str, str],
) -> dict[str, bool]:
    """Variables, reads, feeds, and ops that nothing fed reaches; whether each of them writes.

    These are made of constants alone, or beyond the forward pass of variables (what an optimizer
    does with its step count).
    """
    late: set[str] = set()
    constant: set[str] = set()
    settled: set[str] = set()
    inputs: dict[str, list[str]] = {group.id: [] for group in groups}
    for src, dst, _ in graph.flows():
        if src in tile_of and dst in tile_of and tile_of[src] != tile_of[dst]:
            inputs[tile_of[dst]].append(tile_of[src])
    for group in groups:
        kinds = {graph.looks[name].kind for name in group.members}
        known = constant if phases[group.members[0]] == "forward" else settled
        made = kinds == {"const"} or (inputs[group.id] and kinds <= {"const", "compute", "update"})
        if kinds <= set(LATE_KINDS):
            late.add(group.id)
            settled |= set() if "feed" in kinds else {group.id}
        elif made and known.issuperset(inputs[group.id]):
            settled.add(group.id)
            constant |= {group.id} if constant.issuperset(inputs[group.id]) else set()
    kind_of = {group.id: graph.looks[group.members[0]].kind for group in groups}
    return {name: kind_of[name] == "update" for name in late | settled}
