"""A graph at one stage, laid out, with what a step measured: the payload of the graph canvas.

Rows of the trace's node table and measurements in, plain JSON values out.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tracer.model.graph_table import STAGES, NodeRow
from vizdist.analysis.node_measures import NOTHING_MEASURED, Measured, StepMeasures
from vizdist.analysis.scopes import group_id, label_of, scope_label, scope_of, shared_scope
from vizdist.figures.graph_bundles import (
    Held,
    bundles_of,
    links_of,
    placed_pair,
    tag_links,
    wires_json,
)
from vizdist.figures.graph_folding import (
    AS_IT_OPENS,
    MOST_DEPTH,
    OPS,
    Choice,
    FoldNode,
    Group,
    fold,
    groups_with,
    outer_scopes,
)
from vizdist.figures.graph_layout import lay_out
from vizdist.figures.graph_nodes import (
    PHASES,
    phases_of,
    short_name,
    text_width,
)
from vizdist.figures.graph_ranks import dataflow_order, phase_spans
from vizdist.figures.graph_shapes import LABEL_LIMIT, TILE, Layout, Route, Tile
from vizdist.figures.graph_stage import StageGraph, device_of, read_stage

Json = dict[str, Any]
LATE_KINDS = ("variable", "read", "feed")


def stage_counts(stages: Mapping[str, Sequence[NodeRow]]) -> list[Json]:
    """For every stage that the trace holds: nodes, pairs, devices, nodes the client put in."""
    return [_counts(read_stage(stage, stages[stage])) for stage in STAGES if stage in stages]


def _counts(graph: StageGraph) -> Json:
    looks = [graph.looks[name].kind for name in graph.nodes]
    return {
        "stage": graph.stage,
        "nodes": len(graph.nodes),
        "pairs": len(graph.pairs) if graph.is_cut else 0,
        "devices": len([band for band in graph.bands if band]),
        "client": sum(
            1
            for kind, row in zip(looks, graph.nodes.values(), strict=True)
            if kind in ("feed", "fetch") and row.attrs.get("client_terminated")
        ),
    }


def graph_payload(
    stages: Mapping[str, Sequence[NodeRow]],
    stage: str,
    measures: StepMeasures = NOTHING_MEASURED,
    choice: Choice = AS_IT_OPENS,
) -> Json:
    """Everything the canvas draws of one stage. KeyError if the trace does not hold the stage."""
    graph = read_stage(stage, stages[stage], measures.master)
    phases = _phases(graph, stages)
    nodes = fold_nodes(graph, phases)
    groups, depth = fold(nodes, choice)
    tile_of = {name: group.id for group in groups for name in group.members}
    groups = _in_dataflow_order(graph, groups, tile_of)
    labels = {group.id: _label(graph, group) for group in groups}
    widths = {group.id: _label_width(graph, group, labels[group.id]) for group in groups}
    tiles = [_tile(graph, group, phases, widths[group.id]) for group in groups]
    late = _late_tiles(graph, groups, tile_of, phases)
    tiles = [_moved(tile, late) for tile in tiles]
    folded = [group.id for group in groups if group.is_folded]
    bundles = bundles_of(graph.pairs, tile_of, folded)
    pairs = [placed_pair(bundle, phases) for bundle in bundles]
    links, held = links_of(graph, graph.edges, tile_of)
    layout = lay_out(tiles, links, pairs, graph.bands)
    frames = _Frames(graph, phases, min(depth, 2))
    outer = outer_scopes(nodes, groups)
    held |= tag_links(bundles, tile_of)
    return {
        "stage": stage,
        "isCut": graph.is_cut,
        "width": round(layout.width, 1),
        "height": round(layout.height, 1),
        "boxes": _boxes(graph, layout, measures),
        "bands": [
            {"id": b.id, "box": b.box, "name": device_of(b.id), **_area(b)} for b in layout.bands
        ],
        "phases": _brackets(layout, groups, phases, late),
        "tiles": [
            _tile_json(graph, layout, g, labels[g.id], widths[g.id]) | {"within": outer[g.id]}
            for g in groups
        ],
        "nodes": _nodes(graph, tile_of, phases, frames, measures),
        "frames": frames.rows,
        "opened": _opened(nodes, choice),
        "links": [_link_json(route, held) for route in layout.routes],
        "wires": wires_json(graph, bundles, pairs, layout.wires, measures),
        "nodeCount": len(graph.nodes),
    }


def _phases(
    graph: StageGraph, stages: Mapping[str, Sequence[NodeRow]] | None = None
) -> dict[str, str]:
    """Phase of every tile. The client's whole graph does not say what is fetched; pruning does."""
    tiles = {name: graph.nodes[name] for name in graph.tiles}
    phases = phases_of(tiles, ((edge.src, edge.dst) for edge in graph.flows()))
    if graph.stage == "full" and stages and "pruned" in stages:
        pruned = _phases(read_stage("pruned", stages["pruned"]))
        phases |= {name: pruned[name] for name in phases if name in pruned}
    return phases


