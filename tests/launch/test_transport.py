"""Runs whose tasks talk by unix sockets and shared memory instead of gRPC streams."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.launch.commands import manifest, pid_of, running, tracer, wait_for_steps
from tests.launch.test_by_hand import cluster_file, free_ports
from tracer.cli import main
from vizdist.store.trace import Trace, open_trace

ONE_WORKER = ("digits-mlp", "--strategy", "parameter_server_v1", "--workers", "1")


def run_json(out: Path, *arguments: str) -> dict[str, Any]:
    done = tracer("run", *arguments, "--json", "--out", str(out))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def ways_of(trace: Trace, method: str) -> set[tuple[str, str]]:
    """How the calls of a method went, as their spans tell."""
    calls = trace.spans(kinds=["rpc.client", "rpc.server"])
    found = set()
    for span in calls.span:
        told = trace.span(int(span)).attributes
        if told["rpc.method"].rpartition("/")[2] == method:
            found.add((told["rpc.system.name"], told["network.transport"]))
    return found


@pytest.mark.cluster
@pytest.mark.slow
def test_a_run_learns_the_same_by_either_transport_and_its_trace_says_which(tmp_path: Path) -> None:
    told = {
        way: run_json(tmp_path / way, *ONE_WORKER, "--steps", "5", "--transport", way)
        for way in ("grpc", "local")
    }
    assert told["grpc"]["loss"] == told["local"]["loss"]
    assert told["grpc"]["bytes"] == told["local"]["bytes"] > 0
    for way, expected in (("grpc", ("grpc", "tcp")), ("local", ("vizdist.local", "unix"))):
        trace = open_trace(tmp_path / way)
        for method in ("RunGraph", "RecvTensor", "CleanupGraph"):
            assert ways_of(trace, method) == {expected}, method
        assert ways_of(trace, "RegisterGraph") == {("grpc", "tcp")}


@pytest.mark.cluster
@pytest.mark.slow
def test_a_graph_is_run_over_the_launchers_own_socket(tmp_path: Path) -> None:
    graph = Path(__file__).parent.parent / "golden" / "iii_diamond__grpc.json"
    local, grpc = (
        run_json(tmp_path / way, str(graph), "--transport", way) for way in ("local", "grpc")
    )
    assert local["result"] == grpc["result"]
    assert ways_of(open_trace(tmp_path / "local"), "RunStep") == {("vizdist.local", "unix")}


@pytest.mark.slow
@pytest.mark.cluster
def test_a_killed_task_is_named_at_once_and_leaves_no_socket(tmp_path: Path) -> None:
    trace = tmp_path / "t"
    request = (*ONE_WORKER, "--steps", "100000", "--transport", "local", "--out", str(trace))
    with running("run", *request) as run:
        wait_for_steps(trace, "worker:0")
        pid = pid_of(trace, "ps:0")
        scratch = Path(f"/proc/{pid}/environ").read_bytes().split(b"VIZDIST_SCRATCH=")[1]
        folder = Path(scratch.split(b"\0")[0].decode()) / "sockets"
        assert len(list(folder.iterdir())) == 2
        assert folder.stat().st_mode & 0o077 == 0
        os.kill(pid, signal.SIGKILL)
        _, errors = run.communicate(timeout=20)
    assert run.returncode == 1
    assert "tracer: ps:0 in step " in errors
    assert ": was killed by SIGKILL" in errors
    assert not folder.exists()
    assert manifest(trace)["outcome"] == "failed"


@pytest.mark.slow
@pytest.mark.cluster
def test_tasks_started_by_hand_find_each_others_sockets(tmp_path: Path) -> None:
    cluster = ("--cluster", str(cluster_file(tmp_path, *free_ports(2))), "--transport", "local")
    ps = ("task", "--job", "ps", "--index", "0", *cluster, "--out", str(tmp_path / "ps"))
    worker = ("task", ONE_WORKER[0], *ONE_WORKER[1:3], "--job", "worker", "--index", "0", *cluster)
    with running(*ps):
        done = tracer(*worker, "--steps", "3", "--out", str(tmp_path / "w"))
    assert done.returncode == 0, done.stderr
    assert ways_of(open_trace(tmp_path / "w"), "RecvTensor") == {("vizdist.local", "unix")}


def test_a_cluster_of_two_hosts_cannot_talk_locally(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"ps": ["127.0.0.1:2222"], "worker": ["10.0.0.7:2222"]}))
    request = ["task", "--job", "ps", "--index", "0", "--cluster", str(cluster)]
    assert main([*request, "--transport", "local", "--out", str(tmp_path / "t")]) == 2
    assert "10.0.0.7:2222 is no loopback address; use --transport grpc" in capsys.readouterr().err
    assert not (tmp_path / "t").exists()


def test_one_process_has_no_transport(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = ["run", *ONE_WORKER, "--in-process", "--transport", "local"]
    assert main([*request, "--out", str(tmp_path / "t")]) == 2
    assert "--in-process has only one; leave one out" in capsys.readouterr().err


def test_a_transport_that_is_none_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", *ONE_WORKER, "--transport", "tcp"])
    assert ended.value.code == 2
    assert "choose from" in (said := capsys.readouterr().err)
    assert "grpc" in said
    assert "local" in said
