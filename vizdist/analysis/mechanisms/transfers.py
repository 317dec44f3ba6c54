"""Every tensor that went from device to device in a step: how large, how long, who was first."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tracer.model.step import RendezvousKey, RendezvousKeyError
from tracer.model.trace_folder import Flag
from vizdist.analysis.bytes_moved import device_title, tensor_title
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import listed, short_id, table
from vizdist.analysis.recv_parts import never_came, recv_parts
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration, size
from vizdist.store.details import hex_id

First = Literal["sender", "receiver", "nobody"]
State = Literal["done", "dead", "aborted", "unfinished"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """One recv. `first`: the value lay there before it was asked for (`sender`), or after.

    `nobody`: no value came.

    `is_deferred`: it was asked for before its step had begun where the value is made. `frame` is a
    decimal number as in the key, empty outside loops.
    """

    tensor: str
    source: str
    target: str
    frame: str
    iteration: int
    bytes: int
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


@dataclass(frozen=True, slots=True)
class Transfers:
    rows: Sequence[Transfer]

    @property
    def num_bytes(self) -> int:
        return sum(row.bytes for row in self.rows)


def find(one: OneStep) -> Transfers | None:
    """In the order in which they were asked for; None where nothing crossed."""
    parts = recv_parts(one.trace, one.spans)
    recvs = parts.recvs
    columns = zip(
        recvs.text("key").tolist(),
        recvs.bytes.tolist(),
        parts.wait.tolist(),
        parts.transfer.tolist(),
        never_came(recvs.columns).tolist(),
        recvs.flags.tolist(),
        recvs.span.tolist(),
        recvs.link.tolist(),
        strict=True,
    )
    rows = [_transfer(*cells) for cells in columns]
    order = recvs.start.argsort(kind="stable").tolist()
    return Transfers([rows[at] for at in order]) if rows else None


def _transfer(
    text: str,
    num_bytes: int,
    wait: int,
    transfer: int,
    is_lost: bool,
    flags: int,
    recv: int,
    send: int,
) -> Transfer:
    key = _key_of(text)
    return Transfer(
        tensor_title(key.edge_name),
        key.src_device,
        key.dst_device,
        str(key.frame or ""),
        key.iteration,
        num_bytes,
        wait,
        transfer,
        "nobody" if is_lost else "receiver" if wait > 0 else "sender",
        _state(flags),
        bool(flags & Flag.DEFERRED),
        bool(flags & Flag.REMOTE),
        bool(flags & Flag.CONTROL),
        text,
        hex_id(recv),
        hex_id(send),
    )


def _key_of(text: str) -> RendezvousKey:
    try:
        return RendezvousKey.parse(text)
    except RendezvousKeyError:
        return RendezvousKey("", 0, "", text)


def _state(flags: int) -> State:
    if flags & Flag.UNFINISHED:
        return "unfinished"
    if flags & Flag.ERROR:
        return "aborted"
    return "dead" if flags & Flag.DEAD else "done"


def tell(found: Transfers, lang: Lang) -> Iterator[str]:
    firsts = Counter(row.first for row in found.rows)
    values = {
        "bytes": str(size(found.num_bytes)),
        "sender": firsts["sender"],
        "receiver": firsts["receiver"],
        "count": len(found.rows),
    }
    yield f"  {t('mechanisms.transfers.all', lang, **values)}"
    if firsts["nobody"]:
        yield f"  {t('mechanisms.transfers.none_came', lang, count=firsts['nobody'])}"
    columns = ("tensor", "from", "to", "tag", "bytes", "wait", "transfer", "first", "state")
    is_tagged = any(row.frame for row in found.rows)
    shown = [at for at, name in enumerate(columns) if is_tagged or name != "tag"]
    every = (_cells(row, lang) for row in found.rows)
    rows = ([cells[at] for at in shown] for cells in every)
    yield from table([columns[at] for at in shown], rows, lang)


def _cells(row: Transfer, lang: Lang) -> Sequence[str]:
    marks: list[str] = [row.state if row.state != "done" else ""]
    marks += ["deferred" if row.is_deferred else "", "control" if row.is_control else ""]
    marks += ["" if row.is_remote else "same_task"]
    said = listed((t(f"mechanisms.transfers.{mark}", lang) for mark in marks if mark), lang)
    return (
        row.tensor,
        device_title(row.source),
        device_title(row.target),
        f"{short_id(int(row.frame))}:{row.iteration}" if row.frame else "",
        str(size(row.bytes)),
        str(duration(row.wait_ns)),
        str(duration(row.transfer_ns)),
        t(f"mechanisms.transfers.{row.first}", lang),
        said,
    )
