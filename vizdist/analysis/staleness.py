"""How old the values were that gradients were made from: versions missed between read and write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracer.model.graph_table import NodeRow, input_node
from vizdist.analysis.bytes_moved import VARIABLE_OPS
from vizdist.analysis.handles import variable_of
from vizdist.analysis.kept import kept
from vizdist.analysis.step_split import is_update, op_mask
from vizdist.store.segments import NEVER, Array
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace

READS = ("ReadVariableOp", "ResourceGather", "Identity")


@dataclass(frozen=True, slots=True)
class Staleness:
    """`missed` counts updates by how many others came between their step's read and them.

    `num_variables` were updated, in `num_copies` that count each; `num_others` have no update of
    their own. `worst` is the span id of an update that missed most, 0 if there is none.
    """

    missed: Mapping[int, int]
    num_variables: int
    num_copies: int
    num_others: int
    worst: int

    @property
    def num_updates(self) -> int:
        return sum(self.missed.values())

    @property
    def most(self) -> int:
        return max(self.missed, default=0)


@dataclass(frozen=True, slots=True)
class Accesses:
    """What read or wrote copies of variables in steps, by the time at which it ended.

    `missed` are the versions that others made between an update and the read of its request; -1
    where there was no such read, and of reads.
    """

    places: Array  #: in the trace's table
    copies: Sequence[tuple[str, str]]  #: (handle, device)
    copy: Array  #: which one of these
    writes: Array
    missed: Array


@kept()
def all_accesses(trace: Trace) -> Accesses:
    """Joins, per client request and copy of a variable, the version read with the version made."""
    every = trace.all
    places = np.flatnonzero(every.is_kind("op.run") & (every.version >= 0) & (every.step > 0))
    copies, copy = _copies(trace, every.take(places))
    places, copy = places[copy >= 0], copy[copy >= 0]
    order = np.argsort(every.take(places).end, kind="stable")
    places, copy = places[order], copy[order]
    spans = every.take(places)
    writes = op_mask(spans, is_update)
    _, request = np.unique(spans.trace_lo, return_inverse=True)
    group = request * max(len(copies), 1) + copy
    first = np.full(int(group.max(initial=-1)) + 1, NEVER)
    np.minimum.at(first, group[~writes], spans.version[~writes])
    read = first[group]
    behind = np.maximum(spans.version - 1 - read, 0)
    missed = np.where(writes & (read < NEVER), behind, -1)
    return Accesses(places, copies, copy, writes, missed)


def _copies(trace: Trace, ops: Spans) -> tuple[Sequence[tuple[str, str]], Array]:
    """The copies that ops read or write, and of each op which one; -1: none."""
    handles = variables_by_node(trace)
    names, devices = ops.words["name"], ops.words["device"]
    packed = ops.codes("name").astype(np.int64) * len(devices) + ops.codes("device")
    distinct, where = np.unique(packed, return_inverse=True)
    known: dict[tuple[str, str], int] = {}
    found = []
    for name, device in (divmod(one, len(devices)) for one in distinct.tolist()):
        copy = handles.get(names[name], ""), devices[device]
        found.append(known.setdefault(copy, len(known)) if copy[0] else -1)
    return tuple(known), np.array(found, np.int64)[where]


def staleness(trace: Trace) -> Staleness:
    """Of the updates whose request read the variable before."""
    found = all_accesses(trace)
    names = variable_names(trace)
    copies = [found.copies[copy] for copy in np.unique(found.copy[found.writes]).tolist()]
    updated = {names.get(handle, handle) for handle, _ in copies}
    missed, counts = np.unique(found.missed[found.missed >= 0], return_counts=True)
    late = found.places[found.missed == missed[-1]] if len(missed) else np.empty(0, np.int64)
    worst = trace.all.take(late).span.max(initial=0)
    others = set(names.values()) - updated
    histogram = dict(zip(missed.tolist(), counts.tolist(), strict=True))
    return Staleness(histogram, len(updated), len(copies), len(others), int(worst))


def variable_names(trace: Trace) -> dict[str, str]:
    """Of every handle in the registered graphs: copies have one name."""
    return {
        row.name: variable_of(row)
        for graph in trace.graphs
        for row in graph.last_rows
        if row.op in VARIABLE_OPS
    }


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
