"""Variables of a run: where their copies lie, whether they agree, which versions were read."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tracer.model.cluster import DeviceName
from tracer.model.graph_table import NodeRow
from vizdist.analysis.bytes_moved import VARIABLE_OPS
from vizdist.analysis.handles import Held, gradient_of, held_by_handles, variable_of
from vizdist.analysis.kept import kept
from vizdist.analysis.keys import title_of_input
from vizdist.analysis.staleness import all_accesses
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
    def is_copied(self) -> bool:
        """Whether a strategy keeps copies of it; tasks may have variables of one name as well."""
        return bool(self.synchronization) and len(self.copies) > 1

    @property
    def agrees(self) -> bool | None:
        """Whether all copies have the same bytes; None where that was not told of two or more."""
        told = [copy.print for copy in self.copies if copy.print]
        return len(set(told)) == 1 if len(told) > 1 and len(told) == len(self.copies) else None

    @property
    def has_parted(self) -> bool:
        """Whether copies that should be equal are not."""
        return self.agrees is False and self.synchronization != ON_READ


@kept(4)
def variables(trace: Trace, number: int) -> tuple[Variable, ...]:
    """Those that the steps of this number use: what parted first, then the largest."""
    requests = [step for step in trace.steps if step.number == number]
    told = dict(_prints(trace, requests))
    versions = _versions(trace, number)
    found: dict[str, Variable] = {}
    for table in {graph.id: graph for step in requests if (graph := trace.graph(step))}.values():
        rows = table.last_rows
        held = held_by_handles(rows)
        for row in rows:
            if row.op in VARIABLE_OPS:
                _add(found, row, held.get(row.name, Held((), 0)), told, versions)
    return tuple(sorted(found.values(), key=lambda one: (not one.has_parted, -one.bytes, one.name)))


def _add(
    found: dict[str, Variable],
    row: NodeRow,
    held: Held,
    told: Mapping[tuple[str, str], Copy],
    versions: Mapping[tuple[str, str], int],
) -> None:
    name, place = variable_of(row), _place(row.device)
    version = versions.get((row.name, place), -1)
    copy = told.get((row.name, row.device)) or Copy(row.name, place, version)
    known = found.get(name)
    if known is None:
        when, how = (str(row.attrs.get(key, "")) for key in ("_synchronization", "_aggregation"))
        found[name] = Variable(name, *held, when, how, (copy,))
    elif (copy.name, copy.place) not in {(one.name, one.place) for one in known.copies}:
        found[name] = replace(known, copies=(*known.copies, copy))


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


def _versions(trace: Trace, number: int) -> Mapping[tuple[str, str], int]:
    """(handle, place) → newest version that steps of this number read or made."""
    every = all_accesses(trace)
    spans = trace.all.take(every.places)
    own = spans.step == number
    newest = np.full(len(every.copies), -1)
    np.maximum.at(newest, every.copy[own], spans.version[own])
    pairs = zip(every.copies, newest.tolist(), strict=True)
    return {(handle, _place(device)): version for (handle, device), version in pairs}


def places_of(found: Iterable[Variable]) -> list[str]:
    """Where copies lie: those that parted first, else by name and number."""
    copies = [(one, copy) for one in found for copy in one.copies]
    parted = {copy.place for one, copy in copies if one.agrees is False and _is_odd(one, copy)}
    places = {copy.place for _, copy in copies}
    return sorted(places, key=lambda place: (place not in parted, by_number(place)))


def read_of(one: Variable) -> Copy | float | str:
    """What a read from outside of replicas gives: a copy, a reduced number, or only the rule.

    The rule alone is known of NONE, which cannot be read so, and of copies that are no scalars.
    """
    if one.synchronization != ON_READ or one.aggregation.startswith("ONLY_FIRST"):
        return one.copies[0]
    scalars = [copy.scalar for copy in one.copies if copy.scalar is not None]
    if one.aggregation == NONE or len(scalars) < len(one.copies):
        return one.aggregation
    return sum(scalars) / (len(scalars) if one.aggregation == "MEAN" else 1)


def held_by(found: Iterable[Variable], place: str) -> int:
    """Bytes of the copies that lie there."""
    return sum(one.bytes for one in found for copy in one.copies if copy.place == place)


def _is_odd(one: Variable, copy: Copy) -> bool:
    """Whether a copy that should be as the others is not."""
    return one.synchronization != ON_READ and copy.print != one.copies[0].print


def by_number(place: str) -> list[tuple[int, str]]:
    """ps:2 comes before ps:10."""
    parts = re.split(r"(\d+)", place)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


@dataclass(frozen=True, slots=True)
class Access:
    """A step of a client read a version, or made one, from a `gradient` that is called so.

    `missed`: how many others came between.
    """

    at: int  #: ns since the epoch
    client: str
    kind: Literal["read", "apply"]
    version: int
    missed: int
    step: int
    span: str
    gradient: str = ""


def accesses(trace: Trace, of: Copy) -> list[Access]:
    """Of one copy; by time. A version is made by the apply that ends."""
    every = all_accesses(trace)
    meant = [
        at
        for at, (handle, device) in enumerate(every.copies)
        if handle == of.name and _place(device) in ("", of.place)
    ]
    own = np.flatnonzero(np.isin(every.copy, meant))
    spans = trace.all.take(every.places[own])
    clients = {step.trace_lo: step.task for step in trace.steps}
    gradients = _gradients(trace)
    columns = (
        spans.trace_lo, spans.end, spans.version, spans.step, spans.span,
        every.writes[own], np.maximum(every.missed[own], 0), spans.text("name"),
    )  # fmt: skip
    read: set[int] = set()
    found = []
    for request, at, version, step, span, writes, missed, node in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        if writes or request not in read:
            kind: Literal["read", "apply"] = "apply" if writes else "read"
            client = clients.get(request, "")
            made_of = gradients.get(node, "") if writes else ""
            found.append(Access(at, client, kind, version, missed, step, hex_id(span), made_of))
        if not writes:
            read.add(request)
    return found


def _gradients(trace: Trace) -> dict[str, str]:
    """Of every op that applies one: the node that made it, wherever that ran."""
    found = {}
    for graph in trace.graphs:
        rows = {row.name: row for row in graph.last_rows}
        for row in rows.values():
            if name := gradient_of(row):
                found[row.name] = title_of_input(name, rows)
    return found


def missed_counts(found: Iterable[Access]) -> list[int]:
    """How many updates missed no version, one, two … up to the most that one missed."""
    missed = Counter(one.missed for one in found if one.kind == "apply")
    return [missed[number] for number in range(max(missed, default=-1) + 1)]