def fold_nodes_of(graph: StageGraph, stages: Mapping[str, Sequence[NodeRow]]) -> list[FoldNode]:
    """The nodes of a stage as folding sees them, in dataflow order."""
    return fold_nodes(graph, _phases(graph, stages))


def fold_nodes(graph: StageGraph, phases: Mapping[str, str]) -> list[FoldNode]:
    flows = [(edge.src, edge.dst) for edge in graph.flows()]
    order = dataflow_order(graph.tiles, flows)
    return [
        FoldNode(
            name,
            graph.band_of[name],
            phases[name],
            graph.looks[name].kind,
            place,
            graph.nodes[name].op,
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


def _opened(nodes: Sequence[FoldNode], choice: Choice) -> list[Json]:
    """The scopes that whoever looks has opened and this stage holds, with how they are called."""
    held = {name: node for node in nodes for name in groups_with(node) if name in choice.opened}
    return [
        {"id": name, "label": label_of(name), "family": node.family} for name, node in held.items()
    ]


def _tile(graph: StageGraph, group: Group, phases: Mapping[str, str], label_width: float) -> Tile:
    first = group.members[0]
    band = graph.band_of[first]
    return Tile(
        group.id,
        graph.bands[band],
        band,
        label_width=label_width,
        is_backward=phases[first] == "backward",
    )


def _label_width(graph: StageGraph, group: Group, text: str) -> float:
    if graph.looks[group.members[0]].kind in ("feed", "fetch"):
        text = f"fetch {text}"  # the canvas says which it is
    return min(LABEL_LIMIT, max(TILE, text_width(text)))


def _label(graph: StageGraph, group: Group) -> str:
    if group.is_folded:
        scopes = [scope_of(name, MOST_DEPTH) for name in group.members]
        return scope_label(shared_scope(scopes))
    return short_name(graph.nodes[group.members[0]])


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


def _moved(tile: Tile, late: Mapping[str, bool]) -> Tile:
    """A late tile as such; one that writes has no consumer to stand before and follows."""
    if tile.id not in late:
        return tile
    return replace(tile, follows=late[tile.id], late=not late[tile.id])


# JSON


def _area(box: Any) -> Json:
    return {
        "x": round(box.x, 1),
        "y": round(box.y, 1),
        "w": round(box.width, 1),
        "h": round(box.height, 1),
    }


def _link_json(route: Route, held: Mapping[tuple[str, str], Held]) -> Json:
    inside = held.get((route.src, route.dst), Held())
    return {
        "src": route.src,
        "dst": route.dst,
        "control": route.control,
        "count": inside.number,
        "bytes": inside.bytes,
        "points": [[round(x, 1), round(y, 1)] for x, y in route.points],
    }


def _boxes(graph: StageGraph, layout: Layout, measures: StepMeasures) -> list[Json]:
    counts: dict[str, int] = {}
    for name in graph.nodes:
        box = graph.bands[graph.band_of[name]]
        counts[box] = counts.get(box, 0) + 1
    return [
        {
            "id": box.id,
            **_area(box),
            "nodes": counts.get(box.id, 0),
            "busy": measures.busy.get(box.id),
            "isMaster": box.id == measures.master,
            "devices": [device_of(b.id) for b in layout.bands if b.box == box.id],
        }
        for box in layout.boxes
    ]


def _brackets(
    layout: Layout, groups: Sequence[Group], phases: Mapping[str, str], late: Container[str]
) -> list[Json]:
    """Phases as x ranges; none for a graph that has only one.

    Late tiles stand beside whom they serve, so only the others tell where a phase is; reading is
    what comes before all of those.
    """
    members: dict[str, list[int]] = {}
    for group in groups:
        if group.id not in late:
            column = layout.tiles[group.id].column
            members.setdefault(phases[group.members[0]], []).append(column)
    first = min(map(min, members.values()), default=0)
    members["read"] = list(range(first)) if "read" in phases.values() else []
    present = [phase for phase in PHASES if members.get(phase)]
    if len(present) < 2:
        return []
    spans = phase_spans(present, members, len(layout.columns))
    half = TILE / 2
    return [
        {"phase": p, "x0": layout.columns[a] - half, "x1": layout.columns[b] + half}
        for p, a, b in spans
    ]


def _tile_json(
    graph: StageGraph, layout: Layout, group: Group, label: str, label_width: float
) -> Json:
    placed = layout.tiles[group.id]
    looks = [graph.looks[name] for name in group.members]
    look = next((look for look in looks if look.kind == "compute"), looks[0])
    return {
        "id": group.id,
        "band": graph.band_of[group.members[0]],
        "x": round(placed.x, 1),
        "y": round(placed.y, 1),
        "label": label,
        "kind": look.kind,
        "room": round(label_width + 6, 1),
        "glyph": str(len(group.members)) if group.is_folded else look.glyph,
        "count": len(group.members),
    }


class _Frames:
    """Scopes of the overview: where a node is a square in the frame of its scope."""

    def __init__(self, graph: StageGraph, phases: Mapping[str, str], depth: int) -> None:
        self.rows: list[Json] = []
        self._index: dict[str, int] = {}
        self._graph = graph
        self._phases = phases
        self._depth = depth

    def of(self, name: str) -> int:
        band, phase = self._graph.band_of[name], self._phases.get(name, "")
        kind = self._graph.looks[name].kind
        scope = scope_of(name, self._depth) if kind in OPS else ""
        key = group_id(scope or kind, band, phase)
        if key not in self._index:
            self._index[key] = len(self.rows)
            box = self._graph.bands[band]
            label = scope_label(scope)
            self.rows.append({"id": key, "box": box, "phase": phase, "label": label, "kind": kind})
        return self._index[key]


def _nodes(
    graph: StageGraph,
    tile_of: Mapping[str, str],
    phases: Mapping[str, str],
    frames: _Frames,
    measures: StepMeasures,
) -> list[Json]:
    """Nodes in tiles, in dataflow order within a tile; ends of pairs are in the wires.

    A node waits until the last of its values from elsewhere exists, and then to be run.
    """
    answer = []
    waits = _recv_waits(graph, measures)
    for name in graph.tiles:
        row, look = graph.nodes[name], graph.looks[name]
        found = measures.nodes.get(row.name, Measured())
        answer.append(
            {
                "id": name,
                "op": row.op,
                "kind": look.kind,
                "tile": tile_of[name],
                "frame": frames.of(name),
                "phase": phases[name],
                "shape": _shape(row),
                "box": graph.bands[graph.band_of[name]],
                "device": device_of(graph.band_of[name]),
                "reason": row.reason,
                "time": found.time,
                "wait": waits.get(name, 0) + found.queueing,
                "queueing": found.queueing,
                "bytes": found.bytes,
                "span": found.span,
            }
        )
    return answer


def _recv_waits(graph: StageGraph, measures: StepMeasures) -> dict[str, int]:
    """How long the Recvs of a node waited for values that did not exist; the longest of them."""
    waits: dict[str, int] = {}
    for pair in graph.pairs:
        wait = measures.nodes.get(pair.recv, Measured()).wait
        for dst in pair.dsts:
            waits[dst] = max(wait, waits.get(dst, 0))
    return waits


def _shape(row: NodeRow) -> str:
    if not row.specs:
        return ""
    dtype, shape = row.specs[0]
    return f"{dtype} [{', '.join(map(str, shape))}]"
