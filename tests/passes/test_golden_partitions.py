"""Our cut of a graph against what TensorFlow did with it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tracer.model.graph_json import read_graph_file
from tracer.ops.registry import lookup
from tracer.passes.describe import cut_by_device, describe_partitions
from tracer.passes.partition import check_partitions
from tracer.passes.place import place
from tracer.passes.prune import prune

GOLDEN = Path(__file__).parent.parent / "golden"
CASES = sorted(path.stem for path in GOLDEN.glob("*__*.json"))


def ours(case: str) -> dict[str, Any]:
    given = read_graph_file(GOLDEN / f"{case}.json")
    pruned = prune(
        given.graph, given.run.feeds, given.run.fetches, given.run.targets, given.client_device
    )
    placed = place(pruned, given.devices, given.client_device, lookup)
    partitions = cut_by_device(placed, given.devices)
    check_partitions(placed, partitions)
    return describe_partitions(given.graph, placed, partitions)


def theirs(case: str) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((GOLDEN / f"{case}.json").read_text())["summary"]
    return summary


def consumers_of(row: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Consumers by client name; a generated one (a cut's Identity or Send) by op alone."""
    named = [(c["op"], c["input"], c.get("from_port"), c["node"]) for c in row["consumers"]]
    is_signal = row.get("kind") == "control"
    return sorted((*c[:3], "" if is_signal or c[3] != c[3].split("_S")[0] else c[3]) for c in named)


def comparable(rows: list[dict[str, Any]]) -> list[Any]:
    fields = ("kind", "source", "send_device", "recv_device", "dtype", "recv_ops")
    return sorted(
        [row[f] for f in fields] + [consumers_of(row), sorted(row.get("control_consumers", []))]
        for row in rows
    )


@pytest.mark.parametrize("case", CASES)
def test_the_cut_is_tensorflows(case: str) -> None:
    got, expected = ours(case), theirs(case)
    assert comparable(got["transfers"]) == comparable(expected["transfers"])
    assert got["counts"] == expected["counts"]
