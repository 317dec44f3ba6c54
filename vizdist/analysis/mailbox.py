"""The mailboxes of a step, one a rendezvous key: who came first, and how long it waited there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.bytes_moved import Pair
from vizdist.analysis.kept import kept
from vizdist.analysis.keys import HOP, key_of, tensor_title
from vizdist.analysis.recv_parts import RecvParts, never_came, recv_parts
from vizdist.store.details import hex_id
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

First = Literal["sender", "receiver", "nobody"]
State = Literal["done", "dead", "aborted", "unfinished", "unclaimed"]

_FEEDS = "_recv_"  #: how the nodes are called that take what the client feeds


@dataclass(frozen=True, slots=True)
class Transfer:
    """One recv. `first`: the value lay there before it was asked for (`sender`), or after.

    `nobody`: no value came. A send that no recv is known to have asked for is `unclaimed`. A piece
    of a collective waited at least as long as it was looked for; how long it lay ready is not told.

    `asked_ns` counts from the step's start; the value lay there for `early_ns`, or was waited for
    `wait_ns`. `is_deferred`: it was asked for before its step had begun where the value is made.
    `frame` is a decimal number as in the key, empty outside loops.
    """

    tensor: str
    source: str
    target: str
    frame: str
    iteration: int
    bytes: int
    asked_ns: int
    early_ns: int
    wait_ns: int
    transfer_ns: int
    first: First
    state: State
    is_deferred: bool
    is_remote: bool
    is_control: bool
    key: str
    recv: str  #: span ids
    send: str
    is_piece: bool = False

    @property
    def is_value(self) -> bool:
        return self.state != "dead" and not self.is_control


@dataclass(frozen=True, slots=True)
class ClientEnd:
    """What the client feeds or fetches, and how long the end that takes it waited."""

    name: str
    is_feed: bool
    task: str
    bytes: int
    wait_ns: int
    is_lost: bool
    key: str


class Traffic(NamedTuple):
    """What went from one device to another in a step, and how long it was waited for, in all."""

    num_keys: int
    bytes: int
    wait_ns: int


@dataclass(frozen=True, slots=True)
class Mailbox:
    """`rows` are between devices, in the order in which they were asked for."""

    rows: Sequence[Transfer]
    client: Sequence[ClientEnd]

    @property
    def pieces(self) -> Sequence[Transfer]:
        return [row for row in self.rows if row.is_piece]

    @property
    def traffic(self) -> Mapping[Pair, Traffic]:
        found: dict[Pair, Traffic] = {}
        for row in self.rows:
            pair = row.source, row.target
            count, num_bytes, wait = found.get(pair, Traffic(0, 0, 0))
            came = 0 if row.state == "unclaimed" else row.bytes
            found[pair] = Traffic(count + 1, num_bytes + came, wait + row.wait_ns)
        return found


@kept()
def mailbox(trace: Trace, step: StepInfo) -> Mailbox:
    """Of one client request."""
    spans = trace.all.take(trace.step_places(step))
    rows = [*transfers_of(trace, spans, step), *_pieces(spans, step), *_unclaimed(spans, step)]
    rows.sort(key=lambda row: row.asked_ns)
    return Mailbox(rows, list(_client_ends(spans)))


def crosses(trace: Trace) -> bool:
    """Whether anything went from one device to another, or one task called another."""
    for segment in trace.segments:
        if any(segment.is_kind(kind).any() for kind in ("rpc.client", HOP)):
            return True
        is_inner = (segment.columns["flags"] & Flag.CLIENT_EDGE) == 0
        if (segment.is_kind("rendezvous.recv") & is_inner).any():
            return True
    return False


def transfers_of(trace: Trace, spans: Spans, step: StepInfo) -> list[Transfer]:
    """The recvs among the spans of a step that bring a value from one device to another."""
    parts = recv_parts(trace, spans)
    recvs = parts.recvs
    columns = zip(
        (recvs.start - step.start).tolist(),
        _early(trace, parts).tolist(),
        parts.wait.tolist(),
        parts.transfer.tolist(),
        recvs.link.tolist(),
        _cells(recvs),
        strict=True,
    )
    rows = [
        _transfer(**cells, asked=asked, early=early, wait=wait, transfer=transfer, send=send)
        for asked, early, wait, transfer, send, cells in columns
    ]
    return [rows[at] for at in recvs.start.argsort(kind="stable").tolist()]


def _cells(spans: Spans) -> Iterator[dict[str, Any]]:
    """What the spans of sends and recvs say of themselves."""
    columns = (spans.text("key"), spans.bytes, never_came(spans.columns), spans.flags, spans.span)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for text, num_bytes, is_lost, flags, span in rows:
        yield {
            "state": _state(flags),
            "text": text,
            "num_bytes": num_bytes,
            "is_lost": is_lost,
            "flags": flags,
            "span": span,
        }


def _early(trace: Trace, parts: RecvParts) -> Array:
    """How long each value had been handed over when its request came.

    A shorter wait that is recorded all the same was a look-up.
    """
    send = trace.places(parts.recvs.link)
    handed = np.where(send >= 0, trace.all.take(np.maximum(send, 0)).end, parts.served)
    early = np.maximum(parts.served - handed, 0)
    found: Array = np.where(parts.wait > early, 0, early)
    return found


def _transfer(
    state: State, text: str, num_bytes: int, is_lost: bool, flags: int, span: int, *,
    asked: int, early: int, wait: int, transfer: int, send: int,
) -> Transfer:  # fmt: skip
    key = key_of(text)
    return Transfer(
        tensor=tensor_title(key.edge_name),
        source=key.src_device,
        target=key.dst_device,
        frame=str(key.frame or ""),
        iteration=key.iteration,
        bytes=num_bytes,
        asked_ns=asked,
        early_ns=early,
        wait_ns=wait,
        transfer_ns=transfer,
        first="nobody" if is_lost else "receiver" if wait > early else "sender",
        state=state,
        is_deferred=bool(flags & Flag.DEFERRED),
        is_remote=bool(flags & Flag.REMOTE),
        is_control=bool(flags & Flag.CONTROL),
        key=text,
        recv=hex_id(span),
        send=hex_id(send),
    )


def _state(flags: int) -> State:
    if flags & Flag.UNFINISHED:
        return "unfinished"
    if flags & Flag.ERROR:
        return "aborted"
    return "dead" if flags & Flag.DEAD else "done"


def _pieces(spans: Spans, step: StepInfo) -> Iterator[Transfer]:
    """What ranks of collectives asked each other for."""
    hops = spans.take(spans.is_kind(HOP) & ~spans.has_word("key", ""))
    waits = np.where(never_came(hops.columns), hops.duration, hops.wait)
    asked, moved = hops.start - step.start, hops.duration - waits
    rows = zip(asked.tolist(), waits.tolist(), moved.tolist(), _cells(hops), strict=True)
    for begun, wait, transfer, cells in rows:
        row = _transfer(**cells, asked=begun, early=0, wait=wait, transfer=transfer, send=0)
        came: First = "nobody" if row.first == "nobody" else "receiver"
        yield replace(row, first=came, is_piece=True)


def _unclaimed(spans: Spans, step: StepInfo) -> Iterator[Transfer]:
    """Sends that lay there until the step's end."""
    sends = spans.take(spans.is_kind("rendezvous.send"))
    recvs = spans.take(spans.is_kind("rendezvous.recv"))
    idle = (sends.flags & (Flag.ERROR | Flag.CLIENT_EDGE)) != 0
    left = sends.take(~idle & ~np.isin(sends.span, recvs.link))
    ends = zip(left.end.tolist(), left.span.tolist(), _cells(left), strict=True)
    for end, send, cells in ends:
        cells |= {"state": "unclaimed", "span": 0, "is_lost": False}
        asked, lay = end - step.start, max(0, step.end - end)
        yield _transfer(**cells, asked=asked, early=lay, wait=0, transfer=0, send=send)


def _client_ends(spans: Spans) -> Iterator[ClientEnd]:
    taken = spans.is_kind("rendezvous.recv") & ((spans.flags & Flag.CLIENT_EDGE) != 0)
    recvs = spans.take(taken)
    columns = (
        recvs.text("name"), recvs.text("key"), recvs.task, recvs.bytes, recvs.wait,
        never_came(recvs.columns), recvs.duration,
    )  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for name, text, task, num_bytes, wait, is_lost, took in rows:
        waited = took if is_lost else wait
        edge, is_feed = key_of(text).edge_name, name.startswith(_FEEDS)
        yield ClientEnd(edge, is_feed, task, num_bytes, waited, is_lost, text)
