"""The life of a graph as one table: which node exists from which stage to which, and where.

Stages are `full → pruned → placed → worker → device`. A node whose inputs change (a fed one, one behind a
cut) has a row per form, so that the rows alive at a stage are exactly that stage's graph. The rows travel
in `graph.chunk` spans.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tracer.model.dtypes import dtype_of, num_outputs
from tracer.model.graph import Graph, GraphError, Input, Node, Partition, TensorSpec
from tracer.passes.keys import SENDS, key_of

STAGES = ("full", "pruned", "placed", "worker", "device")

Row = dict[str, Any]


class _Form(NamedTuple):
    """A node as it is wired; a change makes a new row."""

    node: str
    inputs: tuple[Input, ...]
    control_inputs: tuple[str, ...]


def graph_table(
    full: Graph,
    pruned: Graph,
    placed: Graph,
    by_worker: Sequence[Partition],
    by_device: Sequence[Partition],
) -> list[Row]:
    """One row per form of a node, in order of appearance.

    `appears` and `vanishes` are stages, `vanishes` the first one without it ("" if it runs). `partition`
    is the task's prefix after the cut by worker, the device after that by device, and the last one it
    was in. `bytes` is the size of all outputs (of what is sent, for a Send), 0 where a shape is unknown.
    """
    whole = [[Partition("", graph)] for graph in (full, pruned, placed)]
    rows: dict[_Form, Row] = {}
    alive: set[_Form] = set()
    for stage, partitions in zip(STAGES, (*whole, by_worker, by_device), strict=True):
        now: set[_Form] = set()
        for part, node in _nodes(partitions):
            form = _Form(node.name, node.inputs, node.control_inputs)
            row = rows.setdefault(form, {"node": node.name, "appears": stage, "vanishes": ""})
            row |= _cells(part, node)
            now.add(form)
        for form in alive - now:
            rows[form]["vanishes"] = stage
        alive = now
    return list(rows.values())


def _nodes(partitions: Sequence[Partition]) -> Iterator[tuple[Partition, Node]]:
    return ((part, node) for part in partitions for node in part.graph.nodes)


def _cells(part: Partition, node: Node) -> Row:
    specs = node.specs or _sent(part.graph, node)
    return {
        "op": node.op,
        "inputs": [str(source) for source in node.inputs],
        "control_inputs": list(node.control_inputs),
        "requested_device": node.requested_device,
        "device": node.device,
        "reason": node.reason,
        "partition": part.place,
        "dtype": specs[0].dtype if specs else _dtype(part.graph, node),
        "shape": list(specs[0].shape) if specs else None,
        "bytes": sum(spec.num_bytes for spec in specs),
        "key": str(key) if (key := key_of(node)) else "",
        "source": node.source,
    }


def _sent(graph: Graph, node: Node) -> tuple[TensorSpec, ...]:
    if node.op not in (*SENDS, "_Retval"):
        return ()
    source = node.inputs[0]
    return graph[source.node].specs[source.port : source.port + 1]


def _dtype(graph: Graph, node: Node) -> str:
    if not num_outputs(node):
        return str(node.attrs.get("T", ""))
    try:
        return dtype_of(graph, Input(node.name))
    except GraphError:
        return ""
