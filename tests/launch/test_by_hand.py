"""Tasks that a person starts one by one: peers that never come, ports that are taken."""

import json
import re
import signal
import socket
from pathlib import Path

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
    until,
    wait_for_steps,
)
from tracer.launch.plan import run_id_of
from tracer.model.cluster import ClusterSpec
from tracer.model.trace_folder import Flag
from vizdist.cli import main as vizdist
from vizdist.store.trace import open_trace

pytestmark = pytest.mark.cluster


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def cluster_file(tmp_path: Path, *ports: int) -> Path:
    addresses = [f"127.0.0.1:{port}" for port in ports]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"ps": addresses[:1], "worker": addresses[1:]}))
    return path


def test_a_task_that_never_comes_up_is_named_with_address_and_last_error(tmp_path: Path) -> None:
    ps, here, absent = free_ports(3)
    cluster = cluster_file(tmp_path, ps, here, absent)
    server = ("task", "--cluster", str(cluster), "--job", "ps", "--index", "0")
    with running(*server, "--out", str(tmp_path / "ps")) as _:
        until(lambda: any(t["address"] for t in manifest(tmp_path / "ps").get("tasks", [])), "ps:0")
        client = ("task", "digits-mlp", "--strategy", "parameter_server_v1", "--job", "worker")
        more = ("--index", "0", "--cluster", str(cluster), "--connect-timeout", "3")
        done = tracer(*client, *more, "--steps", "2", "--out", str(tmp_path / "w"))
    assert done.returncode == 1
    assert re.search(rf"waiting for worker:1 at 127.0.0.1:{absent}: \S", done.stderr)
    assert "ps:0 at" not in done.stderr
    trace = open_trace(tmp_path / "w")
    waits = trace.spans(kinds=["session.wait"])
    in_vain = waits.take(waits.flags & Flag.ERROR > 0)
    assert len(in_vain) == 1
    assert trace.span(int(in_vain.span[0])).attributes["vizdist.peer"] == "worker:1"
    assert manifest(tmp_path / "w")["outcome"] == "failed"


@pytest.mark.slow
def test_an_address_that_leads_nowhere_is_waited_for_no_longer(tmp_path: Path) -> None:
    """192.0.2.1 is for documentation (RFC 5737): a packet to it is lost, or refused on the way."""
    ps, here = free_ports(2)
    path = tmp_path / "cluster.json"
    nowhere = "192.0.2.1:2222"
    path.write_text(
        json.dumps({"ps": [f"127.0.0.1:{ps}"], "worker": [f"127.0.0.1:{here}", nowhere]})
    )
    server = ("task", "--cluster", str(path), "--job", "ps", "--index", "0")
    with running(*server, "--out", str(tmp_path / "ps")):
        client = ("task", "digits-mlp", "--strategy", "parameter_server_v1", "--job", "worker")
        more = ("--index", "0", "--cluster", str(path), "--connect-timeout", "3")
        done = tracer(*client, *more, "--out", str(tmp_path / "w"))
    assert done.returncode == 1
    assert re.search(rf"waited 3 s for 1 of 3 tasks: worker:1 at {nowhere}: \S", done.stderr)
    waits = open_trace(tmp_path / "w").spans(kinds=["session.wait"])
    assert 2.9e9 < max(waits.end - waits.start) < 8e9


@pytest.mark.slow
def test_tasks_serve_each_other_until_the_last_client_is_done(tmp_path: Path) -> None:
    """worker:0 is long done when worker:1 comes, whose session spans both."""
    cluster = ("--cluster", str(cluster_file(tmp_path, *free_ports(3))))
    more = ("digits-mlp", "--strategy", "parameter_server_v1", "--steps", "3")
    ps = ("task", "--job", "ps", "--index", "0", *cluster, "--out", str(tmp_path / "ps"))
    first = ("task", "--job", "worker", "--index", "0", *cluster, *more)
    late = ("task", "--job", "worker", "--index", "1", *cluster, *more)
    with running(*ps) as server, running(*first, "--out", str(tmp_path / "w0")) as worker:
        pid_of(tmp_path / "w0", "worker:0")  # it serves, and waits for worker:1
        done = tracer(*late, "--out", str(tmp_path / "w1"))
        assert done.returncode == 0, done.stderr
        assert "steps        3" in done.stdout
        printed, errors = worker.communicate(timeout=WAIT_S)
        assert worker.returncode == 0, errors
        assert "steps        3" in printed
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=WAIT_S)
        assert server.returncode == 0
    for name, task in (("ps", "ps:0"), ("w0", "worker:0"), ("w1", "worker:1")):
        told = manifest(tmp_path / name)
        assert told["outcome"] == "done"
        assert told["recorded"] == told["written"] > 0
        assert {t["task"] for t in told["tasks"]} == {task, "collector"}
    whole = tmp_path / "whole.trace"
    folders = [str(tmp_path / name) for name in ("ps", "w0", "w1")]
    assert vizdist(["import", *folders, "-o", str(whole)]) == 0
    trace = open_trace(whole)
    assert not trace.problems
    assert [(step.number, step.task) for step in trace.steps] == [
        (number, f"worker:{worker}") for number in (1, 2, 3) for worker in (0, 1)
    ]
    ends = trace.all.row[trace.relations.source], trace.all.row[trace.relations.target]
    tasks = {tuple(trace.rows[row].task for row in pair) for pair in zip(*ends, strict=True)}
    assert {("ps:0", "worker:1"), ("worker:1", "ps:0")} <= tasks


