"""The calls between tasks in a step, method by method and pair by pair."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.i18n import Lang
from vizdist.i18n.units import duration, size
from vizdist.store.spans import Spans


@dataclass(frozen=True, slots=True)
class Method:
    """Times are of the calling side, in ns. `server` is empty where nobody is known to serve."""

    method: str
    client: str
    server: str
    count: int
    errors: int
    p50_ns: int
    p95_ns: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Calls:
    methods: Sequence[Method]


def find(one: OneStep) -> Calls | None:
    """None where no call was recorded, as in a run of one process."""
    calls = one.of_kind("rpc.client")
    if not len(calls):
        return None
    served = one.trace.served_by(calls.span)
    row = one.trace.all.row[served]
    servers = [one.trace.rows[r].task if at >= 0 else "" for r, at in zip(row, served, strict=True)]
    names = list(zip(calls.text("name").tolist(), calls.task.tolist(), servers, strict=True))
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    owner = np.array([numbers[name] for name in names])
    return Calls([_method(calls.take(owner == at), *name) for name, at in numbers.items()])


def _method(calls: Spans, method: str, client: str, server: str) -> Method:
    p50, p95 = np.percentile(calls.duration, (50, 95)).tolist()
    errors = int(((calls.flags & Flag.ERROR) != 0).sum())
    total = int(calls.bytes.sum())
    return Method(method, client, server, len(calls), errors, int(p50), int(p95), total)


def tell(found: Calls, lang: Lang) -> Iterator[str]:
    columns = ("method", "from", "to", "count", "errors", "p50", "p95", "bytes")
    yield from table(columns, map(_cells, found.methods), lang)


def _cells(one: Method) -> Sequence[object]:
    times = duration(one.p50_ns), duration(one.p95_ns)
    return one.method, one.client, one.server, one.count, one.errors, *times, size(one.bytes)
