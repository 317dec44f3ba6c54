"""Say what the cut of a graph looks like, in the form of the golden files' `summary`.

The rows are read off the final partitions (by device), so they state what runs, not what was meant.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tracer.model.cluster import DeviceName
from tracer.model.graph import Graph, Node, Partition
from tracer.model.step import RendezvousKey
from tracer.passes.partition import partition_by_device, partition_by_worker

Row = dict[str, Any]


def cut_by_device(placed: Graph, devices: Iterable[DeviceName]) -> list[Partition]:
    """Both cuts in one, without a cluster that could tell its incarnations (each is 1)."""
    incarnations = {str(device): 1 for device in devices}
    return [
        by_device
        for by_worker in partition_by_worker(placed, incarnations)
        for by_device in partition_by_device(by_worker.graph, incarnations)
    ]


def describe_partitions(full: Graph, placed: Graph, partitions: Sequence[Partition]) -> Row:
    """What `tracer partition --json` prints: transfers, client ends, added and dropped nodes, places.

    `full` is the client's graph, `placed` the pruned and placed one, `partitions` those by device.
    """
    ends = [
        (part, node)
        for part in partitions
        for node in part.graph.nodes
        if node.op in ("_Send", "_Recv")
    ]
    present = {name for part in partitions for name in part.graph}
    return {
        "transfers": _transfers(ends),
        "client_feeds": [_feed(part, node) for part, node in ends if _is_client(node, "_Recv")],
        "client_fetches": [_fetch(node) for _, node in ends if _is_client(node, "_Send")],
        "added_nodes": {
            part.place: [
                {"name": n.name, "op": n.op} for n in part.graph.nodes if n.name not in full
            ]
            for part in partitions
        },
        "dropped_client_nodes": [name for name in full if name not in present],
        "counts": {
            part.place: dict(Counter(node.op for node in part.graph.nodes)) for part in partitions
        },
        "placements": [
            {
                "node": node.name,
                "requested_device": node.requested_device,
                "device": node.device,
                "reason": node.reason,
            }
            for node in placed.nodes
        ],
    }


def key_of(node: Node) -> RendezvousKey:
    """The key of a `_Send` or `_Recv` outside loops."""
    attrs = node.attrs
    return RendezvousKey(
        attrs["send_device"],
        attrs["send_device_incarnation"],
        attrs["recv_device"],
        attrs["tensor_name"],
    )


def _is_client(node: Node, op: str) -> bool:
    return node.op == op and bool(node.attrs["client_terminated"])


def _transfers(ends: Sequence[tuple[Partition, Node]]) -> list[Row]:
    receivers = {
        key_of(node): (part, node)
        for part, node in ends
        if node.op == "_Recv" and not node.attrs["client_terminated"]
    }
    rows = [
        _transfer(part, node, *receivers[key_of(node)])
        for part, node in ends
        if node.op == "_Send" and not node.attrs["client_terminated"]
    ]
    return sorted(
        rows, key=lambda row: tuple(row[k] for k in ("send_device", "recv_device", "source"))
    )


def _transfer(sender: Partition, send: Node, receiver: Partition, recv: Node) -> Row:
    is_control = send.attrs["edge_kind"] == "control"
    row: Row = {"kind": "data", "source": str(send.inputs[0])}
    if is_control:
        dummy = sender.graph[send.inputs[0].node]
        row = {"kind": "control", "source": f"^{send.attrs['_src']}", "dummy_const": dummy.name}
    row |= {
        "send_node": send.name,
        "send_op": send.op,
        "send_device": send.attrs["send_device"],
        "recv_device": send.attrs["recv_device"],
        "tensor_name": send.attrs["tensor_name"],
        "dtype": send.attrs["T"],
        "recv_nodes": [recv.name],
        "recv_ops": [recv.op],
        "recv_control_inputs": [list(recv.control_inputs)],
        "consumers": _consumers(receiver.graph, recv.name),
    }
    if is_control:
        signals = [edge.dst for edge in receiver.graph.out_edges(recv.name)]
        row["control_consumers"] = [
            edge.dst for signal in signals for edge in receiver.graph.out_edges(signal)
        ]
    return row


def _consumers(graph: Graph, name: str) -> list[Row]:
    return [
        {"node": edge.dst, "op": graph[edge.dst].op}
        | (
            {"input": "control"}
            if edge.is_control
            else {"input": edge.dst_port, "from_port": edge.src_port}
        )
        for edge in graph.out_edges(name)
    ]


def _feed(part: Partition, node: Node) -> Row:
    return {
        "device": node.device,
        "recv_node": node.name,
        "tensor_name": node.attrs["tensor_name"],
        "send_device": node.attrs["send_device"],
        "recv_device": node.attrs["recv_device"],
        "consumers": _consumers(part.graph, node.name),
    }


def _fetch(node: Node) -> Row:
    return {
        "device": node.device,
        "send_node": node.name,
        "tensor_name": node.attrs["tensor_name"],
        "send_device": node.attrs["send_device"],
        "recv_device": node.attrs["recv_device"],
        "source": str(node.inputs[0]),
    }
