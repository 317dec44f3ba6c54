"""How old the values were that gradients were made from: versions missed between read and write."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tracer.model.graph_table import NodeRow, input_node
from vizdist.analysis.bytes_moved import VARIABLE_OPS
from vizdist.analysis.step_split import is_update
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace

READS = ("ReadVariableOp", "Identity")


@dataclass(frozen=True, slots=True)
class Staleness:
    """`missed` counts updates by how many others came between their step's read and them.

    `worst` is the span id of an update that missed most, 0 if there is none.
    """

    missed: Mapping[int, int]
    num_variables: int
    worst: int

    @property
    def num_updates(self) -> int:
        return sum(self.missed.values())

    @property
    def most(self) -> int:
        return max(self.missed, default=0)


def staleness(trace: Trace) -> Staleness:
    """Joins, per client request and variable, the version read with the version written."""
    spans = trace.all.take(trace.all.is_kind("op.run") & (trace.all.version >= 0))
    spans = spans.take(spans.step > 0)
    variable_of = variables_by_node(trace)
    reads: dict[tuple[int, str], int] = {}
    updates: list[tuple[tuple[int, str], int, int]] = []
    for node, op, version, lo, span in _rows(spans):
        variable = variable_of.get(node)
        if variable is None:
            continue
        if is_update(op):
            updates.append(((lo, variable), version, span))
        else:
            key = lo, variable
            reads[key] = min(version, reads.get(key, version))
    missed: Counter[int] = Counter()
    worst = (-1, 0)
    for key, version, span in updates:
        if key in reads:
            behind = max(0, version - 1 - reads[key])
            missed[behind] += 1
            worst = max(worst, (behind, span))
    variables = {variable for (_, variable), _, _ in updates}
    return Staleness(dict(sorted(missed.items())), len(variables), worst[1])


def _rows(spans: Spans) -> Iterable[tuple[str, str, int, int, int]]:
    return zip(
        spans.text("name").tolist(),
        spans.text("op").tolist(),
        spans.version.tolist(),
        spans.trace_lo.tolist(),
        spans.span.tolist(),
        strict=True,
    )


def variables_by_node(trace: Trace) -> dict[str, str]:
    """The variable that each reading or writing node is about, in any registered graph."""
    found: dict[str, str] = {}
    for graph in trace.graphs:
        rows = graph.stages.get("device") or graph.stages.get("placed") or ()
        nodes = {row.name: row for row in rows}
        for row in rows:
            if row.op in READS or is_update(row.op):
                variable = _variable_of(row, nodes)
                if variable:
                    found[row.name] = variable
    return found


def _variable_of(row: NodeRow, nodes: Mapping[str, NodeRow]) -> str:
    source = nodes.get(input_node(row.inputs[0])) if row.inputs else None
    return source.name if source is not None and source.op in VARIABLE_OPS else ""


def histogram(found: Staleness) -> tuple[list[int], list[int]]:
    """(versions missed, number of updates), with the empty ones in between."""
    missed = np.arange(found.most + 1).tolist()
    return missed, [found.missed.get(number, 0) for number in missed]
