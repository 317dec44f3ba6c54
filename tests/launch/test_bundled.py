"""Every bundled workload under every strategy, with real processes; the dashboard reads it."""

import json
import math
from pathlib import Path

import pytest

from tests.launch.commands import tracer
from tracer.strategies.registry import STRATEGIES
from tracer.workloads.registry import MODULES
from vizdist.cli import main
from vizdist.store.trace import open_trace

pytestmark = pytest.mark.cluster

STEPS = 8
#: what a run prints with --json: a contract
PRINTED = [
    "workload", "strategy", "steps", "seconds", "steps_per_s", "loss", "accuracy", "metric",
    "bytes", "spans", "trace",
]  # fmt: skip


METRICS = {"wide-deep": "R²", "char-transformer": "next letter accuracy"}
IN_SHORT = ("rnn-while", "parameter_server_v1")  #: what the short form of the tests runs
PAIRS = [(name, strategy) for name in MODULES if name != "digits-mlp" for strategy in STRATEGIES]


@pytest.mark.parametrize(
    ("workload", "strategy"),
    [pytest.param(*pair, marks=[] if pair == IN_SHORT else [pytest.mark.slow]) for pair in PAIRS],
)
def test_it_runs_and_its_trace_opens(
    tmp_path: Path, workload: str, strategy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--strategy", strategy, "--steps", str(STEPS), "--option", "batch=8", "--json")
    done = tracer("run", workload, *flags, "--out", str(tmp_path / "t"))
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert list(printed) == PRINTED
    assert math.isfinite(printed["loss"])
    metric = printed["metric"]
    assert metric["name"] == METRICS.get(workload, "accuracy")
    assert metric["value"] <= 1  # R² is below 0 at first
    assert printed["accuracy"] == (None if metric["name"] == "R²" else metric["value"])
    assert printed["spans"]["recorded"] == printed["spans"]["written"]

    trace = open_trace(tmp_path / "t")
    assert len(trace.all) == printed["spans"]["written"]
    assert {step.number for step in trace.steps} == set(range(1, STEPS + 1))
    batches = trace.spans(kinds=["data.next"], step=3).span
    assert trace.span(int(batches[0])).attributes["vizdist.data.global_batch"] == 8
    assert main(["report", str(tmp_path / "t")]) == 0
    assert f"{workload} · {strategy}" in capsys.readouterr().out
