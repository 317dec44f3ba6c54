"""pipeline-steps: a queue changes when a batch is prepared, and nothing of what is learned."""

import json
from pathlib import Path
from typing import Any

import pytest

from tracer.cli import main
from vizdist.analysis.loss_curve import loss_curve
from vizdist.store.trace import Trace, open_trace


def run(out: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[Trace, dict[str, Any]]:
    command = ["run", "pipeline-steps", "--in-process", "--json", "--out", str(out)]
    assert main([*command, *flags]) == 0
    return open_trace(out), json.loads(capsys.readouterr().out)


def ops_of(trace: Trace, name: str) -> list[tuple[int, int]]:
    """Start and end of an op, step by step."""
    spans = trace.spans(kinds=["op.run"])
    spans = spans.take(spans.has_word("name", name) & (spans.step > 0))
    return sorted(zip(spans.start.tolist(), spans.end.tolist(), strict=True))


def test_it_learns_the_same_however_many_batches_lie_in_the_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = []
    for ahead in (0, 1, 3):
        flags = ("--option", f"ahead={ahead}", "--steps", "60", "--seed", "7")
        trace, printed = run(tmp_path / str(ahead), capsys, *flags)
        assert printed["accuracy"] >= 0.8
        losses.append([loss for _, loss in loss_curve(trace).mean])
    assert losses[0] == losses[1] == losses[2]
    assert len(losses[0]) == 60


def test_without_a_batch_in_the_queue_training_waits_for_the_one_of_its_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, _ = run(tmp_path / "t", capsys, "--option", "ahead=0", "--steps", "20")
    taken, put = ops_of(trace, "dequeue"), ops_of(trace, "enqueue")
    assert len(taken) == len(put) == 20
    assert all(end > start for (_, end), (start, _) in zip(taken, put, strict=True))


def test_with_one_there_a_step_trains_on_what_the_step_before_put_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, _ = run(tmp_path / "t", capsys, "--option", "ahead=1", "--steps", "20")
    taken, put = ops_of(trace, "dequeue"), ops_of(trace, "enqueue")
    assert all(start > put[step][1] for step, (start, _) in enumerate(taken[1:]))
    waits = sorted(end - start for start, end in taken)
    without, _ = run(tmp_path / "u", capsys, "--option", "ahead=0", "--steps", "20")
    serial = sorted(end - start for start, end in ops_of(without, "dequeue"))
    assert waits[10] < serial[10]
