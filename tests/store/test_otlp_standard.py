"""Lines in the standard form are read fast, and say the same as when read with patience."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from tests.store.test_damaged_input import damaged
from vizdist.store.columns import Table
from vizdist.store.importers.otlp import add_lines
from vizdist.store.importing import Sink
from vizdist.store.otlp_columns import StandardSpans
from vizdist.store.otlp_reader import Line
from vizdist.store.otlp_record import FLAG_ATTRIBUTES, LANE_ATTRIBUTES, OWN_COLUMNS, RPC_SYSTEMS

ATTRIBUTES = (
    "vizdist.kind", "http.route", *RPC_SYSTEMS, *LANE_ATTRIBUTES, *OWN_COLUMNS, *FLAG_ATTRIBUTES
)  # fmt: skip
VALUES: tuple[dict[str, Any], ...] = (
    {"stringValue": "recv é\n"}, {"stringValue": ""}, {"stringValue": "18446744073709551615"},
    {"stringValue": "rendezvous.recv"}, {"stringValue": "control"}, {"intValue": "7"},
    {"intValue": -3}, {"boolValue": True},
    {"boolValue": False}, {"doubleValue": 1.5}, {"arrayValue": {"values": [{"intValue": 1}]}},
    {"bytesValue": "AAEC"}, {"kvlistValue": {"values": []}}, {},
)  # fmt: skip
NAMES = ("op.run", "session.run", "GET /thing", "", "client", "rendezvous.recv")


def line(random: np.random.Generator) -> bytes:
    """A document with two resources of spans that have any attributes with any values."""

    def one_of(choices: Any) -> Any:
        return choices[int(random.integers(len(choices)))]

    def rarely(odd: Any, usual: Any) -> Any:
        return odd if random.random() < 0.01 else usual

    def attributes() -> list[dict[str, Any]]:
        which = random.integers(0, len(ATTRIBUTES), int(random.integers(0, 5)))
        return [
            {"key": ATTRIBUTES[at], "value": rarely({"intValue": "9" * 20}, one_of(VALUES))}
            for at in which
        ]

    def span() -> dict[str, Any]:
        start = int(random.integers(0, 1 << 40))
        more = {
            "parentSpanId": one_of(("", "00000000000000AB", "AAAAAAAAAAE=", "ab", "-1")),
            "status": one_of(({}, {"code": 2}, {"code": "STATUS_CODE_ERROR", "message": "x"})),
            "links": [{"traceId": "", "spanId": "00000000000000cd"}],
            "events": [{"name": "e"}],
            "flags": 256,
        }
        return {
            "traceId": one_of(("f" * 32, "0" * 32, "AAAAAAAAAAAAAAAAAAAAAQ==", "ff")),
            "spanId": f"{int(random.integers(1, 1 << 60)):016x}",
            "name": one_of(NAMES),
            "kind": one_of((0, 1, 2, 3, 9)),
            "startTimeUnixNano": rarely(f" {start} ", one_of((start, str(start)))),
            "endTimeUnixNano": one_of((str(start + 5), start - 5, start + 7)),
            "attributes": attributes(),
        } | {name: value for name, value in more.items() if random.random() < 0.5}

    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    scopes = [{"scope": {"name": "x"}, "spans": [span() for _ in range(3)]} for _ in range(2)]
    resources = [{"resource": resource, "scopeSpans": scopes}, {"scopeSpans": scopes[:1]}]
    return orjson.dumps({"resourceSpans": resources})


def lines() -> Iterator[bytes]:
    random = np.random.default_rng(7)
    for _ in range(80):
        text = line(random)
        yield text
        yield damaged(text, random).replace(b"\n", b" ")


def told(folder: Path, text: bytes) -> tuple[list[Any], list[Any], int]:
    """All that columns hold of a line's spans, what was wrong, and how many lines were bad."""
    folder.mkdir(exist_ok=True)
    sink = Sink(folder)
    bad = add_lines([Line(3, 4, text)], sink, "a.jsonl")
    sink.finish()
    return _spelled(sink.builder.table()), sink.problems, bad


def _spelled(table: Table) -> list[Any]:
    return [
        [table.words[name][cell] if name in table.words else cell for cell in column.tolist()]
        for name, column in sorted(table.columns.items())
    ]


def test_both_ways_of_reading_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast, taken = StandardSpans.add, 0

    def add(self: StandardSpans, *given: Any) -> bool:
        nonlocal taken
        is_taken = fast(self, *given)
        taken += is_taken
        return is_taken

    every = list(lines())
    monkeypatch.setattr(StandardSpans, "add", add)
    quick = [told(tmp_path / "q", text) for text in every]
    monkeypatch.setattr(StandardSpans, "add", lambda *_: False)
    patient = [told(tmp_path / "p", text) for text in every]
    for text, one, other in zip(every, quick, patient, strict=True):
        assert one == other, text
    assert 40 < taken < len(every) - 40
