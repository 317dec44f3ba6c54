"""Give every node a device, with the reason (TF `placer.cc`).

Nodes that must stay together get the first device that all their requests allow; without a request
it is the client's, or a GPU beside that. A source that nobody placed waits, and goes where its
consumers went.
"""

from collections.abc import Callable, Sequence

from tracer.model.cluster import DeviceName
from tracer.model.graph import HANDLES, Graph, Node
from tracer.ops.kernel import OpDef
from tracer.passes.colocation import Colocation
from tracer.passes.feasible import Feasible, Wish

METADATA = ("Shape", "Size", "Rank")


def place(
    graph: Graph,
    devices: Sequence[DeviceName],
    client_device: DeviceName,
    lookup: Callable[[str], OpDef],
    *,
    soft: bool = False,
) -> Graph:
    """The same graph with `device` and `reason` on every node.

    Reasons: `requested` as asked; `soft` beside what it asked; `colocated` with its class;
    `resource` with the variable it uses, whatever it asked for; `metadata` with the input whose
    shape it reads; `identity` with the input that it hands on; `generator` a source, with its
    consumers; `default` the client's device.
    Raises PlacementError naming the node, what it asked for and what there is.
    """
    feasible = Feasible(devices, client_device, lookup, soft=soft)
    colocation = Colocation(graph, lookup)
    placed: dict[str, tuple[str, str]] = {}
    alone: list[Node] = []
    for group in colocation.groups():
        wish = feasible.of_group(group, colocation.followers)
        device = feasible.preferred(wish)
        for node in group:
            fits = feasible.asked(node).is_met_by(device)
            placed[node.name] = str(device), reason_of(node, group, wish, colocation, fits=fits)
        if len(group) == 1:
            alone += group
    _move_to_neighbours(graph, alone, placed, feasible)
    return Graph(
        node.with_(device=placed[node.name][0], reason=placed[node.name][1]) for node in graph.nodes
    )


def reason_of(
    node: Node,
    group: Sequence[Node],
    wish: Wish,
    colocation: Colocation,
    *,
    fits: bool,
    otherwise: str = "default",
) -> str:
    """Why a node is where it is; `fits`: it asked for that. `otherwise`: it was free to choose."""
    if node.requested_device and fits:
        return "requested"
    if node.name in colocation.followers:
        return "resource"
    if node.requested_device:
        return "soft"
    return otherwise if wish.request == Wish().request and node is group[0] else "colocated"


def _move_to_neighbours(
    graph: Graph, alone: list[Node], placed: dict[str, tuple[str, str]], feasible: Feasible
) -> None:
    """TF's heuristics, for ungrouped nodes whose request leaves the choice.

    What only reads a shape goes with its input, and what only hands it on to one; a source, once
    all others have their place, goes with its consumers if they share one.
    """
    free = {node.name: node for node in alone}
    sources = {n: node for n, node in free.items() if not node.inputs and node.op not in HANDLES}
    order = graph.topological() if free else ()
    for name in order:
        node = free.get(name)
        if node is None or not node.inputs:
            continue
        source = node.inputs[0].node
        if node.op in METADATA:
            _move(node, placed[source][0], "metadata", placed, feasible)
        elif source not in sources and _hands_on(graph, node):
            _move(node, placed[source][0], "identity", placed, feasible)
    for name in reversed(order) if sources else ():
        consumers = {placed[edge.dst][0] for edge in graph.out_edges(name)}
        if name in sources and len(consumers) == 1:
            _move(sources[name], consumers.pop(), "generator", placed, feasible)


def _hands_on(graph: Graph, node: Node) -> bool:
    """Whether it asks for nothing and copies to one consumer, for which its input's line asked."""
    users = graph.out_edges(node.name)
    if node.op != "Identity" or node.requested_device or node.control_inputs or len(users) > 1:
        return False
    asked = [graph[edge.dst].requested_device for edge in users] or [""]
    return asked == [graph[node.inputs[0].node].requested_device]


def _move(
    node: Node, device: str, reason: str, placed: dict[str, tuple[str, str]], feasible: Feasible
) -> None:
    name = DeviceName.parse(device)
    if not feasible.wish(node).is_met_by(name):
        return
    if node.requested_device:
        reason = "requested" if feasible.asked(node).is_met_by(name) else "soft"
    placed[node.name] = device, reason
