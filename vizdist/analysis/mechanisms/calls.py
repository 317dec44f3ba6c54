"""The calls between tasks in a step, method by method and pair by pair."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.mechanisms.grouping import grouped
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.i18n import Lang
from vizdist.i18n.units import duration, size
from vizdist.store.spans import Spans


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
    calls = one.of_kind("rpc.client")
    if not len(calls):
        return None
    served = one.trace.served_by(calls.span)
    servers = np.where(served >= 0, one.trace.all.take(np.maximum(served, 0)).task, "")
    pairs = grouped(calls, calls.text("name"), calls.task, servers)
    return Calls([_method(own, *key) for key, own in pairs])


def _method(calls: Spans, method: str, client: str, server: str) -> Method:
    lasts = bool(calls.duration.any())
    p50, p95 = map(int, np.percentile(calls.duration, (50, 95))) if lasts else (None, None)
    errors = int(((calls.flags & Flag.ERROR) != 0).sum())
    total = int(calls.bytes.sum())
    return Method(method, client, server, len(calls), errors, p50, p95, total)


def tell(found: Calls, lang: Lang) -> Iterator[str]:
    columns = ("method", "from", "to", "count", "errors", "p50", "p95", "bytes")
    yield from table(columns, map(_cells, found.methods), lang)


def _cells(one: Method) -> Sequence[object]:
    times = ["" if ns is None else duration(ns) for ns in (one.p50_ns, one.p95_ns)]
    return one.method, one.client, one.server, one.count, one.errors, *times, size(one.bytes)
