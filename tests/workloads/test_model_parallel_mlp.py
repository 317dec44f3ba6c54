"""model-parallel-mlp: two halves on two workers learn real digits; values cross, weights do not."""

import json
from pathlib import Path
from typing import Any

import pytest

from tracer.cli import main
from vizdist.analysis.bytes_moved import bytes_moved
from vizdist.analysis.loss_curve import loss_curve
from vizdist.store.trace import open_trace

BATCH, HIDDEN = 16, 40


def run(out: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    command = ["run", "model-parallel-mlp", "--in-process", "--json", "--out", str(out)]
    assert main([*command, *flags]) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def test_the_hidden_values_go_up_and_their_gradient_comes_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ("--option", f"batch={BATCH}", "--option", f"hidden={HIDDEN}")
    run(tmp_path / "t", capsys, "--steps", "3", *sizes)
    trace = open_trace(tmp_path / "t")
    moved = {tensor.name: tensor for tensor in bytes_moved(trace, trace.step(2)).tensors}
    values, gradient = moved["lower/1/relu"], moved["gradients/upper/0/mm"]
    assert values.bytes == gradient.bytes == BATCH * HIDDEN * 4
    assert (values.source, values.target) == (gradient.target, gradient.source)
    labels, loss = moved["_recv_y_0"], moved["loss"]
    assert (labels.bytes, loss.bytes) == (BATCH * 8, 4)
    assert not any("weight/Read" in name or "bias/Read" in name for name in moved)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_it_learns(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    printed = run(tmp_path / "t", capsys, "--steps", "120", "--seed", str(seed))
    assert printed["accuracy"] >= 0.88
    losses = [loss for _, loss in loss_curve(open_trace(tmp_path / "t")).mean]
    assert len(losses) == 120
    assert sum(losses[-10:]) < sum(losses[:10]) / 3
