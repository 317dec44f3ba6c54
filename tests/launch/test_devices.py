"""Which devices a task gets: those that were asked for, else every GPU, else a CPU."""

import pytest
import torch

from tracer.launch.devices import BadDevices, devices_from
from tracer.launch.plan import Plan
from tracer.model.cluster import TaskName
from tracer.runtime.devices import make_devices
from tracer.strategies.one_device import OneDevice
from tracer.strategies.parameter_server_v1 import ParameterServerV1
from tracer.strategies.strategy import StrategyError, Topology, local_devices

WORKER_0, PS_0 = TaskName("worker", 0), TaskName("ps", 0)
TWO_ON_ONE = ("cuda:0", "cuda:0")


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


@pytest.mark.usefixtures("two_gpus")
def test_gpus_are_named_one_by_one_and_may_come_twice() -> None:
    assert devices_from("cuda:0,cuda:0") == TWO_ON_ONE
    assert devices_from("cuda:1") == ("cuda:1",)
    assert devices_from("cpu:2") == ("cpu:0", "cpu:1")
    assert devices_from("auto") is None


@pytest.mark.usefixtures("two_gpus")
def test_auto_is_every_gpu() -> None:
    assert local_devices(Topology()) == ("cuda:0", "cuda:1")
    assert local_devices(Topology(devices=("cpu:0",))) == ("cpu:0",)


@pytest.mark.usefixtures("no_gpu")
def test_auto_is_the_cpu_where_there_is_no_gpu() -> None:
    assert local_devices(Topology()) == ("cpu:0",)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    "text", ["", "cpu", "cpu:0", "cpu:²", "cpu:100000", "tpu:1", "cuda", "cuda:0,cpu:1", "cuda:00"]
)
def test_other_words_are_refused_with_those_that_are_right(text: str) -> None:
    with pytest.raises(BadDevices, match="write auto, cpu:N with N from 1 to"):
        devices_from(text)


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_that_is_not_here_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        BadDevices, match=r"--ps-devices .*cuda:7 is not here.*2 GPUs: cuda:0, cuda:1"
    ):
        devices_from("cuda:0,cuda:7", "--ps-devices")


@pytest.mark.usefixtures("no_gpu")
def test_where_there_is_no_gpu_the_cpu_is_proposed() -> None:
    with pytest.raises(BadDevices, match="torch finds 0 GPUs: name cpu:N"):
        devices_from("cuda:0")
    with pytest.raises(ValueError, match=r"device gpu:0: torch .* finds 0 GPUs.*name one of them"):
        make_devices(WORKER_0, ["gpu:0"])


def test_a_ps_has_a_cpu_unless_it_was_given_others() -> None:
    strategy = ParameterServerV1()
    asked = Topology(devices=TWO_ON_ONE)
    assert strategy.devices(PS_0, asked) == ("cpu:0",)
    assert strategy.devices(WORKER_0, asked) == TWO_ON_ONE
    asked = Topology(devices=("cpu:0",), ps_devices=TWO_ON_ONE)
    assert strategy.devices(PS_0, asked) == TWO_ON_ONE
    assert strategy.devices(WORKER_0, asked) == ("cpu:0",)


def test_a_strategy_without_ps_refuses_devices_for_it() -> None:
    with pytest.raises(StrategyError, match=r"--ps-devices .*has no ps; leave --ps-devices out"):
        OneDevice().cluster(Topology(ps_devices=("cpu:0",)))


def test_devices_survive_the_way_to_the_tasks() -> None:
    plan = Plan("r", topology=Topology(2, 1, TWO_ON_ONE, ("cpu:0",)))
    assert Plan.from_json(plan.to_json()) == plan
    assert Plan.from_json(Plan("r").to_json()).topology == Topology()
