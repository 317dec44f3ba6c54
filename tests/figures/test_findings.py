"""What the timeline is sent of a step's critical path, however many ops it has."""

from bisect import bisect_right
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.sample_run import sample_run
from tests.store.sample_trace import EPOCH, WORKER, write_trace
from vizdist.analysis.critical_path import CriticalPath, critical_path
from vizdist.analysis.described import describe
from vizdist.analysis.lit import lit_by
from vizdist.analysis.stalls import NOTHING_LEFT, stalls
from vizdist.figures.findings import WIDTH, step_findings
from vizdist.store.columns import SpanRecord
from vizdist.store.trace import Trace, open_trace

IDS: dict[str, Any] = {"step": 1, "trace_hi": 7, "trace_lo": 1}
PERIOD = 20  #: ns from op to op; each waits for 2 and runs for 16


def chain(folder: Path, num_ops: int) -> Trace:
    """One op after another, on one device."""
    end = EPOCH + num_ops * PERIOD
    spans = [
        SpanRecord("worker:0", "client", EPOCH, end, "step 1", "session.run", span=1, **IDS),
        SpanRecord(
            "worker:0", "partition", EPOCH, end, "CPU:0", "partition.run", span=2, parent=1, **IDS
        ),
    ]
    for at in range(num_ops):
        ready = EPOCH + at * PERIOD
        spans.append(
            SpanRecord(
                "worker:0", "executor CPU:0", ready + 2, ready + 18, f"n{at}", "op.run",
                op="MatMul", device=WORKER, ready=ready, span=at + 3, parent=2, **IDS,
            )
        )  # fmt: skip
    return open_trace(write_trace(folder, spans))


def path_of(trace: Trace) -> CriticalPath:
    path = critical_path(trace, trace.step(1))
    assert path is not None
    return path


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return chain(tmp_path_factory.mktemp("run") / "long.trace", 3 * WIDTH)


def test_a_stall_selects_what_caused_it_and_what_ran_next(tmp_path: Path) -> None:
    """mm waits from its readiness at 300 for the tensor that worker:1 sends."""
    trace = sample_run(tmp_path / "x.trace")
    step = trace.step(1, "worker:0")
    found = [(stall, one) for stall, one in zip(stalls(trace, step),
             step_findings(trace, step)["stalls"], strict=True) if stall.cause]  # fmt: skip
    assert found
    for stall, sent in found:
        assert stall.cause is not None
        lit = lit_by(trace, {"type": "stall", "id": sent["sel"]}, 1)
        ends = {stall.cause.place, stall.effect} - {NOTHING_LEFT}
        assert {*lit.selected.tolist()} == ends
        told = describe(trace, {"type": "stall", "id": sent["sel"]}, 1)
        assert told is not None
        assert (told.runs, told.title) == (len(ends), trace.all.text("name")[stall.cause.place])
    assert not len(lit_by(trace, {"type": "stall", "id": "no,id"}, 1).selected)


def test_a_path_of_few_pieces_is_sent_whole(tmp_path: Path) -> None:
    trace = chain(tmp_path / "short.trace", 50)
    pieces = path_of(trace).pieces
    assert step_findings(trace, trace.step(1))["path"]["start"] == [
        piece.start - trace.start for piece in pieces if piece.place >= 0
    ]


def test_pieces_that_share_a_pixel_are_sent_as_one(long: Trace) -> None:
    sent = step_findings(long, long.step(1))["path"]
    pixels = [start * WIDTH // long.step(1).duration for start in sent["start"]]
    assert len(path_of(long).pieces) > 2 * WIDTH
    assert (
        len(pixels)
        == len({*zip(pixels, sent["row"], sent["part"], sent["lead"], strict=True)})
        < 4 * WIDTH
    )
    assert sent["start"] == sorted(sent["start"])


def test_no_piece_is_lost_from_its_row_and_part(long: Trace) -> None:
    sent = step_findings(long, long.step(1))["path"]
    extents: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for row, part, start, end in zip(*(sent[name] for name in COLUMNS), strict=True):
        extents.setdefault((row, part), []).append((start, end))
    for piece in path_of(long).pieces:
        if piece.place >= 0:
            own = extents[int(long.all.row[piece.place]), piece.part]
            start, end = piece.start - long.start, piece.end - long.start
            assert any(low <= start and end <= high for low, high in own[start_at(own, start) :])


COLUMNS = ("row", "part", "start", "end")


def start_at(own: list[tuple[int, int]], start: int) -> int:
    """The last extent that begins by then."""
    return bisect_right(own, (start, 1 << 62)) - 1


def test_what_was_found_of_a_step_is_told_again_as_it_is(long: Trace) -> None:
    assert step_findings(long, long.step(1)) is step_findings(long, long.step(1))
