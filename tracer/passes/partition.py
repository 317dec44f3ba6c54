"""Cut a placed graph into partitions and join them by Send/Recv pairs (TF `graph_partition.cc`).

Done twice: by worker on the master (`_S<n>`), then by device on each worker (`_G<n>`). One output
goes to one partition once, however many consumers it has there. A control edge sends an empty
constant.
"""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from tracer.model.dtypes import dtype_of
from tracer.model.graph import (
    Edge,
    Graph,
    GraphError,
    Input,
    Literal,
    Node,
    Partition,
    TensorSpec,
)
from tracer.passes.keys import SENDS, key_of

_NOTHING = Literal("float32", (0,), b"")
_NOTHING_SPECS = (TensorSpec("float32", (0,)),)


def partition_by_worker(graph: Graph, incarnations: Mapping[str, int]) -> list[Partition]:
    """One partition per task, by task prefix. `incarnations` knows the devices by full name."""
    return _Cut(graph, _task_prefix, "_S", incarnations).partitions()


def partition_by_device(graph: Graph, incarnations: Mapping[str, int]) -> list[Partition]:
    """One partition per device of one worker's graph."""
    return _Cut(graph, str, "_G", incarnations).partitions()


def check_partitions(graph: Graph, partitions: list[Partition]) -> None:
    """Raises GraphError unless every node is in one partition and every key has one pair.

    That no edge crosses a partition is seen to by Graph, which refuses inputs that name no node.
    """
    homes = [name for part in partitions for name in part.graph if name in graph]
    if sorted(homes) != sorted(graph):
        raise GraphError("the partitions do not hold each node of the graph exactly once")
    ends = [
        (node.op in SENDS, key)
        for part in partitions
        for node in part.graph.nodes
        if (key := key_of(node)) and not node.attrs["client_terminated"]
    ]
    sent = [key for is_send, key in ends if is_send]
    received = [key for is_send, key in ends if not is_send]
    if len(set(sent)) < len(sent) or sorted(sent) != sorted(received):
        raise GraphError("the keys of Send and Recv nodes do not pair one to one")


def _task_prefix(device: str) -> str:
    return device[: device.rindex("/")]


