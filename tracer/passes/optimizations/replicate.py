"""Copy a small constant to its users in place of sending it (TF `replicate_constants_pass.cc`)."""

from itertools import count

from tracer.model.cluster import DeviceName
from tracer.model.graph import Graph, Input, Node
from tracer.passes.optimizations.rules import Lookup

MAX_REPLICATED = 16  #: elements; a larger constant is sent


def replicate_small_constants(graph: Graph, _lookup: Lookup) -> Graph:
    """Copies a small constant to each device that uses it, in place of sending it.

    Left alone are constants whose consumers share one device, and those with control consumers,
    whose edges would multiply too.
    """
    numbers = count()
    copies = {
        node.name: {
            device: node.with_(
                name=f"{node.name}/replicate/_{next(numbers)}", device=device, reason="replicated"
            )
            for device in devices
        }
        for node in graph.nodes
        if len(devices := _devices_in_need(graph, node)) > 1
    }

    def own_copy(source: Input, device: str) -> Input:
        return Input(copies[source.node][device].name) if source.node in copies else source

    return Graph(
        new.with_(inputs=tuple(own_copy(source, _host(new.device)) for source in new.inputs))
        for node in graph.nodes
        for new in copies.get(node.name, {"": node}).values()
    )


def _devices_in_need(graph: Graph, node: Node) -> list[str]:
    if node.op != "Const" or node.attrs["value"].num_elements > MAX_REPLICATED:
        return []
    edges = graph.out_edges(node.name)
    if any(edge.is_control for edge in edges) or _host(node.device) != node.device:
        return []
    return sorted({_host(graph[edge.dst].device) for edge in edges})


def _host(device: str) -> str:
    """The CPU that computes beside a device: itself, or CPU:0 of its task for a GPU."""
    name = DeviceName.parse(device)
    return device if name.type == "CPU" else str(name.task_name.device())
