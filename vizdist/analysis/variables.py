"""Variables of a run: where their copies lie, whether they agree, which versions were read."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tracer.model.cluster import DeviceName
from tracer.model.graph_table import NodeRow, input_node
from vizdist.analysis.bytes_moved import VARIABLE_OPS
from vizdist.analysis.kept import kept
from vizdist.analysis.replicas import spans_of
from vizdist.analysis.staleness import variables_by_node
from vizdist.analysis.step_split import is_update
from vizdist.store.details import hex_id
from vizdist.store.trace import StepInfo, Trace

NONE, ON_READ = "NONE", "ON_READ"


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy; `print`: of its bytes after the step, "" where the step told none."""

    name: str  #: of its handle
    place: str  #: ps:0, or CPU:1 where one task has all
    version: int  #: after the step; -1: not told
    print: str = ""
    scalar: float | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """`bytes` are of one copy; `synchronization` is ON_WRITE or ON_READ, "" where none is told."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    synchronization: str
    aggregation: str
    copies: tuple[Copy, ...]

    @property
    def agrees(self) -> bool | None:
        """Whether all copies have the same bytes; None where that was not told of two or more."""
        told = [copy.print for copy in self.copies if copy.print]
        return len(set(told)) == 1 if len(told) > 1 and len(told) == len(self.copies) else None


@kept(4)
def variables(trace: Trace, number: int) -> tuple[Variable, ...]:
    """Those that the steps of this number use, largest first."""
    requests = [step for step in trace.steps if step.number == number]
    told = dict(_prints(trace, requests))
    versions = _versions(trace, requests)
    found: dict[str, Variable] = {}
    for table in {graph.id: graph for step in requests if (graph := trace.graph(step))}.values():
        rows = table.stages.get(table.last_stage, ())
        sizes = {input_node(row.inputs[0]): row for row in rows if _is_read(row)}
        for row in rows:
            if row.op in VARIABLE_OPS:
                _add(found, row, sizes.get(row.name), told, versions)
    return tuple(sorted(found.values(), key=lambda one: (-one.bytes, one.name)))


def _is_read(row: NodeRow) -> bool:
    return row.op in ("ReadVariableOp", "Identity") and bool(row.inputs)


def _add(
    found: dict[str, Variable],
    row: NodeRow,
    read: NodeRow | None,
    told: Mapping[tuple[str, str], Copy],
    versions: Mapping[str, int],
) -> None:
    name, place = _base(row), _place(row.device)
    copy = told.get((row.name, row.device)) or Copy(row.name, place, versions.get(row.name, -1))
    known = found.get(name)
    if known is None:
        shape = read.specs[0][1] if read and read.specs else ()
        when, how = (str(row.attrs.get(key, "")) for key in ("_synchronization", "_aggregation"))
        found[name] = Variable(name, shape, read.bytes if read else 0, when, how, (copy,))
    elif (copy.name, copy.place) not in {(one.name, one.place) for one in known.copies}:
        found[name] = replace(known, copies=(*known.copies, copy))


def _base(row: NodeRow) -> str:
    """What the copies of a variable have in common: `v` of `v/replica_1`."""
    stem, _, last = row.name.rpartition("/")
    is_copy = last.startswith("replica_") and row.attrs.get("_copies", 1) > 1
    return stem if is_copy else row.name


def _place(device: str) -> str:
    """`ps:0`; of a task without a cluster its device, `CPU:1`."""
    if not device:
        return ""
    name = DeviceName.parse(device)
    own = f"{name.type}:{name.index}"
    if name.job == "localhost":
        return own
    return str(name.task_name) if own == "CPU:0" else f"{name.task_name} {own}"


def _prints(trace: Trace, requests: Sequence[StepInfo]) -> Iterator[tuple[tuple[str, str], Copy]]:
    """(handle, device) → what the step told of that copy."""
    for request in requests:
        places = trace.step_places(request)
        told = places[trace.all.is_kind("variable.copies")[places]]
        for attributes in trace.attributes(told.tolist()).values():
            for name, device, version, print_, *scalar in _entries(attributes):
                copy = Copy(name, _place(device), version, print_, scalar[0] if scalar else None)
                yield (name, device), copy


def _entries(attributes: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """A trace is untrusted: what is no list of entries is none."""
    try:
        told = json.loads(str(attributes.get("vizdist.variable.copies", "[]")))
    except ValueError:
        return []
    return [tuple(one) for one in told if _is_entry(one)] if isinstance(told, list) else []


def _is_entry(one: Any) -> bool:
    """[handle, device, version, print] and, of a scalar, its value."""
    kinds = (str, str, int, str, int | float)
    is_whole = isinstance(one, list) and len(one) in (4, 5)
    return is_whole and all(map(isinstance, one, kinds))


def _versions(trace: Trace, requests: Sequence[StepInfo]) -> Mapping[str, int]:
    """Handle → newest version that the requests read or wrote."""
    spans = spans_of(trace, requests)
    spans = spans.take(spans.is_kind("op.run") & (spans.version >= 0))
    nodes = variables_by_node(trace)
    newest: dict[str, int] = {}
    for node, version in zip(spans.text("name").tolist(), spans.version.tolist(), strict=True):
        if variable := nodes.get(node):
            newest[variable] = max(version, newest.get(variable, -1))
    return newest


def places_of(found: Iterable[Variable]) -> list[str]:
    """Where copies lie: those that parted first, else by name and number."""
    copies = [(one, copy) for one in found for copy in one.copies]
    parted = {copy.place for one, copy in copies if one.agrees is False and _is_odd(one, copy)}
    places = {copy.place for _, copy in copies}
    return sorted(places, key=lambda place: (place not in parted, _natural(place)))


def _is_odd(one: Variable, copy: Copy) -> bool:
    """Whether a copy that should be as the others is not."""
    return one.synchronization != ON_READ and copy.print != one.copies[0].print


def _natural(place: str) -> list[tuple[int, str]]:
    """ps:2 comes before ps:10."""
    parts = re.split(r"(\d+)", place)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


@dataclass(frozen=True, slots=True)
class Access:
    """A step of a client read a version, or made one. `missed`: by how many others came between."""

    at: int  #: ns since the epoch
    client: str
    kind: Literal["read", "apply"]
    version: int
    missed: int
    step: int
    span: str


def accesses(trace: Trace, variable: str) -> list[Access]:
    """Of one variable, by handle; by time. A version is made by the apply that ends."""
    nodes = variables_by_node(trace)
    names = [node for node, handle in nodes.items() if handle == variable]
    spans = trace.all
    mask = spans.is_kind("op.run") & (spans.version >= 0) & (spans.step > 0)
    spans = spans.take(mask & spans.has_word("name", *names))
    clients = {step.trace_lo: step.task for step in trace.steps}
    reads: dict[int, int] = {}
    found = []
    for at in np.argsort(spans.end, kind="stable").tolist():
        request, version = int(spans.trace_lo[at]), int(spans.version[at])
        writes = is_update(str(spans.text("op")[at]))
        if not writes:
            if request in reads:
                continue
            reads[request] = version
        missed = max(0, version - 1 - reads.get(request, version - 1)) if writes else 0
        found.append(
            Access(
                int(spans.end[at]),
                clients.get(request, ""),
                "apply" if writes else "read",
                version,
                missed,
                int(spans.step[at]),
                hex_id(int(spans.span[at])),
            )
        )
    return found
