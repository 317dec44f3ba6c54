"""Gradients that workers put together for one update: how many, and how many came too late."""

from collections.abc import Callable
from pathlib import Path

from tests.store.sample_trace import training_step, write_trace
from tracer.model.trace_folder import Flag
from vizdist.analysis.gathered_gradients import Gathered, gathered_gradients
from vizdist.analysis.report import report_text
from vizdist.store.columns import SpanRecord
from vizdist.store.trace import Trace, open_trace

APPLY = "ResourceAccumulatorApplyGradient"


def run_of(folder: Path, flags_of: Callable[[int], int]) -> Trace:
    """Four steps whose update is a gradient put into an accumulator."""

    def given(span: SpanRecord) -> SpanRecord:
        if not span.op.endswith("Descent"):
            return span
        return span._replace(op=APPLY, flags=flags_of(span.step))

    spans = [given(s) for n in range(1, 5) for s in training_step(n, at=n * 2000)]
    return open_trace(write_trace(folder, spans))


def test_late_gradients_are_counted_and_the_first_is_shown(tmp_path: Path) -> None:
    trace = run_of(tmp_path / "x.trace", lambda step: Flag.DROPPED if step > 2 else 0)
    assert gathered_gradients(trace) == Gathered(given=4, dropped=2, first=308, step=3)
    assert "Of 4 gradients gathered for an update, 2 came too late" in report_text(trace)


def test_where_none_was_late_the_report_says_so(tmp_path: Path) -> None:
    trace = run_of(tmp_path / "x.trace", lambda _: 0)
    assert gathered_gradients(trace) == Gathered(given=4, dropped=0, first=0, step=0)
    assert "4 gradients were gathered before updates took their mean" in report_text(trace)


def test_nothing_is_said_where_every_worker_updates_by_itself(tmp_path: Path) -> None:
    trace = open_trace(write_trace(tmp_path / "x.trace", training_step(1)))
    assert gathered_gradients(trace) is None