class _Cut:
    """One cut in the making: nodes are walked in order, partitions grow as edges need it."""

    def __init__(
        self,
        graph: Graph,
        place_of: Callable[[str], str],
        suffix: str,
        incarnations: Mapping[str, int],
    ) -> None:
        self._graph = graph
        self._suffix = suffix
        self._incarnations = incarnations
        places = {device: place_of(device) for device in {node.device for node in graph.nodes}}
        self._place = {node.name: places[node.device] for node in graph.nodes}
        self._parts: dict[str, list[Node]] = {}
        self._received: dict[tuple[str, int | None, str], str] = {}
        self._dtypes: dict[Input, str] = {}
        self._numbers = count()
        self._edge_ids = count()

    def partitions(self) -> list[Partition]:
        _refuse_cut_loops(self._graph, self._place)
        self._parts = {self._place[name]: [] for name in self._graph}
        for node in self._graph.nodes:
            self._parts[self._place[node.name]].append(self._rewired(node))
        return [Partition(place, Graph(nodes)) for place, nodes in self._parts.items()]

    def _rewired(self, node: Node) -> Node:
        """The node with what crosses the cut taken from `_Recv`s in its own partition."""
        edges = list(self._graph.in_edges(node.name))
        here = self._place[node.name]
        sources = [
            edge.src if self._place[edge.src] == here else self._receive(edge, edge_id)
            for edge, edge_id in zip(edges, self._edge_ids, strict=False)
        ]
        if sources != [edge.src for edge in edges]:
            num_inputs = len(node.inputs)
            node = node.with_(
                inputs=tuple(
                    old if old.node == new else Input(new)
                    for old, new in zip(node.inputs, sources, strict=False)
                ),
                control_inputs=tuple(sources[num_inputs:]),
            )
        if node.attrs.get("client_terminated") and "send_device_incarnation" not in node.attrs:
            life = self._incarnation_of(node.attrs["send_device"])
            node = node.with_(attrs={**node.attrs, "send_device_incarnation": life})
        return node

    def _receive(self, edge: Edge, edge_id: int) -> str:
        """The name under which the edge's value is had in its consumer's partition."""
        key = edge.src, edge.src_port, self._place[edge.dst]
        if key not in self._received:
            self._received[key] = self._join(edge, edge_id)
        return self._received[key]

    def _join(self, edge: Edge, edge_id: int) -> str:
        """Adds the pair; its recv sits on the device of the first consumer."""
        source, target = self._graph[edge.src], self._graph[edge.dst]
        sending = self._parts[self._place[edge.src]]
        receiving = self._parts[self._place[edge.dst]]
        output, dtype, specs = self._value(edge, source, sending)
        attrs: dict[str, Any] = {
            "tensor_name": f"edge_{edge_id}_{edge.src}",
            "send_device": source.device,
            "recv_device": target.device,
            "send_device_incarnation": self._incarnation_of(source.device),
            "client_terminated": False,
            "_src": edge.src,
            "_dst": edge.dst,
            "edge_kind": "control" if edge.is_control else "data",
        }
        host = "Host" if dtype == "string" else ""
        send = self._added(
            edge.src, f"_{host}Send", source, attrs={**attrs, "T": dtype}, inputs=(output,)
        )
        recv = self._added(
            edge.src, f"_{host}Recv", target, attrs={**attrs, "tensor_type": dtype}, specs=specs
        )
        sending.append(send)
        receiving.append(recv)
        if not edge.is_control:
            return recv.name
        signal = self._added(
            edge.src,
            "Identity",
            target,
            inputs=(Input(recv.name),),
            attrs={"T": dtype},
            specs=specs,
        )
        receiving.append(signal)
        return signal.name

    def _value(
        self, edge: Edge, source: Node, sending: list[Node]
    ) -> tuple[Input, str, tuple[TensorSpec, ...]]:
        """What is sent, its dtype and spec: the output, or an empty constant after the source."""
        if edge.src_port is not None:
            output = Input(edge.src, edge.src_port)
            spec = source.specs[edge.src_port : edge.src_port + 1]
            return output, dtype_of(self._graph, output, self._dtypes), spec
        dummy = self._added(
            f"{edge.src}/ctrl",
            "Const",
            source,
            control_inputs=(edge.src,),
            attrs={"dtype": "float32", "value": _NOTHING},
            specs=_NOTHING_SPECS,
        )
        sending.append(dummy)
        return Input(dummy.name), "float32", dummy.specs

    def _added(self, base: str, op: str, beside: Node, **fields: Any) -> Node:
        name = next(
            name for n in self._numbers if (name := f"{base}{self._suffix}{n}") not in self._graph
        )
        return Node(name, op, device=beside.device, reason="cut", source=beside.source, **fields)

    def _incarnation_of(self, device: str) -> int:
        try:
            return self._incarnations[device]
        except KeyError:
            known = ", ".join(sorted(self._incarnations))
            raise GraphError(f"the incarnation of {device} is unknown; known are {known}") from None


def _refuse_cut_loops(graph: Graph, place: Mapping[str, str]) -> None:
    """A loop over several devices needs a control loop on each else it hangs."""
    inside = {node.name for node in graph.nodes if node.op == "Enter"}
    pending = list(inside)
    while pending:
        name = pending.pop()
        followers = {edge.dst for edge in graph.out_edges(name)} - inside
        if graph[name].op != "Exit":
            inside |= followers
            pending += followers
    for name in inside:
        far = [
            e.src for e in graph.in_edges(name) if e.src in inside and place[e.src] != place[name]
        ]
        if far:
            raise GraphError(
                f"the loop around {name!r} reaches over {place[far[0]]} and {place[name]}; "
                "ask for one device for all nodes of a loop"
            )
