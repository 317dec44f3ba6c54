"""Every instant of a step belongs to one class, and the parts sum to the step."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.analysis.sample_run import sample_run
from tests.store.sample_trace import training_step, write_trace
from tracer.model.trace_folder import Flag
from vizdist.analysis.op_totals import op_totals
from vizdist.analysis.step_split import CLASSES, is_update, paint, split_of_client, split_step
from vizdist.analysis.steps import split_of_path
from vizdist.store.trace import Trace, open_trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return open_trace(write_trace(tmp_path / "x.trace", training_step(1)))


def test_the_worker_of_a_known_step_is_split_as_drawn(trace: Trace) -> None:
    split = split_of_client(trace, trace.step(1))
    assert split.task == "worker:0"
    assert split.parts == {
        "compute": 200,
        "update": 0,
        "transfer": 100,
        "rpc": 40,
        "wait": 50,
        "queueing": 100,
        "other": 510,
    }


def test_the_ps_is_split_too(trace: Trace) -> None:
    [_, ps] = split_step(trace, trace.step(1))
    assert (ps.task, ps.total) == ("ps:0", 1000)
    assert {name: ns for name, ns in ps.parts.items() if ns} == {
        "compute": 50,
        "update": 100,
        "transfer": 90,
        "queueing": 10,
        "other": 750,
    }


def test_an_op_at_a_queue_waits_and_does_not_compute(tmp_path: Path) -> None:
    spans = [
        span._replace(op="QueueDequeueV2") if span.op == "MatMul" else span
        for span in training_step(1)
    ]
    trace = open_trace(write_trace(tmp_path / "queue.trace", spans))
    parts = split_of_client(trace, trace.step(1)).parts
    assert (parts["compute"], parts["wait"]) == (0, 200 + 50)
    assert "mm" not in [total.name for total in op_totals(trace)]


def test_a_value_that_never_came_was_awaited_and_nothing_was_on_its_way(tmp_path: Path) -> None:
    """No Send, and the recv, its call and the ps that served it were given up at the end."""
    given_up = [
        span._replace(wait=0, bytes=0, link=0, flags=span.flags | Flag.ERROR)
        if span.name in ("w", "RecvTensor")
        else span
        for span in training_step(1)
        if span.kind != "rendezvous.send"
    ]
    trace = open_trace(write_trace(tmp_path / "given_up.trace", given_up))
    worker, ps = split_step(trace, trace.step(1))
    assert (worker.parts["transfer"], worker.parts["wait"]) == (0, 150 - 30)
    assert worker.parts["rpc"] == 40 + 30
    assert ps.parts["transfer"] == 0


INTERVALS = some.lists(some.tuples(some.integers(-50, 150), some.integers(0, 60)), max_size=6)


@given(some.lists(INTERVALS, min_size=1, max_size=4))
def test_painting_is_what_looking_at_every_nanosecond_gives(
    classes: list[list[tuple[int, int]]],
) -> None:
    arrays = [
        (
            np.array([begin for begin, _ in intervals], np.int64),
            np.array([begin + length for begin, length in intervals], np.int64),
        )
        for intervals in classes
    ]
    counts = [0] * (len(classes) + 1)
    for instant in range(100):
        holders = [
            number
            for number, intervals in enumerate(classes)
            if any(begin <= instant < begin + length for begin, length in intervals)
        ]
        counts[min(holders, default=len(classes))] += 1
    assert paint(arrays, 0, 100) == counts


def test_writers_of_variables_are_known_by_their_op() -> None:
    writers = ["AssignVariableOp", "ResourceApplyAdam", "ApplyGradientDescent", "Assign"]
    assert all(map(is_update, writers))
    assert not any(map(is_update, ["MatMul", "ReadVariableOp", "VarHandleOp", ""]))
    assert CLASSES[-1] == "other"


def test_along_the_critical_path_the_parts_add_up_to_the_step_too(tmp_path: Path) -> None:
    trace = sample_run(tmp_path / "x.trace")
    for step in trace.steps:
        found = split_of_path(trace, step, "path")
        assert found is not None
        assert (found.task, found.total) == ("path", step.duration)
    first = split_of_path(trace, trace.step(1, "worker:0"), "path")
    assert first is not None
    assert {name: ns for name, ns in first.parts.items() if ns} == {
        "compute": 710, "update": 100, "transfer": 220, "other": 370,
    }  # fmt: skip
