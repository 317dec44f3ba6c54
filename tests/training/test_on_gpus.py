"""Whole workloads on logical GPUs: the values are the CPU's, so only the way could differ."""

import time
from itertools import product

import pytest
import torch

from tests.fake_gpu import FakeDriver
from tests.fakes import FakeClock
from tests.training.trained import trained
from tracer.strategies.registry import STRATEGIES
from tracer.workloads.registry import MODULES

STEPS = 3
LONG = ("char-transformer", "rnn-while")
DEVICES, CPUS = ("cuda:0", "cuda:0"), ("cpu:0", "cpu:1")


def is_long(name: str, strategy: str) -> bool:
    several = strategy in ("mirrored", "multi_worker_mirrored", "central_storage")
    is_smoke = name == "digits-cnn" and strategy != "central_storage"
    return name in LONG or (several and not is_smoke)


class RecordersClock(FakeClock):
    """What recorders read by themselves; on it a fake GPU's waits are over at once."""

    def now_ns(self) -> int:
        return time.perf_counter_ns()

    def advance(self, duration_ns: int) -> None:
        pass


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        pytest.param(*pair, marks=pytest.mark.slow if is_long(*pair) else ())
        for pair in product(MODULES, STRATEGIES)
    ],
)
def test_a_workload_learns_on_gpus_what_it_learns_on_a_cpu(name: str, strategy: str) -> None:
    driver = FakeDriver(RecordersClock())
    there = trained(MODULES[name](), strategy, STEPS, devices=DEVICES, driver=driver)
    here = trained(MODULES[name](), strategy, STEPS, devices=CPUS)
    assert there.fitted.losses == here.fitted.losses
    assert there.variables.keys() == here.variables.keys()
    for variable, value in here.variables.items():
        assert torch.equal(there.variables[variable], value), variable
    ran = {span.lane for span in there.spans if span.kind == "op.run" and span.step}
    assert "stream GPU:0" in ran
    launched = [
        span
        for span in there.spans
        if span.kind == "op.launch" and not span.attributes.get("vizdist.dead")
    ]
    done = [span for span in there.spans if span.kind == "op.run" and "stream" in span.lane]
    assert {span.parent for span in done} == {span.span for span in launched}
    copied = {span.name for span in there.spans if span.kind == "copy.run" and span.step}
    assert copied
    assert not any("seed" in name for name in copied), "the host reads what random numbers begin at"
