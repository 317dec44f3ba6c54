"""Whole runs on real processes: what they print, leave behind, and say when something dies."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.launch.commands import (
    WAIT_S,
    is_listened_to,
    manifest,
    pid_of,
    running,
    tracer,
    tracer_here,
    tree,
    wait_for_steps,
)
from tracer.model.trace_folder import Flag
from vizdist.analysis.staleness import staleness
from vizdist.store.trace import open_trace

pytestmark = pytest.mark.cluster

VARIABLE_BYTES = 4 * (64 * 32 + 32 + 32 * 10 + 10)  #: S of digits-mlp
STEPS = 30
GOLDEN = Path(__file__).parent.parent / "golden"
PARAMETER_SERVER = ("--strategy", "parameter_server_v1", "--ps", "1", "--workers", "2")


def run_json(out: Path, *arguments: str) -> dict[str, object]:
    done = tracer("run", *arguments, "--json", "--out", str(out))
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_one_device_prints_one_json_object_and_leaves_a_whole_trace(tmp_path: Path) -> None:
    printed = run_json(tmp_path / "t", "digits-mlp", "--strategy", "one_device", "--steps", "5")
    assert printed["steps"] == 5
    assert printed["bytes"] == 0
    assert printed["spans"]["recorded"] == printed["spans"]["written"] > 0  # type: ignore[index]
    assert manifest(tmp_path / "t")["outcome"] == "done"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """One real run for all who only look at it: where its trace is, what it printed."""
    trace = tmp_path_factory.mktemp("run") / "t"
    return trace, run_json(trace, "digits-mlp", *PARAMETER_SERVER, "--steps", str(STEPS))


def test_a_parameter_server_step_moves_each_variable_and_each_gradient_once(
    run: tuple[Path, dict[str, object]],
) -> None:
    trace, printed = run
    evaluation = VARIABLE_BYTES
    assert printed["bytes"] == 2 * STEPS * 2 * VARIABLE_BYTES + evaluation
    recvs = open_trace(trace).spans(step=3, kinds=["rendezvous.recv"])
    remote = recvs.take(recvs.flags & Flag.REMOTE > 0)
    assert len(remote) == 2 * (4 + 4)
    assert remote.bytes.sum() == 2 * 2 * VARIABLE_BYTES


def test_every_task_launcher_and_collector_has_a_process_of_its_own(
    run: tuple[Path, dict[str, object]],
) -> None:
    pids = {task["task"]: task["pid"] for task in manifest(run[0])["tasks"]}
    assert set(pids) == {"launcher", "collector", "ps:0", "worker:0", "worker:1"}
    assert len(set(pids.values())) == 5


def test_two_workers_meet_stale_variables(run: tuple[Path, dict[str, object]]) -> None:
    found = staleness(open_trace(run[0]))
    assert sum(found.missed.values()) == 2 * STEPS * 4
    assert found.worst >= 1


@pytest.mark.parametrize("how", ["processes", "in process"])
def test_a_graph_file_gives_the_values_that_tensorflow_gave(
    tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = GOLDEN / "i_recv_dedup__grpc.json"
    run = ("run", str(golden), "--json", "--out", str(tmp_path / "t"))
    done = tracer(*run) if how == "processes" else tracer_here(capsys, *run, "--in-process")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == json.loads(golden.read_text())["result"]


def test_a_direct_graph_runs_in_a_task_of_its_own(tmp_path: Path) -> None:
    golden = GOLDEN / "iii_diamond__direct.json"
    printed = run_json(tmp_path / "t", str(golden))
    assert printed["result"] == json.loads(golden.read_text())["result"]


def test_a_graph_that_fails_prints_its_error_as_json_and_exits_1(tmp_path: Path) -> None:
    graph = json.loads((GOLDEN / "xii_unfed_placeholder__grpc.json").read_text())
    (tmp_path / "g.json").write_text(json.dumps(graph))
    done = tracer("run", str(tmp_path / "g.json"), "--json", "--out", str(tmp_path / "t"))
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "INVALID_ARGUMENT"
    assert set(error) == {"code", "node", "task", "message"}


def test_a_killed_worker_is_named_with_step_and_cause_within_five_seconds(tmp_path: Path) -> None:
    trace = tmp_path / "t"
    with running(
        "run", "digits-mlp", *PARAMETER_SERVER, "--steps", "100000", "--out", str(trace)
    ) as run:
        victim = pid_of(trace, "worker:1")
        wait_for_steps(trace, "worker:1")
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        _, errors = run.communicate(timeout=WAIT_S)
        took = time.monotonic() - killed
    assert run.returncode == 1
    assert "worker:1 in step " in errors
    assert "was killed by SIGKILL" in errors
    assert took < 5
    outcomes = {task["task"]: task["outcome"] for task in manifest(trace)["tasks"]}
    assert outcomes["worker:1"] == "killed"
    assert open_trace(trace).flag_counts["unfinished"] > 0


def test_ctrl_c_ends_the_whole_tree_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    trace = tmp_path / "t"
    three = (*PARAMETER_SERVER, "--workers", "3", "--steps", "100000")
    with running("run", "digits-mlp", *three, "--out", str(trace)) as run:
        pid_of(trace, "worker:2")
        wait_for_steps(trace, "worker:2")
        members = tree(run.pid)
        run.send_signal(signal.SIGINT)
        told = time.monotonic()
        run.communicate(timeout=WAIT_S)
    assert time.monotonic() - told < 10
    assert run.returncode == 130
    assert not [member for member in members if psutil.pid_exists(member.pid)]
    ended = manifest(trace)
    assert ended["outcome"] == "interrupted"
    assert ended["recorded"] == ended["written"] > 0
    serving = {t["task"]: t["outcome"] for t in ended["tasks"] if t["address"]}
    assert serving == dict.fromkeys(["ps:0", "worker:0", "worker:1", "worker:2"], "done")
    assert not [t for t in ended["tasks"] if t["address"] and is_listened_to(t["address"])]


def test_a_folder_that_holds_something_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note.txt").write_text("mine")
    run = ("run", "digits-mlp", "--strategy", "one_device", "--out", str(tmp_path))
    done = tracer_here(capsys, *run)
    assert done.returncode == 2
    assert "not empty" in done.stderr
    assert (tmp_path / "note.txt").read_text() == "mine"


@pytest.mark.slow
def test_a_graph_whose_task_is_killed_says_so(tmp_path: Path) -> None:
    """The launcher is the client here: it hears of a lost stream before it hears of the death."""
    trace, graph = tmp_path / "t", GOLDEN / "i_recv_dedup__grpc.json"
    with running("run", str(graph), "--steps", "1000000", "--out", str(trace), "--json") as run:
        wait_for_steps(trace, "ps:0")
        os.kill(pid_of(trace, "ps:0"), signal.SIGKILL)
        printed, errors = run.communicate(timeout=WAIT_S)
    assert run.returncode == 1
    error = json.loads(printed)["error"]
    assert (error["task"], error["message"]) == ("ps:0", "was killed by SIGKILL")
    assert "tracer: ps:0 in step " in errors


def test_a_run_in_one_process_ends_with_ctrl_c(tmp_path: Path) -> None:
    trace = tmp_path / "t"
    flags = (*PARAMETER_SERVER, "--in-process", "--steps", "1000000", "--out", str(trace))
    with running("run", "digits-mlp", *flags) as run:
        wait_for_steps(trace, "worker:1")
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=WAIT_S)
    assert run.returncode == 130
    assert f"what was recorded is in {trace}" in errors
    assert manifest(trace)["recorded"] == manifest(trace)["written"]


def test_a_client_that_fails_ends_a_run_in_one_process(tmp_path: Path) -> None:
    flags = ("--strategy", "parameter_server_v1", "--workers", "23", "--in-process", "--json")
    done = tracer("run", "digits-mlp", *flags, "--steps", "1000000", "--out", str(tmp_path / "t"))
    assert done.returncode == 1
    assert "at most 22 of them get a batch" in json.loads(done.stdout)["error"]["message"]
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_collector_that_is_killed_costs_the_trace_and_not_the_run(tmp_path: Path) -> None:
    trace = tmp_path / "t"
    flags = ("--strategy", "one_device", "--steps", "2000", "--json", "--out", str(trace))
    with running("run", "digits-mlp", *flags) as run:
        wait_for_steps(trace, "worker:0")
        collector = next(t for t in manifest(trace)["tasks"] if t["task"] == "collector")
        os.kill(collector["pid"], signal.SIGKILL)
        printed, errors = run.communicate(timeout=60)
    assert run.returncode == 0
    assert json.loads(printed)["steps"] == 2000
    assert "the trace is not whole: the collector ended with -9" in errors
    outcomes = {task["task"]: task["outcome"] for task in manifest(trace)["tasks"]}
    assert outcomes["collector"] == "killed"


def test_floats_that_json_lacks_are_printed_as_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [{"name": "c", "op": "Const", "attrs": {"const_value": [1.5, "NaN", "-Infinity"]}}]
    run: dict[str, Any] = {"init": None, "feeds": {}, "fetches": ["c:0"]}
    graph = {"client_graph": nodes, "devices": {"A": "/device:CPU:0"}, "run": run}
    (tmp_path / "g.json").write_text(json.dumps(graph))
    more = ("--in-process", "--json", "--out", str(tmp_path / "t"))
    done = tracer_here(capsys, "run", str(tmp_path / "g.json"), *more)
    assert json.loads(done.stdout)["result"] == {"c:0": [1.5, "NaN", "-Infinity"]}
