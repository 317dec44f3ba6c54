"""Edges of folded scopes: what runs between the same two tiles is one, as wide as what it holds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vizdist.analysis.node_measures import Measured, StepMeasures
from vizdist.analysis.scopes import bundle_id, scope_label, scope_of, shared_scope
from vizdist.figures.graph_labels import told_apart
from vizdist.figures.graph_shapes import Link, Pair, Wire
from vizdist.figures.graph_stage import Edge, PairEdge, StageGraph, tensor_bytes

Json = dict[str, Any]


class Held(NamedTuple):
    """What an edge between two tiles holds: edges of the graph, and bytes of their tensors."""

    number: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Bundle:
    """Pairs with one source tile and one first consumer; mostly one pair alone."""

    id: str
    pairs: tuple[PairEdge, ...]
    src: str
    dsts: tuple[str, ...]

    @property
    def label(self) -> str:
        """A pair's own label; of several the scope they come from."""
        first = self.pairs[0]
        if len(self.pairs) == 1:
            return first.label
        scope = shared_scope(scope_of(pair.src, 99) for pair in self.pairs)
        is_gradient = first.label.startswith("∇")
        return f"{'∇' if is_gradient else ''}{scope_label(scope)}" if scope else first.label

    @property
    def path(self) -> str:
        """What the label is short for; it says all where it is a gradient's."""
        if self.label.startswith("∇"):
            return self.label
        if len(self.pairs) > 1:
            return shared_scope(scope_of(pair.src, 99) for pair in self.pairs)
        return self.pairs[0].src.removesuffix("/Read").removesuffix("/read")


def bundles_of(
    pairs: Sequence[PairEdge], tile_of: Mapping[str, str], folded: Iterable[str]
) -> list[Bundle]:
    """Pairs that a folded scope at either end joins, in the order of their first."""
    stacks = set(folded)
    found: dict[Any, list[PairEdge]] = {}
    for pair in pairs:
        src = _source(pair, tile_of)
        dsts = [tile_of[dst] for dst in pair.dsts if dst in tile_of]
        joins = src and dsts and (src in stacks or dsts[0] in stacks)
        key = (src, dsts[0], pair.dst_band, pair.control) if joins else pair.id
        found.setdefault(key, []).append(pair)
    return [_bundle(joined, tile_of) for joined in found.values()]


def _bundle(pairs: Sequence[PairEdge], tile_of: Mapping[str, str]) -> Bundle:
    src = _source(pairs[0], tile_of)
    ends = [tile_of[dst] for pair in pairs for dst in pair.dsts if dst in tile_of]
    dsts = tuple(dict.fromkeys(ends))
    name = bundle_id(src, dsts[0], control=pairs[0].control) if len(pairs) > 1 else pairs[0].id
    return Bundle(name, tuple(pairs), src, dsts)


def _source(pair: PairEdge, tile_of: Mapping[str, str]) -> str:
    """The tile beside its Send; a pair that passes on what another brought has none."""
    return "" if pair.via else tile_of.get(pair.src, "")


def placed_pair(bundle: Bundle, phases: Mapping[str, str]) -> Pair:
    """What the layout needs to know of a bundle."""
    first = bundle.pairs[0]
    return Pair(
        bundle.id,
        bundle.src,
        bundle.dsts,
        first.src_band,
        first.dst_band,
        sum(pair.num_bytes for pair in bundle.pairs),
        first.control,
        by_right_gutter=phases.get(first.src) not in ("read", "forward"),
    )


def links_of(
    graph: StageGraph, edges: Iterable[Edge], tile_of: Mapping[str, str]
) -> tuple[list[Link], dict[tuple[str, str], Held]]:
    """Edges between tiles: once each, as data where there is data; none inside a folded scope."""
    control: dict[tuple[str, str], bool] = {}
    inside: dict[tuple[str, str], list[Edge]] = {}
    for edge in edges:
        ends = tile_of[edge.src], tile_of[edge.dst]
        if ends[0] == ends[1]:
            continue
        control[ends] = control.get(ends, True) and edge.control
        inside.setdefault(ends, []).append(edge)
    held = {e: Held(len(own), tensor_bytes(graph.nodes, own)) for e, own in inside.items()}
    return [Link(*ends, is_control) for ends, is_control in control.items()], held


def tag_links(bundles: Sequence[Bundle], tile_of: Mapping[str, str]) -> dict[tuple[str, str], Held]:
    """What the edges between a bundle's tags and its tiles hold."""
    held: dict[tuple[str, str], Held] = {}
    for bundle in bundles:
        size = sum(pair.num_bytes for pair in bundle.pairs)
        held[bundle.src, f">{bundle.id}"] = Held(len(bundle.pairs), size)
        for dst in bundle.dsts:
            parts = [pair for pair in bundle.pairs if dst in map(tile_of.get, pair.dsts)]
            size = sum(pair.num_bytes for pair in parts)
            held[f"<{bundle.id}", dst] = Held(len(parts), size)
    return held


def wires_json(
    graph: StageGraph,
    bundles: Sequence[Bundle],
    placed: Sequence[Pair],
    wires: Sequence[Wire],
    measures: StepMeasures,
) -> list[Json]:
    labels = told_apart([(bundle.label, bundle.path) for bundle in bundles])
    return [
        _wire(graph, bundle, pair, wire, measures) | {"label": label}
        for bundle, pair, wire, label in zip(bundles, placed, wires, labels, strict=True)
    ]


def _wire(
    graph: StageGraph, bundle: Bundle, placed: Pair, wire: Wire, measures: StepMeasures
) -> Json:
    first = bundle.pairs[0]
    parts = [_part(pair, measures) for pair in bundle.pairs]
    return {
        "id": bundle.id,
        "from": graph.bands[first.src_band],
        "to": graph.bands[first.dst_band],
        "control": first.control,
        "isRead": not placed.by_right_gutter,
        "isPair": bool(first.send or first.recv),
        "bytes": sum(part["bytes"] for part in parts),
        "wait": max(part["wait"] for part in parts),
        "parts": parts,
        "points": [[round(x, 1), round(y, 1)] for x, y in wire.points],
        "ways": list(wire.ways),
    }


def _part(pair: PairEdge, measures: StepMeasures) -> Json:
    """One pair of a wire; what spans say of it where there are any."""
    ends = (pair.send, pair.recv, *pair.carriers)
    send, recv, *carriers = (measures.nodes.get(name, Measured()) for name in ends)
    return {
        "id": pair.id,
        "send": pair.send,
        "recv": pair.recv,
        "carriers": list(pair.carriers),
        "src": pair.src,
        "dsts": pair.dsts,
        "label": pair.label,
        "bytes": 0 if pair.control else max(recv.bytes, 0) or pair.num_bytes,
        "wait": recv.wait,
        "time": recv.transfer,
        "spans": [one.span for one in (send, recv, *carriers)],
        "key": recv.key or send.key,
    }
