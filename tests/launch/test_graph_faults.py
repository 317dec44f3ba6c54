"""Graphs made by hand on real processes, whose tasks die with variables and come back."""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.launch.commands import pid_of, tracer_here, until
from tests.launch.test_faults import run, told
from tracer.launch import launcher
from tracer.launch.jobs import Client, Job, drive
from vizdist.store.trace import open_trace

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

GOLDEN = Path(__file__).parent.parent / "golden" / "viii_mlp_momentum_2ps__grpc.json"
EVERY = ("--checkpoint-every", "10", "--restart", "1")


def two_servers(folder: Path) -> str:
    raw = json.loads(GOLDEN.read_text())
    path = folder / "two-servers.json"
    path.write_text(json.dumps({**raw, "devices": {"ps": 2, "worker": 2}}))
    return str(path)


def resumed(out: Path) -> tuple[int, int]:
    """The step that was lost, and the one after the checkpoint that was restored."""
    trace = open_trace(out)
    (recover,) = told(trace, "session.recover")
    (restored,) = told(trace, "checkpoint.restore")
    step = restored["vizdist.checkpoint.step"] + 1
    assert recover["vizdist.resumed_step"] == step
    return recover["vizdist.lost_step"], step


def test_a_server_of_a_graph_dies_and_its_variables_come_back_from_the_checkpoint(
    tmp_path: Path,
) -> None:
    graph, out = two_servers(tmp_path), tmp_path / "t"
    folder = ("--checkpoint", str(tmp_path / "ckpt"))
    flags = ("--steps", "20", *folder, *EVERY, "--fault", "kill:ps:1@step:15")
    code, printed, errors = run(out, graph, *flags)
    assert code == 0, errors
    assert "ps:1 was killed by SIGKILL; it is started again" in errors
    assert resumed(out) == (15, 11)
    trace = open_trace(out)
    (again,) = told(trace, "task.restart")
    assert again["vizdist.peer"] == "ps:1"
    assert len(trace.spans(step=12, kinds=["session.run"])) == 2
    code, whole, errors = run(tmp_path / "u", graph, "--steps", "20")
    assert code == 0, errors
    assert printed["result"] == whole["result"]


def test_the_master_of_a_graph_dies_and_its_client_dials_it_again(tmp_path: Path) -> None:
    folder = ("--checkpoint", str(tmp_path / "ckpt"))
    flags = ("--steps", "20", *folder, *EVERY, "--fault", "kill:worker:0@step:15")
    code, printed, errors = run(tmp_path / "t", "model-parallel-mlp", *flags)
    assert code == 0, errors
    assert resumed(tmp_path / "t") == (15, 11)
    assert printed["accuracy"] > 0


@pytest.mark.parametrize("dead", ["worker:0", "worker:1"])
def test_a_task_of_a_graph_that_dies_before_its_client_dials_comes_back(
    dead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its client waits for it, and has nothing to complain of."""
    out = tmp_path / "t"

    def drive_late(job: Job, client: Client) -> Mapping[str, Any]:
        pid = pid_of(out, dead)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not psutil.pid_exists(pid), "its death")
        return drive(job, client)

    monkeypatch.setattr(launcher, "drive", drive_late)
    done = tracer_here(capsys, "run", "diamond", "--restart", "1", "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    assert len(told(open_trace(out), "task.restart")) == 1


def test_without_a_checkpoint_a_graph_names_what_died_with_its_server(tmp_path: Path) -> None:
    flags = ("--steps", "20", "--fault", "kill:ps:1@step:5")
    code, printed, errors = run(tmp_path / "t", two_servers(tmp_path), *flags)
    assert code == 1
    error: dict[str, Any] = printed["error"]
    assert error["task"] == "ps:1"
    assert "with it went w1, w2, w1/Momentum, w2/Momentum" in error["message"], errors
