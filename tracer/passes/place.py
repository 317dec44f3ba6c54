"""Give every node a device, with the reason (TF `placer.cc`).

Nodes that must stay together get the first device that all their requests allow; without a request
it is the client's, or a GPU beside that. A source that nobody placed waits, and goes where its
consumers went.
"""

import difflib
from collections.abc import Callable, Sequence

from tracer.model.cluster import DeviceName, DeviceSpec
from tracer.model.graph import HANDLES, Graph, GraphError, Node
from tracer.ops.kernel import OpDef
from tracer.passes.colocation import Colocation
from tracer.passes.control_flow import colocate_control_flow

METADATA = ("Shape", "Size", "Rank")
_TYPE_ORDER = {"GPU": 0, "CPU": 1}  # a request that leaves the type open takes the faster one
_ANY = DeviceSpec()


class PlacementError(GraphError):
    """A device request that cannot be met."""


def place(
    graph: Graph,
    devices: Sequence[DeviceName],
    client_device: DeviceName,
    lookup: Callable[[str], OpDef],
) -> Graph:
    """The same graph with `device` and `reason` on every node.

    Reasons: `requested` as asked; `colocated` with its class; `resource` with the variable it uses,
    whatever it asked for; `metadata` with the input whose shape it reads; `generator` a source,
    with its consumers; `default` the client's device; `control_flow` with its data. Raises PlacementError naming the node, what
    it asked for and what there is.
    """
    choose = _Chooser(devices, client_device)
    colocation = Colocation(graph, lookup)
    placed: dict[str, tuple[str, str]] = {}
    alone: list[Node] = []
    for group in colocation.groups():
        request = _shared_request(group, colocation.followers, choose)
        device = choose(request, group[0])
        for node in group:
            fits = choose.spec(node).matches(device)
            placed[node.name] = str(device), _reason(node, group, request, colocation, fits=fits)
        if len(group) == 1:
            alone += group
    _move_to_neighbours(graph, alone, placed, choose)
    return colocate_control_flow(
        Graph(
            node.with_(device=placed[node.name][0], reason=placed[node.name][1])
            for node in graph.nodes
        )
    )


def check_graph(
    graph: Graph, devices: Sequence[DeviceName], lookup: Callable[[str], OpDef]
) -> None:
    """Raises GraphError for the first fault of a whole graph, whatever is asked of it later.

    TF checks edges as it builds a graph, and places before it prunes: one node whose request no
    device meets fails every request to its graph (PlacementError).
    """
    choose = _Chooser(devices, devices[0])
    for node in graph.nodes:
        choose(choose.spec(node), node)
        for source in node.inputs:
            count = _known_outputs(graph[source.node], lookup)
            if count is not None and source.port >= count:
                raise GraphError(
                    f"Node {node.name!r}: Connecting to invalid output {source.port} of source "
                    f"node {source.node} which has {count} outputs."
                )


def _known_outputs(node: Node, lookup: Callable[[str], OpDef]) -> int | None:
    """None if the op or its attribute is unknown: whoever runs the node will say so."""
    try:
        return lookup(node.op).outputs_of(node)
    except (LookupError, ValueError, TypeError):
        return None


class _Chooser:
    """Finds the device for a request; remembers answers, since few requests serve many nodes."""

    def __init__(self, devices: Sequence[DeviceName], client_device: DeviceName) -> None:
        def rank(device: DeviceName) -> tuple[int, bool, DeviceName]:
            is_far = device.task_name != client_device.task_name
            return _TYPE_ORDER.get(device.type, 2), is_far, device

        def is_gpu_beside(device: DeviceName) -> bool:
            return device.type == "GPU" and device.task_name == client_device.task_name

        self._ranked = sorted(devices, key=rank)
        self._specs: dict[str, DeviceSpec] = {}
        default = next((device for device in self._ranked if is_gpu_beside(device)), client_device)
        self._chosen: dict[DeviceSpec, DeviceName | None] = {_ANY: default}

    def spec(self, node: Node) -> DeviceSpec:
        text = node.requested_device
        if text not in self._specs:
            try:
                self._specs[text] = DeviceSpec.parse(text)
            except ValueError as error:
                raise PlacementError(
                    f"Cannot assign a device for operation {node.name}: {error}"
                ) from None
        return self._specs[text]

    def __call__(self, request: DeviceSpec, node: Node) -> DeviceName:
        if request not in self._chosen:
            fitting = (device for device in self._ranked if request.matches(device))
            self._chosen[request] = next(fitting, None)
        if (chosen := self._chosen[request]) is None:
            raise PlacementError(self._refusal(request, node))
        return chosen

    def _refusal(self, request: DeviceSpec, node: Node) -> str:
        available = sorted(map(str, self._ranked))
        near = difflib.get_close_matches(str(request), available, n=1, cutoff=0.3)
        return (
            f"Cannot assign a device for operation {node.name}: it was explicitly assigned to "
            f"{request} but available devices are [ {', '.join(available)} ]. Make sure the device "
            f"specification refers to a valid device{f'; near is {near[0]}' if near else ''}."
        )


def _shared_request(group: list[Node], followers: set[str], choose: _Chooser) -> DeviceSpec:
    """What all members ask together; a follower of a variable gives way to it."""
    shared, first = _ANY, group[0]
    for node in group:
        asked = choose.spec(node)
        merged = shared.merged_over(asked)
        if merged == asked.merged_over(shared):
            shared, first = merged, first if shared != _ANY else node
        elif node.name not in followers:
            raise PlacementError(
                f"Cannot colocate nodes {first.name!r} and {node.name!r}: they share a colocation "
                f"group, but ask for {first.requested_device} and {node.requested_device}; "
                "ask for one device, or for none"
            )
    return shared


def _reason(
    node: Node, group: list[Node], request: DeviceSpec, colocation: Colocation, *, fits: bool
) -> str:
    if node.requested_device and fits:
        return "requested"
    if node.name in colocation.followers:
        return "resource"
    return "default" if request == _ANY and node is group[0] else "colocated"


def _move_to_neighbours(
    graph: Graph, alone: list[Node], placed: dict[str, tuple[str, str]], choose: _Chooser
) -> None:
    """TF's two heuristics, for ungrouped nodes whose request leaves the choice.

    What only reads a shape goes with its input; a source, once all others have their place, goes
    with its consumers if they share one.
    """
    sources: dict[str, Node] = {}
    for node in alone:
        if node.op in METADATA:
            _move(node, placed[node.inputs[0].node][0], "metadata", placed, choose)
        elif not node.inputs and node.op not in HANDLES:
            sources[node.name] = node
    for name in reversed(graph.topological()) if sources else ():
        consumers = {placed[edge.dst][0] for edge in graph.out_edges(name)}
        if name in sources and len(consumers) == 1:
            _move(sources[name], consumers.pop(), "generator", placed, choose)


def _move(
    node: Node, device: str, reason: str, placed: dict[str, tuple[str, str]], choose: _Chooser
) -> None:
    if choose.spec(node).matches(DeviceName.parse(device)):
        placed[node.name] = device, "requested" if node.requested_device else reason
