"""Faults on real processes: one root cause in time, or a run that goes on; the trace has both."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.launch.commands import command, manifest, pid_of, running, until
from vizdist.store.trace import Trace, open_trace

pytestmark = pytest.mark.cluster

TWO_SERVERS = ("digits-mlp", "--strategy", "parameter_server_v1", "--ps", "2", "--workers", "2")
LIMIT_S = 180.0


def run(out: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON that was printed, and what stood on stderr."""
    done = subprocess.run(
        command(["run", *arguments, "--json", "--out", str(out)]),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def told(trace: Trace, kind: str) -> list[dict[str, Any]]:
    """Attributes of the spans of a kind."""
    places = np.flatnonzero(trace.mask(kinds=[kind])).tolist()
    found = trace.attributes(places)
    return [found[place] for place in places]


@pytest.mark.slow
def test_a_parameter_server_that_dies_comes_back_and_all_go_on_from_the_checkpoint(
    tmp_path: Path,
) -> None:
    out, folder = tmp_path / "t", tmp_path / "ckpt"
    code, printed, errors = run(
        out,
        *TWO_SERVERS,
        *("--steps", "40", "--checkpoint", str(folder), "--checkpoint-every", "10"),
        *("--restart", "1", "--fault", "kill:ps:1@step:15"),
    )
    assert code == 0, errors
    assert "ps:1 was killed by SIGKILL; it is started again" in errors
    assert printed["accuracy"] > 0.6
    trace = open_trace(out)
    assert [f["vizdist.fault"] for f in told(trace, "fault.inject")] == ["kill:ps:1@step:15"]
    (again,) = told(trace, "task.restart")
    assert (again["vizdist.peer"], again["vizdist.attempt"]) == ("ps:1", 1)
    recovered = told(trace, "session.recover")
    (step,) = {each["vizdist.resumed_step"] for each in recovered}
    (restored,) = told(trace, "checkpoint.restore")
    assert step == restored["vizdist.checkpoint.step"] + 1
    assert len(recovered) == 2
    assert restored["vizdist.checkpoint.shards"] == 2
    (back,) = trace.spans(kinds=["task.restart"]).end.tolist()
    saves = trace.spans(kinds=["checkpoint.save"]).end.tolist()
    saved = [each["vizdist.checkpoint.step"] for each in told(trace, "checkpoint.save")]
    before = [number for number, end in zip(saved, saves, strict=True) if end < back]
    assert restored["vizdist.checkpoint.step"] == max(before) <= 10
    runs = [end < back for end in trace.spans(step=step, kinds=["session.run"]).end.tolist()]
    assert runs.count(True) >= 1  # the step was made once,
    assert runs.count(False) == 2  # and by both again: the counter rolled back
    spans = {path.name for path in (out / "spans").iterdir()}
    assert {"ps-1.0.otlp.jsonl.gz", "ps-1.1.otlp.jsonl.gz"} <= spans
    (ps,) = [each for each in manifest(out)["tasks"] if each["task"] == "ps:1"]
    assert (ps["restarts"], ps["outcome"]) == (["was killed by SIGKILL"], "done")
    code, _, errors = run(
        tmp_path / "u", *TWO_SERVERS, "--steps", "50", "--checkpoint", str(folder)
    )
    assert code == 0, errors
    assert "goes on after step 40" in errors


@pytest.mark.slow
def test_a_worker_that_dies_comes_back_alone_and_the_others_do_not_stop(tmp_path: Path) -> None:
    flags = ("--steps", "30", "--restart", "1", "--fault", "kill:worker:1@step:5")
    code, _, errors = run(tmp_path / "t", *TWO_SERVERS, *flags)
    assert code == 0, errors
    trace = open_trace(tmp_path / "t")
    assert not told(trace, "session.recover")
    assert len(told(trace, "task.restart")) == 1
    steps = [trace.spans(step=n, kinds=["session.run"], tasks=["worker:1"]) for n in (4, 5, 30)]
    assert [len(each) for each in steps] == [1, 2, 1]


SLOW_TO_START = """
import os
import time
from pathlib import Path
from torch import nn, ones
from tracer.launch.plan import SCRATCH_VARIABLE


def make():
    while SCRATCH_VARIABLE in os.environ and not Path("go").exists():  # in a task, not the launcher
        time.sleep(0.02)
    data = ones(8, 2), ones(8, 1)
    return {"module": nn.Linear(2, 1), "loss": nn.functional.mse_loss, "data": data}
"""


@pytest.mark.slow
def test_a_parameter_server_that_dies_before_the_first_step_comes_back_too(tmp_path: Path) -> None:
    """Without a checkpoint: nothing is lost yet."""
    (tmp_path / "model.py").write_text(SLOW_TO_START)
    out = tmp_path / "t"
    flags = (
        "--strategy",
        "parameter_server_v1",
        "--workers",
        "2",
        "--steps",
        "4",
        "--restart",
        "1",
    )
    with running("run", "model:make", *flags, "--out", str(out), cwd=tmp_path) as process:
        os.kill(pid_of(out, "ps:0"), signal.SIGKILL)
        until(lambda: restarts(out, "ps:0"), "its death to be seen")
        (tmp_path / "go").touch()
        errors = process.communicate(timeout=LIMIT_S)[1]
        assert process.returncode == 0, errors
    trace = open_trace(out)
    assert len(told(trace, "task.restart")) == 1
    steps = [len(trace.spans(step=n, kinds=["session.run"])) for n in range(1, 5)]
    assert steps == [2, 2, 2, 2]


def restarts(out: Path, task: str) -> list[str]:
    (found,) = [each["restarts"] for each in manifest(out)["tasks"] if each["task"] == task]
    return list(found)


@pytest.mark.slow
def test_without_a_checkpoint_nothing_is_made_up_for_what_was_lost(tmp_path: Path) -> None:
    flags = ("--steps", "60", "--restart", "1", "--fault", "kill:ps:1@step:5")
    code, printed, errors = run(tmp_path / "t", *TWO_SERVERS, *flags)
    assert code == 1
    assert printed["error"]["code"] == "FAILED_PRECONDITION"
    assert printed["error"]["task"] == "ps:1"
    assert "the variables that it held are gone: fc1/bias, fc2/bias" in errors


GROUP = ("--strategy", "multi_worker_mirrored", "--workers", "2")
EVERY_10 = ("--checkpoint-every", "10", "--restart", "1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "dead"),
    [
        (("--strategy", "mirrored"), "worker:0"),
        (GROUP, "worker:0"),
        (GROUP, "worker:1"),
        ((*GROUP, "--collectives", "native"), "worker:0"),
        ((*GROUP, "--collectives", "native"), "worker:1"),
    ],
)
def test_copies_that_step_together_go_back_together_and_end_as_if_nobody_had_died(
    flags: tuple[str, ...], dead: str, tmp_path: Path
) -> None:
    out, steps = tmp_path / "t", ("digits-mlp", "--steps", "20")
    tolerant = (*EVERY_10, "--checkpoint", str(tmp_path / "ckpt"))
    fault = ("--fault", f"kill:{dead}@step:15")
    code, printed, errors = run(out, *steps, *flags, *tolerant, *fault)
    assert code == 0, errors
    assert f"{dead} was killed by SIGKILL; it is started again" in errors
    trace = open_trace(out)
    (restored,) = told(trace, "checkpoint.restore")
    assert restored["vizdist.checkpoint.step"] == 10
    resumed = {each["vizdist.resumed_step"] for each in told(trace, "session.recover")}
    assert resumed <= {11}
    code, whole, errors = run(tmp_path / "u", *steps, "--strategy", "one_device", "--in-process")
    assert code == 0, errors
    assert printed["loss"] == pytest.approx(whole["loss"], abs=1e-5)
    assert printed["accuracy"] == pytest.approx(whole["accuracy"], abs=1e-6)


SYNCHRONOUS = (*TWO_SERVERS, "--option", "sync=true")


@pytest.mark.slow
@pytest.mark.parametrize("dead", ["worker:0", "worker:1", "ps:0", "ps:1"])
def test_workers_that_step_together_by_their_servers_go_back_together(
    dead: str, tmp_path: Path
) -> None:
    """Who waits in a queue of a server for one that died has no connection to it."""
    steps = ("--steps", "20", "--step-timeout", "120")
    tolerant = (*EVERY_10, "--checkpoint", str(tmp_path / "ckpt"))
    fault = ("--fault", f"kill:{dead}@step:15")
    code, printed, errors = run(tmp_path / "t", *SYNCHRONOUS, *steps, *tolerant, *fault)
    assert code == 0, errors
    assert f"{dead} was killed by SIGKILL; it is started again" in errors
    trace = open_trace(tmp_path / "t")
    (restored,) = told(trace, "checkpoint.restore")
    assert restored["vizdist.checkpoint.step"] == 10
    assert {each["vizdist.resumed_step"] for each in told(trace, "session.recover")} <= {11}
    code, whole, errors = run(tmp_path / "u", *SYNCHRONOUS, "--steps", "20", "--in-process")
    assert code == 0, errors
    assert printed["loss"] == pytest.approx(whole["loss"], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--in-process",)])
def test_workers_whose_data_end_before_those_of_others_say_so_and_nobody_waits_for_them(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    """Of 350 rows two workers have 88, that is a batch of one more than the 87 of the others."""
    servers = ("--strategy", "parameter_server_v1", "--workers", "4", "--option", "sync=true")
    data = ("--option", "batch=87", "--option", "epochs=1", "--step-timeout", "1000")
    code, printed, errors = run(tmp_path / "t", "wide-deep", *servers, *data, *more)
    assert code == 1, errors
    error = printed["error"]
    assert (error["code"], error["task"] in ("worker:2", "worker:3")) == ("OUT_OF_RANGE", True)
    ended = f"the data of {error['task']} ended with step 1, and worker:0, worker:1 would go on"
    assert ended in error["message"]


@pytest.mark.slow
def test_a_group_without_a_checkpoint_says_why_it_cannot_go_on(tmp_path: Path) -> None:
    flags = ("--steps", "1000", "--restart", "1", "--fault", "kill:worker:1@step:5")
    code, printed, errors = run(tmp_path / "t", "digits-mlp", *GROUP, *flags)
    assert code == 1
    assert printed["error"]["code"] == "FAILED_PRECONDITION"
    assert "There is no checkpoint that all workers could go back to" in errors


@pytest.mark.slow
def test_a_synchronous_run_that_goes_on_counts_its_steps_from_the_checkpoint(
    tmp_path: Path,
) -> None:
    """Also the worker for which no update waits, and whose own steps are fewer or more."""
    flags = ("--strategy", "parameter_server_v1", "--workers", "3", "--option", "sync=true")
    more = ("--option", "backup_workers=1", "--checkpoint", str(tmp_path / "ckpt"))
    for steps in (6, 12):
        out = tmp_path / str(steps)
        code, _, errors = run(out, "digits-mlp", *flags, *more, "--steps", str(steps))
        assert code == 0, errors
    steps_of = told(open_trace(tmp_path / "12"), "session.run")
    counted = [each["vizdist.global_step"] for each in steps_of if "vizdist.global_step" in each]
    assert set(map(int, counted)) == {*range(7, 13)}
