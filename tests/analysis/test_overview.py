"""A run at a glance, and what one selected thing is."""

from pathlib import Path

import pytest

from tests.store.sample_trace import training_step, write_trace
from tracer.model.trace_folder import TaskRecord
from vizdist.analysis.described import describe
from vizdist.analysis.overview import cluster_tasks, overview
from vizdist.analysis.selection import Selection
from vizdist.store.trace import Trace, open_trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    steps = [span for n in range(3) for span in training_step(n + 1, at=n * 1500)]
    tasks = [
        TaskRecord("launcher", 1, outcome="done"),
        TaskRecord("worker:10", 2, outcome="killed"),
        TaskRecord("worker:2", 3, outcome="done"),
        TaskRecord("ps:0", 4, outcome="done"),
    ]
    return open_trace(write_trace(tmp_path / "a.trace", steps, tasks=tasks, recorded=30))


def test_tasks_that_compute_are_listed_servers_first(trace: Trace) -> None:
    assert [task for task, _ in cluster_tasks(trace)] == ["ps:0", "worker:2", "worker:10"]


def test_a_row_says_times_bytes_and_faults(trace: Trace) -> None:
    seen = overview(trace)
    assert seen.durations_ns == (1000, 1000, 1000)
    assert seen.step_bytes == 256
    assert seen.wrong is not None
    cause = seen.wrong.cause
    assert (cause.key, cause.values["task"]) == ("killed", "worker:10")
    assert seen.counts == {"unwritten": 6}
    assert not seen.remarks


@pytest.mark.parametrize(
    ("selection", "step", "told"),
    [
        (Selection(type="span", id=f"{202:016x}"), None, ("mm", "MatMul", "worker:0", 2, 200, 400)),
        (Selection(type="node", id="mm"), 3, ("mm", "MatMul", "worker:0", 3, 200, 400)),
    ],
)
def test_a_selection_is_described_within_its_step(
    trace: Trace, selection: Selection, step: int | None, told: tuple[object, ...]
) -> None:
    found = describe(trace, selection, step)
    assert found is not None
    facts = (found.title, found.op, found.task, found.step, found.start_ns, found.end_ns)
    assert facts == told


def test_what_is_not_in_the_run_is_nothing(trace: Trace) -> None:
    assert describe(trace, Selection(type="node", id="nothing"), 1) is None
    assert describe(trace, Selection(type="span", id="not hex"), 1) is None
