"""Place by a simulated execution, each node where it would end first (whitepaper §3.2.1).

Nodes are taken in the order of their inputs. A device runs one at a time; an input comes from
another device as much later as its transfer takes. A loop counts as its body does in the cost
model: where that was measured, for all its iterations.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from tracer.model.cluster import DeviceName
from tracer.model.dtypes import num_outputs
from tracer.model.graph import HANDLES, Edge, Graph, Node, TensorSpec
from tracer.ops.infer import infer_specs
from tracer.ops.kernel import OpDef
from tracer.passes.colocation import Colocation
from tracer.passes.cost_model import Costs
from tracer.passes.feasible import Feasible, Wish
from tracer.passes.place import reason_of


def place_by_cost(
    graph: Graph,
    devices: Sequence[DeviceName],
    client_device: DeviceName,
    lookup: Callable[[str], OpDef],
    costs: Costs,
    *,
    soft: bool = False,
) -> Graph:
    """As `place`, which says the reasons; here `cost` takes the place of `default`.

    Nodes that must stay together go where the first of them ends first. Sources that may lie
    anywhere cost nothing, and go with their consumers. Raises PlacementError.
    """
    feasible = Feasible(devices, client_device, lookup, soft=soft)
    colocation = Colocation(graph, lookup)
    groups: dict[str, tuple[list[Node], Wish]] = {}
    for group in colocation.groups():
        wish = feasible.of_group(group, colocation.followers)
        groups |= {node.name: (group, wish) for node in group}
    simulation = Simulation(graph, costs)
    chosen: dict[str, DeviceName] = {}
    waiting: list[Node] = []
    for name in graph.topological():
        node, (group, wish) = graph[name], groups[name]
        among = feasible.devices(wish)
        if len(group) == 1 and len(among) > 1 and not node.inputs and node.op not in HANDLES:
            waiting.append(node)
            continue
        device = chosen.get(group[0].name)
        if device is None:
            device = simulation.best(node, among)
            chosen |= {member.name: device for member in group}
        simulation.run(node, device)
    for node in reversed(waiting):
        chosen[node.name] = _beside_consumers(graph, node, chosen, feasible)

    def reason(node: Node) -> str:
        fits = feasible.asked(node).is_met_by(chosen[node.name])
        return reason_of(node, *groups[node.name], colocation, fits=fits, otherwise="cost")

    return Graph(n.with_(device=str(chosen[n.name]), reason=reason(n)) for n in graph.nodes)


def _beside_consumers(
    graph: Graph, node: Node, chosen: dict[str, DeviceName], feasible: Feasible
) -> DeviceName:
    """The device of the first consumer that the node may go to, else the one it prefers."""
    wish = feasible.wish(node)
    there = (chosen[edge.dst] for edge in graph.out_edges(node.name) if edge.dst in chosen)
    return next((d for d in there if wish.is_met_by(d)), feasible.preferred(wish))


def predict_step_ns(placed: Graph, costs: Costs) -> int:
    """How long a step of a placed graph takes by these costs."""
    simulation = Simulation(placed, costs)
    for name in placed.topological():
        node = placed[name]
        simulation.run(node, DeviceName.parse(node.device))
    return simulation.end_ns


class Simulation:
    """Devices at work, as far as nodes were given to them."""

    def __init__(self, graph: Graph, costs: Costs) -> None:
        self.end_ns = 0
        self._graph = graph
        self._costs = costs
        self._specs = _specs_of(graph)
        self._free: defaultdict[DeviceName, int] = defaultdict(int)
        self._ended: dict[str, tuple[DeviceName, int]] = {}

    def best(self, node: Node, devices: Sequence[DeviceName]) -> DeviceName:
        """Where it would end first; of equals the first one."""
        if len(devices) == 1:
            return devices[0]
        return min(devices, key=lambda device: self._end_ns(node, device))

    def run(self, node: Node, device: DeviceName) -> None:
        end_ns = self._end_ns(node, device)
        self._ended[node.name] = device, end_ns
        self._free[device] = end_ns
        self.end_ns = max(self.end_ns, end_ns)

    def _end_ns(self, node: Node, device: DeviceName) -> int:
        edges = [edge for edge in self._graph.in_edges(node.name) if edge.src in self._ended]
        ready_ns = max((self._arrival_ns(edge, device) for edge in edges), default=0)
        inputs = [spec for source in node.inputs for spec in self._spec(source.node, source.port)]
        run_ns = self._costs.node_ns(node, device, inputs, self._specs[node.name])
        return max(ready_ns, self._free[device]) + run_ns

    def _arrival_ns(self, edge: Edge, device: DeviceName) -> int:
        there, end_ns = self._ended[edge.src]
        specs = () if edge.src_port is None else self._spec(edge.src, edge.src_port)
        num_bytes = sum(spec.num_bytes for spec in specs)
        return end_ns + self._costs.transfer_ns(num_bytes, there, device)

    def _spec(self, name: str, port: int) -> tuple[TensorSpec, ...]:
        """Of one output; empty if unknown."""
        return self._specs[name][port : port + 1]


def _specs_of(graph: Graph) -> dict[str, tuple[TensorSpec, ...]]:
    """Of every node's outputs; empty where no shape can be known before a step."""
    known = {node.name: node.specs for node in graph.nodes}
    if all(node.specs or not num_outputs(node) for node in graph.nodes):
        return known
    inferred = infer_specs(graph)
    return {name: specs or inferred[name] for name, specs in known.items()}
