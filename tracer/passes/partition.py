"""Cut a placed graph into partitions and join them by Send/Recv pairs (TF `graph_partition.cc`).

Done twice: by worker on the master (`_S<n>`), then by device on each worker (`_G<n>`). One output
goes to one partition once, however many consumers it has there. A control edge sends an empty
constant.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from tracer.model.dtypes import dtype_of
from tracer.model.graph import REFS, Edge, Graph, GraphError, Input, Node, Partition, TensorSpec
from tracer.passes.control_flow import (
    NOTHING,
    NOTHING_SPEC,
    add_control_loops,
    is_predicate,
    starts_iteration,
)
from tracer.passes.keys import SENDS, key_of
from tracer.passes.memory import is_made_on_host, is_read_on_host


def partition_by_worker(graph: Graph, incarnations: Mapping[str, int]) -> list[Partition]:
    """One partition per task, by task prefix. `incarnations` knows the devices by full name.

    Loops over several devices get their control loops first, also for the second cut.
    """
    return _Cut(add_control_loops(graph), _task_prefix, "_S", incarnations).partitions()


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
        self._received: dict[tuple[str, int | None, str, bool], Node] = {}
        self._dtypes: dict[Input, str] = {}
        self._numbers = count()
        self._pairs = count()

    def partitions(self) -> list[Partition]:
        self._parts = {self._place[name]: [] for name in self._graph}
        for node in self._graph.nodes:
            self._parts[self._place[node.name]].append(self._rewired(node))
        return [Partition(place, Graph(nodes)) for place, nodes in self._parts.items()]

    def _rewired(self, node: Node) -> Node:
        here = self._place[node.name]
        sources = (*(source.node for source in node.inputs), *node.control_inputs)
        if any(self._place[name] != here for name in sources):
            node = self._with_recvs(node, here)
        if node.attrs.get("client_terminated") and "send_device_incarnation" not in node.attrs:
            life = self._incarnation_of(node.attrs["send_device"])
            node = node.with_(attrs={**node.attrs, "send_device_incarnation": life})
        return node

    def _with_recvs(self, node: Node, here: str) -> Node:
        """The node with what crosses the cut taken from `_Recv`s in its own partition.

        The control edge that starts an iteration goes to those, and stays here only for the next
        cut.
        """
        start = next((c for c in node.control_inputs if starts_iteration(self._graph, c)), None)
        edges = [
            edge
            for edge in self._graph.in_edges(node.name)
            if not (edge.is_control and edge.src == start)
        ]
        far = [edge for edge in edges if self._place[edge.src] != here]
        reads = [edge for edge in far if self._reads(edge)]
        had = {edge: self._receive(edge, start) for edge in far if edge not in reads}
        before = [
            had[edge].name if edge in had else edge.src for edge in edges if edge not in reads
        ]
        had |= {edge: self._read(edge, start, before, node) for edge in reads}
        sources = [had.get(edge) or self._graph[edge.src] for edge in edges]
        names = [source.name for source in sources]
        if start and any(source.device != node.device for source in sources):
            names.append(start)
        return node.with_(
            inputs=tuple(
                old if old.node == new else Input(new)
                for old, new in zip(node.inputs, names, strict=False)
            ),
            control_inputs=tuple(names[len(node.inputs) :]),
        )

    def _reads(self, edge: Edge) -> bool:
        """Whether a reference variable crosses, which is then read, rather than a value."""
        return not edge.is_control and self._graph[edge.src].op in REFS

    def _read(self, edge: Edge, start: str | None, before: Sequence[str], reader: Node) -> Node:
        """A recv of the reader's own, that begins after all else that the reader waits for.

        The variable is read where it is, by the send: after what the reader waits for there.
        """
        written = [c for c in reader.control_inputs if self._place[c] == self._place[edge.src]]
        on_host = is_read_on_host(self._graph, edge, self._dtype(edge))
        return self._join(edge, (start, *before) if start else before, written, on_host=on_host)

    def _receive(self, edge: Edge, start: str | None) -> Node:
        """The node by which the edge's value is had in its consumer's partition.

        A value that a GPU's kernel reads on the host comes apart from one it reads in place.
        """
        on_host = is_read_on_host(self._graph, edge, self._dtype(edge))
        apart = on_host and "GPU" in self._graph[edge.dst].device
        key = edge.src, edge.src_port, self._place[edge.dst], apart
        if key not in self._received:
            self._received[key] = self._join(edge, (start,) if start else (), on_host=on_host)
        return self._received[key]

    def _dtype(self, edge: Edge) -> str:
        """Of what is sent; for a control edge that is an empty constant."""
        if edge.src_port is None:
            return NOTHING.dtype
        return dtype_of(self._graph, Input(edge.src, edge.src_port), self._dtypes)

    def _join(
        self, edge: Edge, after: Sequence[str], sent_after: Sequence[str] = (), *, on_host: bool
    ) -> Node:
        """Adds the pair; its recv sits on the device of the first consumer.

        By control edges the recv begins after `after`, in a loop over devices what starts the
        iteration, and the send after `sent_after`.
        """
        dtype = self._dtype(edge)
        source, target = self._graph[edge.src], self._graph[edge.dst]
        sending = self._parts[self._place[edge.src]]
        receiving = self._parts[self._place[edge.dst]]
        output, specs = self._value(edge, source, sending)
        attrs = self._key(edge)
        made_on_host = is_made_on_host(self._graph, edge, dtype)
        send = self._added(
            edge.src,
            "_HostSend" if made_on_host else "_Send",
            source,
            attrs={**attrs, "T": dtype},
            inputs=(output,),
            control_inputs=tuple(sent_after),
        )
        recv = self._added(
            edge.src,
            "_HostRecv" if on_host else "_Recv",
            target,
            attrs={**attrs, "tensor_type": dtype},
            specs=specs,
            control_inputs=tuple(after),
        )
        sending.append(send)
        receiving.append(recv)
        if not edge.is_control:
            return recv
        signal = self._added(
            edge.src,
            "Identity",
            target,
            inputs=(Input(recv.name),),
            attrs={"T": dtype},
            specs=specs,
        )
        receiving.append(signal)
        return signal

    def _key(self, edge: Edge) -> dict[str, Any]:
        """What the two ends of a pair have in common."""
        sender = self._graph[edge.src].device
        kind = "loop" if is_predicate(self._graph, edge) else "data"
        return {
            "tensor_name": f"edge_{next(self._pairs)}_{edge.src}",
            "send_device": sender,
            "recv_device": self._graph[edge.dst].device,
            "send_device_incarnation": self._incarnation_of(sender),
            "client_terminated": False,
            "_src": edge.src,
            "_dst": edge.dst,
            "edge_kind": "control" if edge.is_control else kind,
        }

    def _value(
        self, edge: Edge, source: Node, sending: list[Node]
    ) -> tuple[Input, tuple[TensorSpec, ...]]:
        """What is sent, and its spec: the output, or an empty constant after the source."""
        if edge.src_port is not None:
            spec = source.specs[edge.src_port : edge.src_port + 1]
            return Input(edge.src, edge.src_port), spec
        dummy = self._added(
            f"{edge.src}/ctrl",
            "Const",
            source,
            control_inputs=(edge.src,),
            attrs={"dtype": "float32", "value": NOTHING},
            specs=(NOTHING_SPEC,),
        )
        sending.append(dummy)
        return Input(dummy.name), dummy.specs

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
