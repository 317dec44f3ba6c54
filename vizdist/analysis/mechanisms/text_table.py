"""Rows of cells as lines of text in columns that stand under their headings."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from vizdist.i18n import Lang, t
from vizdist.i18n.printable import printable

MOST = 40  #: rows that are written out; `report --json` has all
_RIGHT = frozenset({
    "bytes", "count", "dead", "deferred", "errors", "hits", "iterations", "misses", "most",
    "nodes", "p50", "p95", "pid", "queueing", "queueing95", "run", "run_hits", "run_misses",
    "runs", "share", "slack", "spans", "took", "transfer", "wait",
})  # fmt: skip


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], lang: Lang) -> Iterator[str]:
    """`columns` are keys of headings: `mechanisms.column.<key>`."""
    every = [[printable(str(cell)) for cell in row] for row in rows]
    headings = [t(f"mechanisms.column.{name}", lang) for name in columns]
    shown = [headings, *every[:MOST]]
    widths = [max(map(_width, cells)) for cells in zip(*shown, strict=True)]
    for row in shown:
        cells = [
            _padded(cell, width, right=name in _RIGHT)
            for cell, width, name in zip(row, widths, columns, strict=True)
        ]
        yield f"  {'  '.join(cells)}".rstrip()
    if len(every) > MOST:
        yield f"  {t('mechanisms.more', lang, count=len(every) - MOST)}"


def short_id(number: int) -> str:
    """Enough of a long number to tell a few apart."""
    return f"#{number % 1_000_000:06}"


def listed(words: Iterable[str], lang: Lang) -> str:
    return t("mechanisms.comma", lang).join(words)


def _padded(cell: str, width: int, *, right: bool) -> str:
    gap = " " * (width - _width(cell))
    return f"{gap}{cell}" if right else f"{cell}{gap}"


def _width(text: str) -> int:
    """In columns of a terminal, where a Chinese letter takes two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
