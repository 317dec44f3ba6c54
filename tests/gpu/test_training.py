"""Whole runs on a GPU: the same losses as on the CPU, and every span says where it was."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.launch.commands import tracer
from tracer.strategies.registry import STRATEGIES
from tracer.workloads.registry import MODULES as BUNDLED
from vizdist.analysis.step_split import split_of_client
from vizdist.store.trace import Trace, open_trace

STEPS = 20
#: how near to the CPU's the loss must be; a GPU draws other numbers from a seed for Dropout
LIKE_CPU = {"digits-mlp": 0.001, "digits-cnn": 0.5, "char-transformer": 0.02}
MODULES = [name for name in LIKE_CPU if name in BUNDLED]
DEVICES = ("cuda:0", "cuda:0,cuda:0")
RUNS = list(product(MODULES, STRATEGIES, DEVICES))


def run(workload: str, strategy: str, devices: str, *more: str, out: Path) -> Mapping[str, Any]:
    one_client = () if STRATEGIES[strategy].is_local else ("--workers", "1")
    ended = tracer(
        "run", workload, "--strategy", strategy, "--devices", devices, *one_client,
        "--steps", str(STEPS), "--out", str(out), "--json", *more,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    told: Mapping[str, Any] = json.loads(ended.stdout)
    return told


@pytest.fixture(scope="module")
def run_on_cpu(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Mapping[str, Any]]:
    """Each workload and strategy once."""
    folder = tmp_path_factory.mktemp("cpu")

    @cache
    def once(workload: str, strategy: str) -> Mapping[str, Any]:
        return run(workload, strategy, "cpu:2", out=folder / f"{workload}-{strategy}.trace")

    return once


@pytest.mark.parametrize(("workload", "strategy", "devices"), RUNS)
def test_a_run_on_a_gpu_learns_as_on_the_cpu(
    workload: str,
    strategy: str,
    devices: str,
    run_on_cpu: Callable[[str, str], Mapping[str, Any]],
    tmp_path: Path,
) -> None:
    on_gpu = run(workload, strategy, devices, out=tmp_path / "gpu.trace")
    on_cpu = run_on_cpu(workload, strategy)
    assert on_gpu["loss"] == pytest.approx(on_cpu["loss"], rel=LIKE_CPU[workload])
    assert on_gpu["accuracy"] == pytest.approx(on_cpu["accuracy"], abs=0.1)
    assert on_gpu["spans"]["recorded"] == on_gpu["spans"]["written"]
    check(open_trace(tmp_path / "gpu.trace"))


def check(trace: Trace) -> None:
    """Ops ran on streams, said on which GPU, and are what the step's compute consists of."""
    assert not trace.problems
    spans = trace.all
    lanes = {trace.rows[row].lane for row in set(spans.take(spans.is_kind("op.run")).row.tolist())}
    assert any(lane.startswith("stream GPU:0") for lane in lanes)
    of_gpu = [at for at, device in enumerate(spans.text("device")) if "GPU" in device]
    told = trace.attributes(of_gpu[:500]).values()
    assert {attributes["vizdist.device.physical"] for attributes in told} == {"cuda:0"}
    last = trace.steps[-1]
    parts = split_of_client(trace, last).parts
    assert sum(parts.values()) == last.duration
    assert parts["compute"] + parts["update"] > 0


def test_variables_may_live_on_the_gpu_of_a_parameter_server(tmp_path: Path) -> None:
    told = run(
        "digits-mlp", "parameter_server_v1", "cuda:0", "--ps-devices", "cuda:0",
        out=tmp_path / "ps.trace",
    )  # fmt: skip
    assert told["loss"] < 2.3
    trace = open_trace(tmp_path / "ps.trace")
    lanes = {(row.task, row.lane) for row in trace.rows}
    assert {("ps:0", "stream GPU:0"), ("worker:0", "stream GPU:0")} <= lanes
