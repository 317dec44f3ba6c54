"""One stage of a graph: which nodes are tiles, which edges stay in a band, which cross as pairs.

A Send/Recv pair is one thing here, with the constant and identity that carry a control edge drawn
into it. Before the cut, an edge between two devices is a pair to be. Whatever a trace says is
taken as it is: an input that names no node is left out, a Send without its Recv keeps an open end.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from tracer.model.cluster import LOCALHOST, DeviceName
from tracer.model.graph import Input, TensorSpec
from tracer.model.graph_table import NodeRow, input_node
from vizdist.analysis.handles import gradient_of
from vizdist.figures.graph_nodes import Look, is_end, is_send, look_of, short_name

CUT_STAGES = ("worker", "device")


class Edge(NamedTuple):
    src: str
    dst: str
    control: bool


@dataclass(slots=True)
class PairEdge:
    """A tensor that goes over, or will: `send` and `recv` are its nodes, "" before the cut.

    `dsts` are the consumers, `num_uses` how many of their inputs take it: what would go over once
    for each, did they not share it. `carriers` are the nodes that only carry a control edge. `via`
    is the pair by which it came to the task, where this one passes it on to another device there.
    """

    id: str
    src: str
    dsts: list[str]
    src_band: str
    dst_band: str
    control: bool
    num_bytes: int
    label: str
    send: str = ""
    recv: str = ""
    carriers: tuple[str, ...] = ()
    num_uses: int = 0
    via: str = ""


@dataclass(slots=True)
class StageGraph:
    """`nodes` are all rows by id (their name, unless two have one); `tiles` those drawn so."""

    stage: str
    nodes: dict[str, NodeRow] = field(default_factory=dict)
    looks: dict[str, Look] = field(default_factory=dict)
    tiles: list[str] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    pairs: list[PairEdge] = field(default_factory=list)
    bands: dict[str, str] = field(default_factory=dict)
    band_of: dict[str, str] = field(default_factory=dict)

    @property
    def is_cut(self) -> bool:
        return self.stage in CUT_STAGES

    def flows(self) -> list[Edge]:
        """All edges between tiles, pairs joined: what the graph was before it was cut."""
        joined = [Edge(pair.src, dst, pair.control) for pair in self.pairs for dst in pair.dsts]
        return [*self.edges, *joined]


def read_stage(stage: str, rows: Sequence[NodeRow], local_task: str = "") -> StageGraph:
    """`local_task` is what the task is called whose devices have no cluster (`/job:localhost`)."""
    graph = StageGraph(stage, nodes=_by_id(rows))
    for name, row in graph.nodes.items():
        band = row.device or row.partition
        graph.band_of[name] = band
        graph.looks[name] = look_of(row)
        graph.bands[band] = box_of(band, local_task)
    graph.bands = dict(sorted(graph.bands.items(), key=lambda item: _natural(item[0])))
    edges = list(_edges(graph.nodes))
    joined = _chained(graph.nodes, _join_ends(graph, edges))
    hidden = {n for pair in joined for n in (pair.send, pair.recv, *pair.carriers)}
    graph.tiles = [name for name in graph.nodes if name not in hidden]
    inside = [edge for edge in edges if edge.src not in hidden and edge.dst not in hidden]
    graph.edges = [edge for edge in inside if graph.band_of[edge.src] == graph.band_of[edge.dst]]
    graph.pairs = joined + _pairs_to_be(graph, inside)
    return graph


@lru_cache(maxsize=4096)
def box_of(band: str, local_task: str = "") -> str:
    """The task of a device (`worker:0`); a name that is no device is its own box."""
    try:
        task = DeviceName.parse(band).task_name
    except ValueError:
        return band
    return local_task if local_task and task.job == LOCALHOST else str(task)


@lru_cache(maxsize=4096)
def device_of(band: str) -> str:
    """What a band is called inside its box: `CPU:0`."""
    try:
        return DeviceName.parse(band).short
    except ValueError:
        return ""


def _by_id(rows: Sequence[NodeRow]) -> dict[str, NodeRow]:
    nodes: dict[str, NodeRow] = {}
    for row in rows:
        name = row.name if row.name not in nodes else f"{row.name} @ {row.partition}"
        while name in nodes:
            name += "'"
        nodes[name] = row
    return nodes


def _natural(text: str) -> list[tuple[int, str]]:
    parts = "".join(c if c.isdecimal() else f" {c} " for c in text).split()
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _edges(nodes: Mapping[str, NodeRow]) -> Iterable[Edge]:
    """Every edge once, whatever its ports."""
    home = {(row.partition, row.name): name for name, row in nodes.items()}
    for name, row in nodes.items():
        seen = set()
        for text in row.inputs:
            control = text.startswith("^")
            source = text[1:] if control else Input.parse(text).node
            src = home.get((row.partition, source)) or home.get((row.partition, text))
            edge = Edge(src or "", name, control)
            if src and edge not in seen:
                seen.add(edge)
                yield edge


def tensor_bytes(nodes: Mapping[str, NodeRow], edges: Iterable[Edge]) -> int:
    """Bytes of the tensors that run along some edges: each once, however many nodes read it."""
    taken: dict[str, set[int]] = {}
    for edge in edges:
        if not edge.control:
            taken.setdefault(edge.src, set()).update(_ports(nodes[edge.src], nodes[edge.dst]))
    return sum(_port_bytes(nodes[src], port) for src, ports in taken.items() for port in ports)


def _ports(src: NodeRow, dst: NodeRow) -> Iterator[int]:
    """The outputs of `src` that `dst` takes."""
    for text in dst.inputs:
        taken = Input(text) if text == src.name else Input.parse(text)
        if taken.node == src.name:
            yield taken.port


def _port_bytes(row: NodeRow, port: int) -> int:
    if len(row.specs) < 2:
        return row.bytes
    return TensorSpec(*row.specs[port]).num_bytes if port < len(row.specs) else 0


def edge_key(row: NodeRow) -> tuple[str, str, str]:
    """Source, target and edge name, as the key of an end has them."""
    named = ("send_device", "recv_device", "tensor_name")
    first, second, third = (str(row.attrs.get(name, "")) for name in named)
    return first, second, third


def _join_ends(graph: StageGraph, edges: Sequence[Edge]) -> list[PairEdge]:
    """A pair for every key: both ends where there are both, one end where the other is missing."""
    inputs: dict[str, list[Edge]] = {}
    outputs: dict[str, list[Edge]] = {}
    for edge in edges:
        inputs.setdefault(edge.dst, []).append(edge)
        outputs.setdefault(edge.src, []).append(edge)
    ends: dict[tuple[str, str, str, int], dict[str, str]] = {}
    counts: dict[tuple[str, str, str, bool], int] = {}
    for name, row in graph.nodes.items():
        if is_end(row):
            key, send = edge_key(row), is_send(row)
            turn = counts[*key, send] = counts.get((*key, send), 0) + 1
            ends.setdefault((*key, turn), {})["send" if send else "recv"] = name
    return [_joined(graph, found, inputs, outputs) for found in ends.values()]


def _chained(nodes: Mapping[str, NodeRow], pairs: list[PairEdge]) -> list[PairEdge]:
    """Joins a pair between two devices of a task to the one by which its tensor came there."""
    by_recv = {name: pair for pair in pairs for name in (pair.recv, *pair.carriers[1:]) if name}
    passing = [(pair, by_recv[pair.src]) for pair in pairs if pair.src in by_recv]
    for pair, before in passing:
        pair.via, pair.src = before.id, before.src
        pair.label = pair.label and before.label
        before.dsts = [name for name in before.dsts if name not in (pair.send, *pair.carriers)]
    for pair in pairs:
        given = pair.carriers[1] if pair.carriers else pair.recv
        pair.num_uses = _num_uses(nodes, given, pair.dsts, control=pair.control)
    for pair, before in passing:
        before.num_uses += pair.num_uses
    return pairs


def _num_uses(
    nodes: Mapping[str, NodeRow], given: str, dsts: Iterable[str], *, control: bool
) -> int:
    """How many inputs of some nodes take what a node gives."""
    texts = (text for dst in dsts for text in nodes[dst].inputs if text.startswith("^") == control)
    return sum(input_node(text) == given for text in texts)


def _joined(
    graph: StageGraph,
    ends: Mapping[str, str],
    inputs: Mapping[str, list[Edge]],
    outputs: Mapping[str, list[Edge]],
) -> PairEdge:
    send, recv = ends.get("send", ""), ends.get("recv", "")
    row = graph.nodes[send or recv]
    sources = [edge.src for edge in inputs.get(send, ())]
    dsts = [edge.dst for edge in outputs.get(recv, ())]
    control = row.attrs.get("edge_kind") == "control"
    carriers: tuple[str, ...] = ()
    if control and len(sources) == 1 and len(dsts) == 1:
        before = [edge.src for edge in inputs.get(sources[0], ())]
        after = [edge.dst for edge in outputs.get(dsts[0], ())]
        if graph.nodes[sources[0]].op == "Const" and graph.nodes[dsts[0]].op == "Identity":
            carriers = (sources[0], dsts[0])
            sources, dsts = before, after
    src = next((name for name in sources if name), "")
    return PairEdge(
        id=recv or send,
        src=src,
        dsts=dsts,
        src_band=graph.band_of[send] if send else graph.band_of[recv],
        dst_band=graph.band_of[recv] if recv else graph.band_of[send],
        control=control,
        num_bytes=graph.nodes[recv].bytes if recv and not control else 0,
        label="" if control else tensor_label(graph.nodes, src, dsts, graph.nodes[recv or send]),
        send=send,
        recv=recv,
        carriers=carriers,
    )


def tensor_label(
    nodes: Mapping[str, NodeRow], src: str, dsts: Iterable[str], given: NodeRow
) -> str:
    """What a wire is called: `w1` for a variable's value, `∇w1` for its gradient, else its source.

    `given` is the node under whose name the consumers take it.
    """
    for dst in dsts:
        if gradient_of(nodes[dst]) == given.name:
            handle = input_node(nodes[dst].inputs[0])
            variable = nodes.get(handle)
            return f"∇{short_name(variable) if variable else handle}"
    if not src:
        return short_name(given)
    name = short_name(nodes[src])
    return name.removesuffix("/read") if look_of(nodes[src]).kind == "read" else name


def _pairs_to_be(graph: StageGraph, edges: Sequence[Edge]) -> list[PairEdge]:
    """Edges that the next cut will make pairs: one for each source and target band."""
    pairs: dict[tuple[str, str, bool], PairEdge] = {}
    inside: dict[tuple[str, str, bool], list[Edge]] = {}
    for edge in edges:
        src_band, dst_band = graph.band_of[edge.src], graph.band_of[edge.dst]
        if src_band == dst_band:
            continue
        key = edge.src, dst_band, edge.control
        inside.setdefault(key, []).append(edge)
        if key in pairs:
            pairs[key].dsts.append(edge.dst)
            continue
        row = graph.nodes[edge.src]
        pairs[key] = PairEdge(
            id=f"{edge.src} → {dst_band}{' ^' if edge.control else ''}",
            src=edge.src,
            dsts=[edge.dst],
            src_band=src_band,
            dst_band=dst_band,
            control=edge.control,
            num_bytes=0,
            label="" if edge.control else tensor_label(graph.nodes, edge.src, [edge.dst], row),
        )
    for key, pair in pairs.items():
        pair.num_bytes = tensor_bytes(graph.nodes, inside[key])
        source = graph.nodes[pair.src].name
        pair.num_uses = _num_uses(graph.nodes, source, pair.dsts, control=pair.control)
    return list(pairs.values())
