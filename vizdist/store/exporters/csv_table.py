"""A table of spans as CSV, a line a span, in the order of their start."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from vizdist.store.details import flag_names, hex_id
from vizdist.store.redaction import AsItIs
from vizdist.store.trace import Trace

HEAD: Final = (
    "task", "lane", "depth", "kind", "name", "op", "device", "step", "start_ns", "duration_ns",
    "ready_ns", "wait_ns", "bytes", "key", "trace", "span", "parent", "link", "flags",
)  # fmt: skip

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def write(trace: Trace, path: Path, redactor: AsItIs) -> int:
    """Returns the number of spans. Times are ns since the epoch; 0: not recorded."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEAD)
        writer.writerows(_rows(trace, redactor))
    return len(trace)


def _rows(trace: Trace, redactor: AsItIs) -> Iterator[list[object]]:
    spans = trace.all
    hide = {"kind": redactor.kind}
    words = {
        name: tuple(plain(hide.get(name, redactor.text)(text)) for text in texts)
        for name, texts in spans.words.items()
    }
    for at in np.argsort(spans.start, kind="stable").tolist():
        row = trace.rows[int(spans.row[at])]
        number = {name: int(column[at]) for name, column in spans.columns.items()}
        text = {name: words[name][number[name]] for name in ("kind", "name", "op", "device", "key")}
        yield [
            plain(redactor.task(row.task)), plain(redactor.text(row.lane)), row.depth,
            text["kind"], text["name"], text["op"], text["device"], number["step"], number["start"],
            number["end"] - number["start"], number["ready"], number["wait"], number["bytes"],
            text["key"], f"{number['trace_hi']:016x}{number['trace_lo']:016x}",
            hex_id(number["span"]), hex_id(number["parent"]), hex_id(number["link"]),
            " ".join(flag_names(number["flags"])),
        ]  # fmt: skip


def plain(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULAS) else text
