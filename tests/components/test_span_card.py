"""The card says what was recorded of a span, and text stays text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dash.development.base_component import Component

from tests.store.sample_trace import EPOCH, training_step, write_trace
from vizdist.analysis.lit import lit_by
from vizdist.analysis.mailbox import mailbox
from vizdist.analysis.node_measures import measure_nodes
from vizdist.analysis.selection import Selection
from vizdist.components.span_card import span_card
from vizdist.figures.timeline import marks_of
from vizdist.i18n import t
from vizdist.i18n.units import duration
from vizdist.store.columns import SpanRecord
from vizdist.store.trace import Trace, open_trace

PAYLOAD = "<img src=x onerror=alert(1)>"


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    mark = SpanRecord("worker:0", "executor", EPOCH, EPOCH, PAYLOAD, "op.run", span=9, flags=1)
    return open_trace(write_trace(tmp_path / "x.trace", [*training_step(1), mark]))


def texts(parts: object) -> list[str]:
    if isinstance(parts, str):
        return [parts]
    if isinstance(parts, Component):
        return texts(getattr(parts, "children", None) or [])
    return [text for part in parts or () for text in texts(part)]  # type: ignore[attr-defined]


def card(trace: Trace, kind: str, name: str) -> list[str]:
    return texts(span_card(trace, lit_by(trace, Selection(type=kind, id=name), 1), 1, "en"))


def test_a_recv_is_its_request_its_wait_and_its_transfer_and_says_who_sent_it(
    trace: Trace,
) -> None:
    """The same wait as on the Rendezvous page and in the graph; the three are all it took."""
    said = card(trace, "span", f"{103:016x}")
    parts = ["Request", "0.05 µs", "Wait", "0.05 µs", "Transfer", "0.10 µs"]
    assert said[said.index("Request") :][:6] == parts
    [row] = mailbox(trace, trace.step(1)).rows
    measured = measure_nodes(trace, trace.step(1)).nodes["w"]
    assert (row.wait_ns, row.transfer_ns) == (50, 100)
    assert (measured.request, measured.wait) == (50, 50)
    assert said[said.index("Sent by") + 1] == "ps:0 · w"
    assert said[said.index("Start in step") + 1] == "0.40 µs"


def test_a_bar_says_for_how_long_there_was_no_value_however_little_was_recorded(
    tmp_path: Path,
) -> None:
    """The request was under way before the wait that was recorded began."""
    later: dict[int, Any] = {103: {"wait": 10}, 105: {"start": EPOCH + 430, "end": EPOCH + 440}}
    spans = [
        span._replace(**later.get(span.span, {}))
        for span in training_step(1)
        if not span.kind.startswith("rpc.")
    ]
    trace = open_trace(write_trace(tmp_path / "x.trace", spans))
    said = card(trace, "span", f"{103:016x}")
    recv = trace.all.take(np.array([trace.place(103)]))
    [drawn] = marks_of(trace, recv)["wait"].tolist()
    assert drawn == 30
    assert said[said.index("Wait") + 1] == str(duration(drawn))
    assert t("timeline.canvas.waited", "en", time="") == "no value yet for "


def test_an_op_says_how_long_it_queued(trace: Trace) -> None:
    said = card(trace, "node", "mm")
    assert said[said.index("Queued") + 1] == "0.10 µs"


def test_a_name_from_the_trace_is_text(trace: Trace) -> None:
    said = card(trace, "span", f"{9:016x}")
    assert PAYLOAD in said
    assert "error" in said


def test_nothing_selected_says_what_to_do(trace: Trace) -> None:
    said = texts(span_card(trace, lit_by(trace, None, 1), 1, "en"))
    assert said[0] == "No span is selected"
