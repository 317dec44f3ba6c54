"""Passes that change what is computed where; each is off until it is named."""

from collections.abc import Callable, Iterable, Mapping
from itertools import count

from tracer.model.cluster import DeviceName
from tracer.model.graph import Graph, GraphError, Input, Node
from tracer.model.refusal import did_you_mean

MAX_REPLICATED = 16  #: elements; a larger constant is sent (TF `replicate_constants_pass.cc`)


def replicate_small_constants(graph: Graph) -> Graph:
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


#: what `--passes` may name, in the order in which they run on a placed graph
OPTIMIZATIONS: Mapping[str, Callable[[Graph], Graph]] = {
    "replicate_small_constants": replicate_small_constants
}
_ALL = ", ".join(OPTIMIZATIONS)


def named_passes(text: str) -> tuple[str, ...]:
    """Of names with commas between them, each once, as they run.

    Raises GraphError for a name that is none.
    """
    names = {name.strip() for name in text.split(",")} - {""}
    if unknown := names - OPTIMIZATIONS.keys():
        name = min(unknown)
        hint = did_you_mean(name, OPTIMIZATIONS) or "."
        raise GraphError(f"--passes {name}: no such pass{hint} There are: {_ALL}")
    return tuple(name for name in OPTIMIZATIONS if name in names)


def optimize(graph: Graph, passes: Iterable[str]) -> Graph:
    """Runs passes over a placed graph."""
    for name in passes:
        graph = OPTIMIZATIONS[name](graph)
    return graph


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
