"""What a step measured at its nodes."""

from pathlib import Path

import pytest

from tests.store.sample_trace import training_step, write_trace
from tracer.model.trace_folder import Flag
from vizdist.analysis.node_measures import measure_nodes
from vizdist.store.trace import Trace, open_trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    steps = [span for n in (1, 2) for span in training_step(n, at=n * 2000)]
    again = training_step(1, at=2000)[1]  # the worker's mm, a second time in step 1, as in a loop
    twice = again._replace(start=again.start + 600, end=again.end + 700, ready=0, span=999)
    return open_trace(write_trace(tmp_path_factory.mktemp("runs") / "a.trace", [*steps, twice]))


def test_times_count_from_the_step_and_repeated_runs_add_up(trace: Trace) -> None:
    found = measure_nodes(trace, trace.step(1)).nodes
    assert (found["mm"].time, found["mm"].runs) == (200 + 300, 2)
    assert (found["mm"].queueing, found["mm"].start) == (100, 200)
    assert found["mm"].span == f"{102:016x}"
    assert measure_nodes(trace, trace.step(2)).nodes["mm"].time == 200


def test_a_task_is_busy_while_its_ops_run(trace: Trace) -> None:
    measures = measure_nodes(trace, trace.step(2))
    assert measures.busy == {"worker:0": 0.2, "ps:0": 0.15}
    assert measures.master == "worker:0"


def test_a_node_of_both_ends_keeps_its_key_and_bytes(trace: Trace) -> None:
    found = measure_nodes(trace, trace.step(2)).nodes["w"]
    assert found.key.endswith("edge_1_w;0:0")
    assert found.wait == 50


def test_an_op_that_ended_with_an_error_is_counted_as_failed(tmp_path: Path) -> None:
    spans = [
        span._replace(flags=Flag.ERROR) if span.name in ("mm", "w") else span
        for span in training_step(1)
    ]
    trace = open_trace(write_trace(tmp_path / "failed.trace", spans))
    nodes = measure_nodes(trace, trace.step(1)).nodes
    assert {name for name, node in nodes.items() if node.failed} == {"mm"}
