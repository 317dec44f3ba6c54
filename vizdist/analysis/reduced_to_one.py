"""Reductions without a collective: one device sums what others sent it, and sends the sum back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tracer.model.graph_table import NodeRow, input_node
from tracer.model.trace_folder import Flag
from vizdist.analysis.bytes_moved import device_title
from vizdist.analysis.kept import kept
from vizdist.analysis.keys import key_of, tensor_title, title_of_input
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

SUMS = ("AddN", "AccumulateNV2")

Way = tuple[str, int]  #: the other device, bytes


@dataclass(frozen=True, slots=True)
class Sum:
    """`came` are the addends that other devices sent, `went` where the sum was sent; ns."""

    node: str
    addends: tuple[str, ...]
    device: str
    came: tuple[Way, ...]
    went: tuple[Way, ...]
    start: int
    took: int
    span: int


@kept(4)
def sums(trace: Trace, number: int) -> tuple[Sum, ...]:
    """Those of the steps of this number that had an addend from another device, by time."""
    requests = [step for step in trace.steps if step.number == number]
    found = [one for request in requests for one in _of_request(trace, request)]
    return tuple(sorted(found, key=lambda one: one.start))


def has_sums(trace: Trace) -> bool:
    """Whether its last step has any."""
    may = not set(SUMS).isdisjoint(trace.all.words["op"])
    return may and bool(trace.steps) and bool(sums(trace, trace.steps[-1].number))


def _of_request(trace: Trace, request: StepInfo) -> Iterator[Sum]:
    graph = trace.graph(request)
    rows = {row.name: row for row in graph.last_rows} if graph else {}
    spans = trace.all.take(trace.step_places(request))
    runs = spans.take(spans.is_kind("op.run") & np.isin(spans.text("op"), SUMS))
    moved = _moved(spans)
    for at, name in enumerate(runs.text("name").tolist()):
        if name not in rows:
            continue
        row, addends = rows[name], _addends(rows[name], rows)
        came = [(a, n) for (what, a, b), n in moved.items() if what in addends and b == row.device]
        went = [(b, n) for (what, a, b), n in moved.items() if what == name and a == row.device]
        if came:
            yield Sum(
                name, addends, device_title(row.device), _titled(came), _titled(went),
                int(runs.start[at]), int(runs.duration[at]), int(runs.span[at]),
            )  # fmt: skip


def _addends(row: NodeRow, rows: Mapping[str, NodeRow]) -> tuple[str, ...]:
    """As they are called where they were made."""
    names = [input_node(text) for text in row.inputs if not text.startswith("^")]
    return tuple(title_of_input(name, rows) for name in names)


def _moved(spans: Spans) -> dict[tuple[str, str, str], int]:
    """(tensor, from device, to device) → its bytes."""
    is_value = (spans.flags & (Flag.CLIENT_EDGE | Flag.CONTROL | Flag.DEAD)) == 0
    recvs = spans.take(spans.is_kind("rendezvous.recv") & is_value)
    keys = map(key_of, recvs.text("key").tolist())
    return {
        (tensor_title(key.edge_name), key.src_device, key.dst_device): num_bytes
        for key, num_bytes in zip(keys, recvs.bytes.tolist(), strict=True)
    }


def _titled(ways: list[Way]) -> tuple[Way, ...]:
    return tuple((device_title(device), num_bytes) for device, num_bytes in ways)
