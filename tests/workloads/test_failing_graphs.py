"""Workloads that are meant to fail: one root cause, in words, and what it did to the others."""

import json
from pathlib import Path
from typing import Any

import pytest

from tracer.cli import main
from tracer.model.trace_folder import Flag
from vizdist.store.trace import Trace, open_trace

NEAR = pytest.param(["--in-process"], id="near")
FAR = pytest.param([], id="grpc", marks=[pytest.mark.cluster, pytest.mark.slow])


def failed(out: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["run", *arguments, "--json", "--out", str(out)]) == 1
    error: dict[str, Any] = json.loads(capsys.readouterr().out)["error"]
    return error


def failed_spans(trace: Trace, kind: str) -> set[tuple[str, str]]:
    """Task and name of those of a kind that ended with an error."""
    spans = trace.spans(kinds=[kind])
    spans = spans.take(spans.flags & Flag.ERROR > 0)
    return set(zip(spans.task.tolist(), spans.text("name").tolist(), strict=True))


@pytest.mark.parametrize("flags", [NEAR, FAR])
def test_a_bad_op_is_the_root_cause_and_its_readers_have_derived_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    error = failed(tmp_path / "t", capsys, "bad-op", *flags)
    assert (error["code"], error["task"], error["node"]) == (
        "INVALID_ARGUMENT",
        "worker:1",
        "checked",
    )
    assert "share = 1 / 0 steps left : Tensor had Inf values" in error["message"]
    trace = open_trace(tmp_path / "t")
    assert failed_spans(trace, "op.run") == {("worker:1", "checked")}
    assert {task for task, _ in failed_spans(trace, "rendezvous.recv")} == {"ps:0", "worker:0"}


@pytest.mark.parametrize("flags", [NEAR, FAR])
def test_a_deadlock_ends_at_the_steps_limit_and_names_the_keys_that_were_never_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    error = failed(tmp_path / "t", capsys, "deadlock", "--step-timeout", "1", *flags)
    assert error["code"] == "DEADLINE_EXCEEDED"
    assert "step 1 did not end within 1 s" in error["message"]
    for edge in ("take_left", "take_right"):
        assert f"_{edge};0:0" in error["message"]


def test_with_one_element_in_it_the_ring_turns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--option", "primed=true", "--in-process", "--json", "--out", str(tmp_path / "t")]
    assert main(["run", "deadlock", *flags]) == 0
    assert json.loads(capsys.readouterr().out)["result"]["take_left:0"] == 1.0