@pytest.mark.slow
def test_who_is_done_first_serves_until_the_last_is_and_then_all_leave(tmp_path: Path) -> None:
    """A ps that knows the workload leaves by itself, too, once all clients said goodbye."""
    ports = free_ports(4)
    shared = ("digits-mlp", "--strategy", "parameter_server_v1")
    cluster = ("--cluster", str(cluster_file(tmp_path, *ports)))

    def task(job: str, index: int, steps: int) -> tuple[str, ...]:
        me = ("--job", job, "--index", str(index), "--steps", str(steps))
        return ("task", *shared, *me, *cluster, "--out", str(tmp_path / f"{job}{index}"))

    with (
        running(*task("ps", 0, 10)) as ps,
        running(*task("worker", 0, 10)) as first,
        running(*task("worker", 1, 10)) as second,
        running(*task("worker", 2, 30)) as last,
    ):
        everybody = [member for one in (ps, first, second, last) for member in tree(one.pid)]
        for one in (last, first, second, ps):
            _, errors = one.communicate(timeout=180)
            assert one.returncode == 0, errors
    assert not [member for member in everybody if psutil.pid_exists(member.pid)]
    assert not [port for port in ports if is_listened_to(f"127.0.0.1:{port}")]
    steps = open_trace(tmp_path / "worker2").spans(kinds=["session.run"])
    (thirtieth,) = steps.end[steps.step == 30].tolist()
    for name in ("ps0", "worker0", "worker1"):
        told = manifest(tmp_path / name)
        assert told["ended_ns"] > thirtieth
        assert {t["outcome"] for t in told["tasks"]} == {"done"}


@pytest.mark.slow
@pytest.mark.parametrize(("fewer", "more"), [(0, 1), (1, 0)])
def test_a_worker_with_a_step_more_is_told_at_once_who_is_done(
    fewer: int, more: int, tmp_path: Path
) -> None:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"worker": addresses}))

    def task(index: int, steps: int) -> tuple[str, ...]:
        me = ("--cluster", str(cluster), "--job", "worker", "--index", str(index))
        asked = ("--strategy", "multi_worker_mirrored", "--steps", str(steps))
        return ("task", "digits-mlp", *asked, *me, "--out", str(tmp_path / f"w{index}"))

    with running(*task(fewer, 3)) as short, running(*task(more, 4)) as long:
        _, errors = long.communicate(timeout=WAIT_S)
        assert long.returncode == 1, errors
        assert f"rank {more} came in step 4, but not rank {fewer} " in errors
        assert f"rank {fewer} (/job:worker/replica:0/task:{fewer}/device:CPU:0), which" in errors
        _, errors = short.communicate(timeout=WAIT_S)
        assert short.returncode == 0, errors
    assert not list(filter(is_listened_to, addresses))


@pytest.mark.slow
def test_workers_with_unequal_numbers_of_devices_are_told_what_to_give(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}))
    shared = ("digits-mlp", "--strategy", "multi_worker_mirrored", "--cluster", str(cluster))

    def task(index: int) -> tuple[str, ...]:
        me = ("--job", "worker", "--index", str(index), "--devices", f"cpu:{index + 1}")
        return ("task", *shared, *me, "--out", str(tmp_path / f"w{index}"))

    with running(*task(0)) as one, running(*task(1)) as other:
        for worker in (one, other):
            _, errors = worker.communicate(timeout=WAIT_S)
            assert worker.returncode == 1, errors
            assert "give all workers the same --devices" in errors


def test_a_strategy_whose_tasks_are_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"worker": ["127.0.0.1:0"]}))
    asked = ("digits-mlp", "--strategy", "parameter_server_v1", "--cluster", str(cluster))
    done = tracer_here(capsys, "task", *asked, "--job", "worker", "--index", "0")
    assert done.returncode == 2
    assert "parameter_server_v1 needs ps:0, and the cluster has worker:0" in done.stderr


def test_a_word_tells_one_run_of_a_cluster_from_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, other = ClusterSpec.of_counts(worker=2), ClusterSpec.of_counts(worker=3)
    assert run_id_of(cluster) == run_id_of(cluster) != run_id_of(other)
    monkeypatch.setenv("VIZDIST_RUN_ID", "tuesday")
    assert run_id_of(cluster) == "tuesday"


def test_a_client_that_is_told_to_stop_leaves_a_whole_trace(tmp_path: Path) -> None:
    cluster = tmp_path / "one.json"
    cluster.write_text(json.dumps({"worker": ["127.0.0.1:0"]}))
    trace = tmp_path / "t"
    client = ("task", "digits-mlp", "--strategy", "one_device", "--job", "worker", "--index", "0")
    more = ("--steps", "1000000", "--cluster", str(cluster), "--out", str(trace))
    with running(*client, *more) as worker:
        wait_for_steps(trace, "worker:0")
        worker.send_signal(signal.SIGTERM)
        _, errors = worker.communicate(timeout=WAIT_S)
    assert worker.returncode == 130
    assert f"what was recorded is in {trace}" in errors
    told = manifest(trace)
    assert (told["outcome"], told["recorded"]) == ("interrupted", told["written"])


def test_a_taken_port_is_refused_with_its_number(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        cluster = cluster_file(tmp_path, port, *free_ports(1))
        flags = ("--cluster", str(cluster), "--job", "ps", "--index", "0")
        done = tracer("task", *flags, "--out", str(tmp_path / "t"))
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
    assert "in use" in done.stderr


def test_a_task_outside_the_cluster_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = cluster_file(tmp_path, *free_ports(2))
    outside = ("--job", "worker", "--index", "5")
    done = tracer_here(capsys, "task", "--cluster", str(cluster), *outside)
    assert done.returncode == 2
    assert "it has ps:0, worker:0" in done.stderr
