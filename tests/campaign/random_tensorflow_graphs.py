"""Graphs drawn by chance, run by real TensorFlow and by us: the same cut, values and errors.

TensorFlow draws and runs them in an environment of its own (`make .venv-tensorflow/.ready`), once
over gRPC and once in one process, each in several sessions. Where its own sessions cut a graph in
different ways, ours must be one of them. What differs is printed; the files stay in FOLDER, in the
form of golden ones.

    python -m tests.campaign.random_tensorflow_graphs FOLDER [FIRST [COUNT]]
"""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import torch

from tests.cuts import Row, cut_of
from tests.runtime.test_golden_parity import (
    CODES,
    EXECUTORS,
    feeds_of,
    passes_of,
    same_values,
    session_of,
)
from tracer.model.graph import Graph, Partition
from tracer.model.graph_json import GraphFile, graph_file_from_json, nodes_from_json
from tracer.passes.describe import describe_graph_file, describe_partitions
from tracer.passes.frames import CONTROL_FLOW
from tracer.runtime.interfaces import StepError

PEER = Path(__file__).parent / "peer_random_graphs.py"
PYTHON = PEER.parents[2] / ".venv-tensorflow" / "bin" / "python"
SENDS = ("_Send", "_HostSend")


def main(folder: str, first: str = "0", count: str = "200") -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    python = os.environ.get("VIZDIST_TENSORFLOW_PYTHON", str(PYTHON))
    subprocess.run([python, str(PEER), folder, first, count], check=True)
    found: dict[str, list[str]] = defaultdict(list)
    counts: Counter[str] = Counter()
    for path in sorted(Path(folder).glob("random_*.json")):
        for what in differences(json.loads(path.read_text(encoding="utf-8")), counts):
            found[what].append(path.stem)
    sys.stdout.write(json.dumps({"compared": counts, "differs": found}, indent=1) + "\n")


def differences(raw: Row, counts: Counter[str]) -> list[str]:
    """What is not as TensorFlow had it, in few words each; `counts` what was compared."""
    try:
        file = graph_file_from_json(raw)
    except ValueError as error:
        return [f"not read: {error}"]
    return [*_cut_differs(raw, file, counts), *_run_differs(raw, file, counts)]


def _cut_differs(raw: Row, file: GraphFile, counts: Counter[str]) -> list[str]:
    if "partitions" not in raw:
        return []
    counts["cuts"] += 1
    theirs = [cut_of(raw, summary_of(file, parts)) for parts in (raw["partitions"], *raw["again"])]
    if any(one != theirs[0] for one in theirs):
        counts["cut in several ways by TensorFlow"] += 1
    try:
        ours = cut_of(raw, describe_graph_file(file, passes_of(raw["case"])))
    except ValueError as error:
        return [f"not cut: {error}"]
    if ours in theirs:
        return []
    differing = [name for name, told in ours.items() if told != theirs[0][name]]
    return [f"cut: {', '.join(differing)}"]


def summary_of(file: GraphFile, partitions: Row) -> Row:
    """TensorFlow's partitions, described as ours are."""
    known = set(file.graph)
    parts = [
        Partition(device, Graph(nodes_from_json(told(nodes, known))))
        for device, nodes in partitions.items()
    ]
    return describe_partitions(file.graph, Graph([]), parts)


def told(nodes: list[Row], known: set[str]) -> list[Row]:
    """Nodes of a partition, whose Sends say what kind of edge they stand for."""
    by_name = {node["name"]: node for node in nodes}
    found = []
    for node in nodes:
        attrs: dict[str, Any] = node["attrs"]
        if node["op"] in SENDS:
            source = by_name[node["inputs"][0].partition(":")[0]]
            is_dummy = source["op"] == "Const" and source["name"] not in known
            after = source["control_inputs"] if is_dummy else []
            attrs = attrs | {"edge_kind": "control" if after else "data", "_src": "".join(after)}
        found.append(
            node | {"attrs": {n: value for n, value in attrs.items() if n[:6] != "const_"}}
        )
    return found


def _run_differs(raw: Row, file: GraphFile, counts: Counter[str]) -> list[str]:
    """Through each executor that the graph goes through."""
    has_control_flow = any(node.op in CONTROL_FLOW for node in file.graph.nodes)
    return [
        said
        for executor in EXECUTORS[: 1 if has_control_flow else 2]
        for said in _executed(raw, file, executor, counts)
    ]


def _executed(raw: Row, file: GraphFile, executor: str, counts: Counter[str]) -> list[str]:
    try:
        with session_of(raw["case"], file, executor, "near") as session:
            if file.run.init:
                session.run(file.run.init)
            values = session.run(file.run.names, feeds_of(file))
    except StepError as error:
        counts["errors"] += 1
        wanted = raw.get("error", {}).get("error_code")
        is_same = wanted is not None and CODES.get(wanted) == error.code
        return [] if is_same else [f"error: {error.code} {error.message[:160]}"]
    except ValueError as error:
        return [f"not run: {error}"]
    if "error" in raw:
        return [f"no error: {raw['error']['error_code']} {raw['error']['message'][:160]}"]
    counts["values"] += 1
    try:
        same_values(file.run.names, values, raw["result"])
    except AssertionError as error:
        return [f"values: {' '.join(str(error).split())[:160]}"]
    return []


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
