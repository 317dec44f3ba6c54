"""A graph at one stage, laid out, with what a step measured: the payload of the graph canvas.

Rows of the trace's node table and measurements in, plain JSON values out.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from tracer.model.graph_table import STAGES, NodeRow
from vizdist.analysis.node_measures import NOTHING_MEASURED, Measured, StepMeasures
from vizdist.figures.graph_folding import FOLDABLE, MOST_DEPTH, FoldNode, Group, fold, group_id
from vizdist.figures.graph_layout import lay_out
from vizdist.figures.graph_nodes import (
    PHASES,
    phases_of,
    scope_of,
    shared_scope,
    short_name,
    text_width,
)
from vizdist.figures.graph_ranks import dataflow_order, phase_spans
from vizdist.figures.graph_shapes import LABEL_LIMIT, TILE, Layout, Link, Pair, Tile
from vizdist.figures.graph_stage import Edge, PairEdge, StageGraph, device_of, read_stage

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
    opened: Set[str] = frozenset(),
) -> Json:
    """Everything the canvas draws of one stage. KeyError if the trace does not hold the stage."""
    graph = read_stage(stage, stages[stage], measures.master)
    phases = _phases(graph, stages)
    groups, depth = _fold(graph, phases, opened)
    tile_of = {name: group.id for group in groups for name in group.members}
    labels = {group.id: _label(graph, group) for group in groups}
    widths = {group.id: _label_width(graph, group, labels[group.id]) for group in groups}
    tiles = [_tile(graph, group, phases, widths[group.id]) for group in groups]
    late = _late_tiles(graph, groups, tile_of)
    tiles = [tile if tile.id not in late else _as_late(tile) for tile in tiles]
    pairs = [_pair(pair, tile_of, phases) for pair in graph.pairs]
    links = _links(graph.edges, tile_of)
    layout = lay_out(tiles, links, pairs, graph.bands)
    frames = _Frames(graph, phases, min(depth, 2))
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
        "tiles": [_tile_json(graph, layout, g, labels[g.id], widths[g.id]) for g in groups],
        "nodes": _nodes(graph, tile_of, phases, frames, measures),
        "frames": frames.rows,
        "links": [
            {"src": r.src, "dst": r.dst, "control": r.control, "points": _points(r.points)}
            for r in layout.routes
        ],
        "wires": _wires(graph, pairs, layout, measures),
        "nodeCount": len(graph.nodes),
    }


def groups_of(graph: StageGraph, stages: Mapping[str, Sequence[NodeRow]]) -> list[Group]:
    """The tiles of a stage while no scope is opened: nodes and folded scopes."""
    return _fold(graph, _phases(graph, stages), frozenset())[0]


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


def _fold(
    graph: StageGraph, phases: Mapping[str, str], opened: Set[str]
) -> tuple[list[Group], int]:
    """Tiles in dataflow order, and the depth of scopes that stayed apart."""
    flows = [(edge.src, edge.dst) for edge in graph.flows()]
    place = {name: i for i, name in enumerate(dataflow_order(graph.tiles, flows))}
    nodes = [
        FoldNode(
            name,
            graph.band_of[name],
            phases[name],
            graph.looks[name].kind,
            place[name],
        )
        for name in place
    ]
    groups, depth = fold(nodes, opened)
    tile_of = {name: group.id for group in groups for name in group.members}
    found = {group.id: group for group in groups}
    known = {(tile_of[a], tile_of[b]) for a, b in flows if a in tile_of and b in tile_of}
    return [found[name] for name in dataflow_order(list(found), known)], depth


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
        return shared_scope(scopes).rsplit("/", 1)[-1]
    return short_name(graph.nodes[group.members[0]])


def _late_tiles(graph: StageGraph, groups: Sequence[Group], tile_of: Mapping[str, str]) -> set[str]:
    """Variables, reads, feeds, and whatever is made of constants alone."""
    late = set()
    constant = set()
    inputs: dict[str, list[str]] = {group.id: [] for group in groups}
    for src, dst, _ in graph.flows():
        if src in tile_of and dst in tile_of and tile_of[src] != tile_of[dst]:
            inputs[tile_of[dst]].append(tile_of[src])
    for group in groups:
        kinds = {graph.looks[name].kind for name in group.members}
        made = kinds == {"const"} or (inputs[group.id] and kinds <= {"const", "compute"})
        if kinds <= set(LATE_KINDS):
            late.add(group.id)
        elif made and all(src in constant for src in inputs[group.id]):
            constant.add(group.id)
    return late | constant


def _as_late(tile: Tile) -> Tile:
    return Tile(tile.id, tile.box, tile.band, tile.label_width, True, tile.is_backward)


def _pair(pair: PairEdge, tile_of: Mapping[str, str], phases: Mapping[str, str]) -> Pair:
    dsts = tuple(dict.fromkeys(tile_of[dst] for dst in pair.dsts if dst in tile_of))
    return Pair(
        pair.id,
        tile_of.get(pair.src, ""),
        dsts,
        pair.src_band,
        pair.dst_band,
        pair.num_bytes,
        pair.control,
        by_right_gutter=phases.get(pair.src) not in ("read", "forward"),
    )


def _links(edges: Iterable[Edge], tile_of: Mapping[str, str]) -> list[Link]:
    """Edges between tiles: once each, as data where there is data; none inside a folded scope."""
    found: dict[tuple[str, str], bool] = {}
    for edge in edges:
        ends = tile_of[edge.src], tile_of[edge.dst]
        if ends[0] != ends[1]:
            found[ends] = found.get(ends, True) and edge.control
    return [Link(src, dst, control) for (src, dst), control in found.items()]


# JSON


def _area(box: Any) -> Json:
    return {
        "x": round(box.x, 1),
        "y": round(box.y, 1),
        "w": round(box.width, 1),
        "h": round(box.height, 1),
    }


def _points(points: Iterable[tuple[float, float]]) -> list[list[float]]:
    return [[round(x, 1), round(y, 1)] for x, y in points]


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
    layout: Layout, groups: Sequence[Group], phases: Mapping[str, str], late: Set[str]
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
    members["read"] = list(range(first))
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
        scope = scope_of(name, self._depth) if kind in FOLDABLE else ""
        key = group_id(scope or kind, band, phase)
        if key not in self._index:
            self._index[key] = len(self.rows)
            box = self._graph.bands[band]
            label = scope.rsplit("/", 1)[-1]
            self.rows.append({"id": key, "box": box, "phase": phase, "label": label, "kind": kind})
        return self._index[key]


def _nodes(
    graph: StageGraph,
    tile_of: Mapping[str, str],
    phases: Mapping[str, str],
    frames: _Frames,
    measures: StepMeasures,
) -> list[Json]:
    """Nodes in tiles, in dataflow order within a tile; ends of pairs are in the wires."""
    answer = []
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
                "wait": found.queueing,
                "bytes": found.bytes or row.bytes,
                "span": found.span,
            }
        )
    return answer


def _shape(row: NodeRow) -> str:
    if not row.specs:
        return ""
    dtype, shape = row.specs[0]
    return f"{dtype} [{', '.join(map(str, shape))}]"


def _wires(
    graph: StageGraph, pairs: Sequence[Pair], layout: Layout, measures: StepMeasures
) -> list[Json]:
    answer = []
    for pair, placed, wire in zip(graph.pairs, pairs, layout.wires, strict=True):
        found = [measures.nodes.get(name, Measured()) for name in (pair.send, pair.recv)]
        answer.append(
            {
                "id": pair.id,
                "send": pair.send,
                "recv": pair.recv,
                "src": pair.src,
                "dsts": pair.dsts,
                "from": graph.bands[pair.src_band],
                "to": graph.bands[pair.dst_band],
                "label": pair.label,
                "control": pair.control,
                "isRead": not placed.by_right_gutter,
                "isPair": bool(pair.send or pair.recv),
                "bytes": 0 if pair.control else max(found[1].bytes, 0) or pair.num_bytes,
                "wait": found[1].wait,
                "time": max(0, found[1].time - found[1].wait),
                "spans": [m.span for m in found],
                "key": found[1].key or found[0].key,
                "points": _points(wire.points),
                "ways": list(wire.ways),
            }
        )
    return answer
