"""What a task finds in its environment, and what of it is left aside."""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pytest

from tracer.launch.devices import devices_from
from tracer.launch.environment import (
    grpc_settings,
    num_on_cores,
    process_settings,
    say_if_proxy_is_ignored,
    task_environment,
    threads_per_device,
)
from tracer.launch.jobs import ModuleJob
from tracer.launch.launcher import Launcher
from tracer.launch.plan import PLAN_VARIABLE, Plan
from tracer.record.clock import OFFSET_NS, OFFSET_VARIABLE
from tracer.strategies.strategy import Topology
from tracer.workloads import digits_mlp


def test_devices_share_the_cores_and_the_users_settings_win(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert [threads_per_device(on_cores) for on_cores in (1, 3, 100)] == [8, 2, 1]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "5")
    found = task_environment(Plan("r"), "/scratch", "secret", 4)
    assert (found["OMP_NUM_THREADS"], found["MKL_NUM_THREADS"]) == ("2", "5")


@pytest.mark.parametrize(
    ("devices", "on_cores"),
    [(["cpu:0"], 1), (["cpu:0", "cpu:1"], 2), (["cuda:0", "cuda:1"], 1)],
)
def test_kernels_of_gpus_take_no_cores(devices: list[str], on_cores: int) -> None:
    assert num_on_cores(devices) == on_cores


class Enough(Exception):
    """No process need start."""


@pytest.mark.parametrize(
    ("strategy", "devices", "threads"),
    [
        ("one_device", "cpu:1", 4),
        ("mirrored", "cpu:2", 2),
        ("mirrored", "cpu:16", 1),
        ("multi_worker_mirrored", "cpu:1", 2),
    ],
)
def test_devices_of_all_tasks_of_a_run_share_the_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, strategy: str, devices: str, threads: int
) -> None:
    told: list[str] = []

    def child(
        _task: object, _arguments: object, environment: Mapping[str, str], *_: object
    ) -> None:
        told.append(environment["OMP_NUM_THREADS"])
        raise Enough

    monkeypatch.setattr("tracer.launch.crew.Child", child)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    topology = Topology(devices=devices_from(devices))
    plan = Plan("r", out=str(tmp_path / "run"), strategy=strategy, topology=topology)
    with pytest.raises(Enough):
        Launcher(plan, ModuleJob(plan, digits_mlp.workload), lambda *_: None).run()
    assert told == [str(threads)]


def test_a_task_gets_plan_and_clock_of_its_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLAN_VARIABLE, "someone else's")
    monkeypatch.setenv(OFFSET_VARIABLE, "7")
    found = task_environment(Plan("mine"), "/scratch", "secret", 1)
    assert Plan.from_json(found[PLAN_VARIABLE]).run_id == "mine"
    assert found[OFFSET_VARIABLE] == str(OFFSET_NS)


@pytest.mark.parametrize("name", ["http_proxy", "https_proxy", "grpc_proxy"])
def test_a_proxy_that_is_ignored_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    for other in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.delenv(other, raising=False)
    say_if_proxy_is_ignored(Plan("r"))
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    say_if_proxy_is_ignored(Plan("r", allow_proxy=True))
    assert not caplog.messages
    say_if_proxy_is_ignored(Plan("r"))
    (message,) = caplog.messages
    assert message.startswith(f"{name} is set; cluster traffic does not go there")


_CALL = """
import asyncio, grpc
async def call():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        await channel.channel_ready()
    await server.stop(None)
asyncio.run(call())
"""


@pytest.mark.parametrize("more", [{}, {"GRPC_EXPERIMENTS": "-no_such_experiment"}])
def test_the_installed_grpc_knows_every_setting_that_it_is_given(more: dict[str, str]) -> None:
    settings = {**process_settings(2), **more}
    done = subprocess.run(
        [sys.executable, "-c", _CALL],
        env={**os.environ, **settings},
        check=True,
        capture_output=True,
        text=True,
    )
    assert ("Unknown experiment" in done.stderr) == bool(more)


def test_event_engine_is_switched_off_where_it_is_the_default_and_can_be() -> None:
    given = {v: bool(grpc_settings(v)) for v in ("1.78.2", "1.80.0", "1.85.3", "1.86.0", "2.0.0")}
    assert given == {
        "1.78.2": False,
        "1.80.0": True,
        "1.85.3": True,
        "1.86.0": False,
        "2.0.0": False,
    }


def test_the_settings_are_those_of_the_installed_version() -> None:
    assert grpc_settings(version("grpcio")).items() <= process_settings(1).items()
