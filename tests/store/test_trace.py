"""An opened trace answers what every view asks."""

from pathlib import Path

import numpy as np
import pytest

from tests.store.sample_trace import EPOCH, move_segment, training_step, write_trace
from vizdist.store.problems import TraceError
from vizdist.store.trace import Link, Trace, open_trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    records = [span for n in (1, 2, 3) for span in training_step(n, at=n * 2000)]
    return open_trace(write_trace(tmp_path / "mlp.trace", records))


def test_rows_stand_in_the_order_of_tasks_and_lanes(trace: Trace) -> None:
    assert [(row.id, row.task, row.lane) for row in trace.rows] == [
        (0, "worker:0", "client"),
        (1, "worker:0", "executor"),
        (2, "worker:0", "recv"),
        (3, "worker:0", "rpc"),
        (4, "ps:0", "executor"),
        (5, "ps:0", "rpc"),
    ]


def test_a_step_is_its_client_request(trace: Trace) -> None:
    assert [(s.number, s.duration, s.task) for s in trace.steps] == [
        (n, 1000, "worker:0") for n in (1, 2, 3)
    ]
    assert trace.step(2).span == 201
    with pytest.raises(TraceError, match="step 9 is not in this trace; it holds steps 1 to 3"):
        trace.step(9)


def test_a_step_whose_root_was_lost_is_there_all_the_same(tmp_path: Path) -> None:
    whole, beheaded = training_step(1), training_step(2, at=2000)[1:]
    trace = open_trace(write_trace(tmp_path / "x.trace", [*whole, *beheaded]))
    assert [(s.number, s.duration, s.span, s.is_whole) for s in trace.steps] == [
        (1, 1000, 101, True),
        (2, 700, 0, False),
    ]


def test_spans_are_found_by_step_kind_task_and_window(trace: Trace) -> None:
    assert len(trace.spans(step=2)) == 8
    assert len(trace.spans(step=trace.step(2), kinds=["op.run"])) == 3
    assert len(trace.spans(step=2, tasks=["ps:0"])) == 4
    window = (EPOCH + 4000 + 150, EPOCH + 4000 + 155)
    assert sorted(trace.spans(window=window).text("name")) == ["step 2", "w"]


def test_a_span_tells_all_of_itself(trace: Trace) -> None:
    recv = trace.span("00000000000000cb")
    assert (recv.kind, recv.name, recv.wait, recv.bytes) == ("rendezvous.recv", "w", 50, 256)
    assert (recv.task, recv.lane, recv.link) == ("worker:0", "recv", f"{205:016x}")
    assert recv.flags == ("remote",)
    with pytest.raises(TraceError, match="is not in trace mlp"):
        trace.span(12345)
    with pytest.raises(TraceError, match="16 hex digits"):
        trace.span("zebra")


@pytest.mark.parametrize("num_ids", [2, 10])
def test_ids_are_found_one_by_one_and_in_numbers(trace: Trace, num_ids: int) -> None:
    wanted = np.array([12345, *trace.all.span[: num_ids - 1]], np.uint64)
    assert trace.places(wanted).tolist() == [-1, *range(num_ids - 1)]


def test_relations_are_the_recorded_ones(trace: Trace) -> None:
    assert trace.links([205]) == [Link(205, 203, "data")]
    assert trace.links([204]) == [Link(204, 206, "rpc")]
    arrows = trace.arrows(trace.start, trace.end)
    assert (len(arrows.source), arrows.total, arrows.code.tolist()) == (6, 6, [0, 0, 0, 1, 1, 1])
    few = trace.arrows(trace.start, trace.end, limit=2)
    assert (len(few.source), few.total) == (2, 6)


def test_several_segments_are_one_table(tmp_path: Path, trace: Trace) -> None:
    folder = write_trace(tmp_path / "two.trace", training_step(1, at=2000))
    more = write_trace(
        tmp_path / "more.trace", [*training_step(2, at=4000), *training_step(3, at=6000)]
    )
    move_segment(more, folder)
    two = open_trace(folder)
    assert two.steps == trace.steps
    assert [row.lane for row in two.rows] == [row.lane for row in trace.rows]
    assert sorted(two.all.text("key")) == sorted(trace.all.text("key"))
    assert np.array_equal(np.sort(two.all.span), np.sort(trace.all.span))
