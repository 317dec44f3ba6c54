"""Say what the cut of a graph looks like, in the form of the golden files' `summary`.

The rows are read off the final partitions (by device), so they state what runs, not what was meant.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tracer.model.graph import Graph, Node, Partition
from tracer.model.graph_json import GraphFile
from tracer.ops.registry import lookup
from tracer.passes.check_graph import check_graph
from tracer.passes.keys import RECVS, SENDS, key_of
from tracer.passes.optimize import optimize, optimize_cut
from tracer.passes.partition import check_partitions, partition_by_device, partition_by_worker
from tracer.passes.placer import BY_RULE, Placer
from tracer.passes.prune import prune

Row = dict[str, Any]


def describe_graph_file(
    given: GraphFile, passes: Iterable[str] = (), placer: Placer = BY_RULE
) -> Row:
    """Prunes, places and cuts what the file asks to run, without running it.

    Raises GraphError where the request or a device is wrong.
    """
    placed, by_device = cut_graph_file(given, passes, placer)
    return describe_partitions(given.graph, placed, by_device) | _times(placed, placer)


def _times(placed: Graph, placer: Placer) -> Row:
    """What a step will take by the costs, and what those of the trace took that they are from."""
    predicted_ns = placer.predicted_ns(placed)
    if predicted_ns is None:
        return {}
    measured = {"measured_step_ns": placer.costs.step_ns} if placer.costs else {}
    return {"predicted_step_ns": predicted_ns, **measured}


def cut_graph_file(
    given: GraphFile, passes: Iterable[str] = (), placer: Placer = BY_RULE
) -> tuple[Graph, list[Partition]]:
    """The pruned and placed graph, and its partitions by device. Raises GraphError."""
    check_graph(given.graph, given.devices, lookup, soft=placer.soft)
    run, client = given.run, given.client_device
    pruned = prune(given.graph, run.feeds, run.fetches, run.targets, client)
    placed = optimize(placer.place(pruned, given.devices, client, lookup), passes)
    incarnations = dict.fromkeys(map(str, given.devices), 1)  # nothing runs, so nothing restarts
    by_device = [
        part
        for task in optimize_cut(placed, partition_by_worker(placed, incarnations), passes)
        for part in partition_by_device(task.graph, incarnations)
    ]
    check_partitions(placed, by_device)
    return placed, by_device


def describe_partitions(full: Graph, placed: Graph, partitions: Sequence[Partition]) -> Row:
    """What `tracer partition --json` prints.

    `full` is the client's graph, `placed` the pruned and placed one, `partitions` those by device.
    """
    ends = [
        (part, node) for part in partitions for node in part.graph.nodes if node.op in SENDS + RECVS
    ]
    present = {name for part in partitions for name in part.graph}
    return {
        "transfers": _transfers(ends),
        "client_feeds": [_feed(part, node) for part, node in ends if _is_client(node, RECVS)],
        "client_fetches": [_fetch(node) for _, node in ends if _is_client(node, SENDS)],
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


def _is_client(node: Node, ops: tuple[str, ...]) -> bool:
    return node.op in ops and bool(node.attrs["client_terminated"])


def _transfers(ends: Sequence[tuple[Partition, Node]]) -> list[Row]:
    receivers = {
        key_of(node): (part, node)
        for part, node in ends
        if node.op in RECVS and not node.attrs["client_terminated"]
    }
    rows = [
        _transfer(part, node, *receivers[key_of(node)])
        for part, node in ends
        if node.op in SENDS and not node.attrs["client_terminated"]
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
