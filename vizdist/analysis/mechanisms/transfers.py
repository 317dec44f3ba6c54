"""Every tensor that went from device to device in a step: how large, how long, who was first."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vizdist.analysis.bytes_moved import device_title
from vizdist.analysis.mailbox import Transfer, transfers_of
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import listed, short_id, table
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration, size


@dataclass(frozen=True, slots=True)
class Transfers:
    rows: Sequence[Transfer]

    @property
    def num_bytes(self) -> int:
        return sum(row.bytes for row in self.rows)


def find(one: OneStep) -> Transfers | None:
    """In the order in which they were asked for; None where nothing crossed."""
    rows = transfers_of(one.trace, one.spans, one.step)
    return Transfers(rows) if rows else None


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
