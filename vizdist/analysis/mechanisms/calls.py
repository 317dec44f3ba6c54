"""The calls between tasks in a step, method by method and pair by pair."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.kept import kept
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.analysis.waiting import task_numbers
from vizdist.i18n import Lang
from vizdist.i18n.units import duration, size
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace


@dataclass(frozen=True, slots=True)
class Method:
    """Times are of the calling side, in ns, None where no call lasts: nobody waits for its answer.

    `server` is empty where nobody is known to serve.
    """

    method: str
    client: str
    server: str
    count: int
    errors: int
    p50_ns: int | None
    p95_ns: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Calls:
    methods: Sequence[Method]


def find(one: OneStep) -> Calls | None:
    """None where no call was recorded, as in a run of one process."""
    found = methods_of(one.trace, one.of_kind("rpc.client"))
    return Calls(found) if found else None


def methods_of(trace: Trace, calls: Spans) -> list[Method]:
    """The calling sides of some calls, by method and pair of tasks."""
    if not len(calls):
        return []
    tasks = np.array(["", *trace.tasks], dtype=object)
    own = task_numbers(trace) + 1
    served = trace.served_by(calls.span)
    servers = np.where(served >= 0, own[trace.all.row[np.maximum(served, 0)]], 0)
    pairs = own[calls.row] * len(tasks) + servers
    groups = calls.codes("name").astype(np.int64) * len(tasks) ** 2 + pairs
    order = np.argsort(groups, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    found = [
        _method(calls.take(part), str(tasks[own[calls.row[part[0]]]]), str(tasks[servers[part[0]]]))
        for part in parts
    ]
    return sorted(found, key=lambda one: (one.method, one.client, one.server))


@kept()
def methods_of_run(trace: Trace) -> list[Method]:
    return methods_of(trace, trace.all.take(trace.all.is_kind("rpc.client")))


def _method(calls: Spans, client: str, server: str) -> Method:
    lasts = bool(calls.duration.any())
    p50, p95 = map(int, np.percentile(calls.duration, (50, 95))) if lasts else (None, None)
    errors = int(((calls.flags & Flag.ERROR) != 0).sum())
    total = int(calls.bytes.sum())
    name = str(calls.text("name")[0])
    return Method(name, client, server, len(calls), errors, p50, p95, total)


def tell(found: Calls, lang: Lang) -> Iterator[str]:
    columns = ("method", "from", "to", "count", "errors", "p50", "p95", "bytes")
    yield from table(columns, map(_cells, found.methods), lang)


def _cells(one: Method) -> Sequence[object]:
    times = ["" if ns is None else duration(ns) for ns in (one.p50_ns, one.p95_ns)]
    return one.method, one.client, one.server, one.count, one.errors, *times, size(one.bytes)
