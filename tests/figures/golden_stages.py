"""Node tables as a trace holds them, made of what real TensorFlow cut (tests/golden)."""

import json
import random
from pathlib import Path
from typing import Any

from tracer.model.graph import ITEM_BYTES
from tracer.model.graph_table import NodeRow

GOLDEN = Path(__file__).parent.parent / "golden"


def golden(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{case}.json").read_text())
    return found


def device_rows(case: str) -> list[NodeRow]:
    """The stage "split by device" of a golden case."""
    data = golden(case)
    control = {t["tensor_name"] for t in data["summary"]["transfers"] if t["kind"] == "control"}
    return [
        golden_row(node, device, control)
        for device, nodes in data["partitions"].items()
        for node in nodes
    ]


def client_rows(case: str) -> list[NodeRow]:
    """The stage "full": the client's graph, nothing placed."""
    return [golden_row(node, "", set()) for node in golden(case)["client_graph"]]


def golden_row(node: dict[str, Any], partition: str, control: set[str]) -> NodeRow:
    attrs = dict(node.get("attrs", {}))
    if node["op"] in ("_Send", "_Recv", "_HostSend", "_HostRecv"):
        attrs["edge_kind"] = "control" if attrs["tensor_name"] in control else "data"
    shape = attrs.get("const_shape", attrs.get("shape"))
    dtype = str(attrs.get("dtype", attrs.get("T", attrs.get("tensor_type", ""))))
    specs = () if shape is None else ((dtype, tuple(shape)),)
    size = ITEM_BYTES.get(dtype, 0)
    for dim in shape or ():
        size *= dim
    return NodeRow(
        name=node["name"],
        op=node["op"],
        inputs=(*node["inputs"], *(f"^{name}" for name in node.get("control_inputs", ()))),
        requested_device=node.get("requested_device", ""),
        device=partition,
        reason="",
        partition=partition,
        specs=specs,
        bytes=size if specs else 0,
        source="",
        attrs=attrs,
    )


def random_rows(seed: int, num_nodes: int, num_devices: int, fan_in: int = 2) -> list[NodeRow]:
    """A random graph, cut: every edge over a border is a pair, one for each output and device."""
    rng = random.Random(seed)
    devices = [
        f"/job:{'ps' if i % 3 == 0 else 'worker'}/replica:0/task:{i}/device:CPU:0"
        for i in range(num_devices)
    ]
    home = [rng.choice(devices) for _ in range(num_nodes)]
    rows: list[NodeRow] = []
    received: dict[tuple[int, str], str] = {}
    ops = ("MatMul", "BiasAdd", "Relu", "VariableV2", "Const", "ApplyGradientDescent", "NoOp")
    for i in range(num_nodes):
        inputs = []
        for _ in range(rng.randint(0, fan_in) if i else 0):
            j = rng.randrange(max(0, i - 40), i)
            if home[j] != home[i]:
                inputs.append(_received(rows, received, j, home[j], home[i]))
            else:
                inputs.append(f"layer{j // 9}/n{j}")
        rows.append(_row(f"layer{i // 9}/n{i}", rng.choice(ops), tuple(inputs), home[i], {}))
    return rows


def _received(
    rows: list[NodeRow], received: dict[tuple[int, str], str], j: int, src: str, dst: str
) -> str:
    if (j, dst) not in received:
        attrs = {
            "tensor_name": f"edge_{len(received)}_n{j}",
            "send_device": src,
            "recv_device": dst,
            "edge_kind": "data",
        }
        name = f"n{j}_S{2 * len(received)}"
        received[j, dst] = f"{name}r"
        rows.append(_row(name, "_Send", (f"layer{j // 9}/n{j}",), src, attrs))
        rows.append(_row(f"{name}r", "_Recv", (), dst, attrs))
    return received[j, dst]


def _row(
    name: str, op: str, inputs: tuple[str, ...], device: str, attrs: dict[str, Any]
) -> NodeRow:
    return NodeRow(name, op, inputs, "", device, "", device, (), 0, "", attrs)
