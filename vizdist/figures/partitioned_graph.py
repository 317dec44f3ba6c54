"""A graph at one stage, laid out, with what a step measured: the payload of the graph canvas.

Rows of the trace's node table and measurements in, plain JSON values out.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from tracer.model.graph_table import STAGES, NodeRow
from vizdist.analysis.node_measures import NOTHING_MEASURED, Measured, StepMeasures
from vizdist.analysis.scopes import group_id, label_of, scope_label, scope_of
from vizdist.figures.graph_bundles import Held, wires_json
from vizdist.figures.graph_folding import AS_IT_OPENS, OPS, Choice, Group, levels_of, outer_scopes
from vizdist.figures.graph_frames import iterations_of
from vizdist.figures.graph_identity import Identity, identity_of
from vizdist.figures.graph_layout import lay_out_together
from vizdist.figures.graph_nodes import PHASES
from vizdist.figures.graph_ranks import phase_spans
from vizdist.figures.graph_reasons import why_of
from vizdist.figures.graph_shapes import TILE, Layout, Route
from vizdist.figures.graph_squeeze import squeezed
from vizdist.figures.graph_stage import StageGraph, device_of, read_stage
from vizdist.figures.graph_tiles import StageTiles, is_loop, tiles_of, turning_in

Json = dict[str, Any]


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
    return graph_payloads(stages, [stage], measures, choice)[0]


def graph_payloads(
    stages: Mapping[str, Sequence[NodeRow]],
    wanted: Sequence[str],
    measures: StepMeasures = NOTHING_MEASURED,
    choice: Choice = AS_IT_OPENS,
) -> list[Json]:
    """The same of several stages over one another: what is in all of them has one x."""
    found = [tiles_of(stages, stage, measures, choice) for stage in wanted]
    layouts = lay_out_together([one.sketch for one in found])
    if len(layouts) > 1:
        layouts = [squeezed(layout) for layout in layouts]
    return [
        _payload(one, layout, identity_of(one.graph, stages), measures, choice)
        for one, layout in zip(found, layouts, strict=True)
    ]


def two_stages(held: Sequence[str], chosen: str) -> tuple[str, str]:
    """The chosen stage below the one before it; of the first the one after; "" where none is."""
    at = max(1, held.index(chosen))
    return (held[at - 1], held[at]) if len(held) > 1 else ("", chosen)


def _payload(
    stage: StageTiles, layout: Layout, identity: Identity, measures: StepMeasures, choice: Choice
) -> Json:
    graph = stage.graph
    frames = _Frames(graph, stage.phases, min(stage.depth, 2))
    outer = outer_scopes(stage.nodes, stage.groups)
    held = stage.links[1]
    return {
        "stage": graph.stage,
        "isCut": graph.is_cut,
        "width": round(layout.width, 1),
        "height": round(layout.height, 1),
        "boxes": _boxes(graph, layout, measures),
        "bands": [
            {"id": b.id, "box": b.box, "name": device_of(b.id), **_area(b)} for b in layout.bands
        ],
        "phases": _brackets(layout, stage.groups, stage.phases, stage.late),
        "tiles": [
            _tile_json(stage, layout, g, measures) | {"within": outer[g.id]} for g in stage.groups
        ],
        "nodes": _nodes(stage, frames, identity, measures),
        "frames": frames.rows,
        "opened": _opened(stage, choice),
        "links": [_link_json(route, held) for route in layout.routes],
        "wires": wires_json(graph, stage.bundles, stage.pairs, layout.wires, measures),
        "nodeCount": len(graph.nodes),
    }


def _opened(stage: StageTiles, choice: Choice) -> list[Json]:
    """The scopes that whoever looks has opened and this stage holds, with how they are called."""
    held = {
        key: level.family
        for node in stage.nodes
        for level in levels_of(node)
        if (key := level.key(node.band)) in choice.opened
    }
    return [{"id": name, "label": label_of(name), "family": held[name]} for name in held]


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


def _tile_json(stage: StageTiles, layout: Layout, group: Group, measures: StepMeasures) -> Json:
    placed = layout.tiles[group.id]
    looks = [stage.graph.looks[name] for name in group.members]
    look = next((look for look in looks if look.kind == "compute"), looks[0])
    return {
        "id": group.id,
        "band": stage.graph.band_of[group.members[0]],
        "x": round(placed.x, 1),
        "y": round(placed.y, 1),
        "label": stage.labels[group.id],
        "role": stage.roles.get(group.id, ""),
        "kind": look.kind,
        "room": round(stage.widths[group.id] + 6, 1),
        "glyph": str(len(group.members)) if group.is_folded else look.glyph,
        "count": len(group.members),
        "iterations": _iterations(stage, group, measures),
    }


def _iterations(stage: StageTiles, group: Group, measures: StepMeasures) -> int:
    """Of a folded loop, how often it turned in the step; 0 for all else."""
    if not is_loop(group):
        return 0
    own = turning_in(stage.nodes, group.scope, group.members)
    return iterations_of(stage.graph, own, measures.nodes)


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
    stage: StageTiles, frames: _Frames, identity: Identity, measures: StepMeasures
) -> list[Json]:
    """Nodes in tiles, in dataflow order within a tile; ends of pairs are in the wires.

    A node waits until the last of its values from elsewhere exists, and then to be run.
    """
    answer = []
    graph = stage.graph
    waits = _recv_waits(graph, measures)
    for name in graph.tiles:
        row = graph.nodes[name]
        found = measures.nodes.get(row.name, Measured())
        answer.append(
            {
                "id": name,
                "op": row.op,
                "kind": graph.looks[name].kind,
                "tile": stage.tile_of[name],
                "frame": frames.of(name),
                "phase": stage.phases[name],
                "shape": _shape(row),
                "box": graph.bands[graph.band_of[name]],
                "device": device_of(graph.band_of[name]),
                **_why(graph, row),
                "coming": identity.coming.get(name, ""),
                "changed": name in identity.changed,
                "origin": identity.origins.get(name, ""),
                "going": identity.going.get(name, ""),
                "time": found.time,
                "wait": waits.get(name, 0) + found.queueing,
                "queueing": found.queueing,
                "bytes": found.bytes,
                "span": found.span,
                "failed": bool(found.failed),
            }
        )
    return answer


def _why(graph: StageGraph, row: NodeRow) -> Json:
    """The reason of a placement, and what words that tell it name; "" before there is one."""
    if not row.reason:
        return {"reason": "", "why": "", "tied": "", "requested": ""}
    why = why_of(graph.nodes, row)
    return {
        "reason": row.reason,
        "why": why.key,
        "tied": why.tied,
        "requested": row.requested_device,
    }


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
