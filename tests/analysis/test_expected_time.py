"""How long a run will take: as the last one like it did, and nothing where there was none."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.store.sample_trace import PS, WORKER, training_step, write_trace
from tracer.model.trace_folder import TaskRecord
from vizdist.analysis.expected_time import ExpectedTime, expected_time
from vizdist.store.library import Library
from vizdist.store.runnable import default_options

SECOND = 1_000_000_000
NAMES = "digits-mlp", "parameter_server_v1"


def library(folder: Path, **manifest: Any) -> Library:
    """Of one run: three steps, a second from one to the next, and ten seconds in all."""
    steps = [span for n in range(3) for span in training_step(n + 1, at=n * SECOND)]
    told: dict[str, Any] = {
        "workload": NAMES[0],
        "strategy": NAMES[1],
        "options": default_options(*NAMES),
        "started_ns": 1,
        "ended_ns": 10 * SECOND + 1,
        "tasks": [
            TaskRecord("launcher", 1),
            TaskRecord("ps:0", 2, devices=[PS]),
            TaskRecord("worker:0", 3, devices=[WORKER]),
        ],
    }
    write_trace(folder / "before.trace", steps, **told | manifest)
    return Library([folder])


def asked(**more: Any) -> dict[str, Any]:
    numbers = {"workers": "1", "ps": "1", "devices": "1", "steps": "50"}
    return {"workload": NAMES[0], "strategy": NAMES[1], "numbers": numbers, **more}


def test_more_steps_take_as_much_more_as_those_before_did(tmp_path: Path) -> None:
    told = expected_time(library(tmp_path), asked())
    assert told is not None
    assert (told.title, told.took_ns, told.steps) == ("before", 10 * SECOND, 3)
    assert told.step_ns == pytest.approx((2 * SECOND + 1000) / 3)
    assert ExpectedTime("r", 10 * SECOND, 3, SECOND).of(5) == 12 * SECOND


@pytest.mark.parametrize(
    "manifest",
    [
        {"workload": "digits-cnn"},
        {"strategy": "mirrored"},
        {"outcome": "failed"},
        {"command": ["tracer", "run", "--fault", "delay=50:worker:0@step:1"]},
        {"command": ["tracer", "run", "--fault=delay=50:worker:0@step:1"]},
        {"options": default_options(*NAMES) | {"batch": "8"}},
        {"tasks": [TaskRecord("worker:0", 3, devices=[WORKER])]},
    ],
)
def test_a_run_of_another_kind_says_nothing(tmp_path: Path, manifest: Mapping[str, Any]) -> None:
    assert expected_time(library(tmp_path, **manifest), asked()) is None


def test_of_a_run_with_a_fault_nothing_is_said(tmp_path: Path) -> None:
    fault = {"kind": "kill", "task": "worker:0", "step": "5"}
    assert expected_time(library(tmp_path), asked(fault=fault)) is None


def test_options_that_are_chosen_are_those_of_the_run_before(tmp_path: Path) -> None:
    options = default_options(*NAMES) | {"batch": "8"}
    assert expected_time(library(tmp_path, options=options), asked(options={"batch": "8"}))
