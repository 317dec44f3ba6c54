"""Every workload under every strategy: it trains, and where replicas are in step, as one does."""

import math
from functools import cache

import pytest

from tests.clusters import running_cluster
from tests.strategies.several_clients import Training
from tests.training.trained import trained
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.strategy import Topology
from tracer.workloads.requested import Requested
from tracer.workloads.workload import Workload

STEPS = 3
WORKLOADS = ("digits-mlp", "digits-cnn", "char-transformer", "wide-deep")
#: strategy → its options; the others of a pair are defaults
WAYS: dict[str, tuple[str, dict[str, str]]] = {
    "one_device": ("one_device", {}),
    "mirrored": ("mirrored", {}),
    "central_storage": ("central_storage", {}),
    "multi_worker_mirrored": ("multi_worker_mirrored", {}),
    "parameter_server_v1": ("parameter_server_v1", {}),
    "parameter_server_v1 in sync": ("parameter_server_v1", {"sync": "true"}),
}
#: replicas share one global batch, and what they compute of it adds up
IN_STEP = ("mirrored", "central_storage", "multi_worker_mirrored")
#: each replica normalises by its own rows, and drops out by its own numbers
OF_EACH_REPLICA = ("digits-cnn",)
SMOKE = "digits-mlp"
PAIRS = [
    pytest.param(way, workload, marks=[] if workload == SMOKE else [pytest.mark.slow])
    for way in WAYS
    for workload in WORKLOADS
]


def made(name: str) -> Workload:
    return Requested.named(name).make({"batch": "8"}, seed=0)


@cache
def alone(name: str) -> list[float]:
    return trained(made(name), "one_device", STEPS).fitted.losses


def losses_of(way: str, workload: Workload) -> list[list[float]]:
    """By client: two workers where there are several, else two devices."""
    name, options = WAYS[way]
    strategy = STRATEGIES[name]
    if strategy.is_local:
        devices = ("cpu:0",) if name == "one_device" else ("cpu:0", "cpu:1")
        run = trained(workload, name, STEPS, devices=devices, options=options)
        return [run.fitted.losses]
    spec = strategy.cluster(Topology(workers=2))
    with running_cluster("near", spec) as cluster:
        clients = Training(cluster, spec, name, workload, STEPS).run(**options)
    return [client.losses for client in clients]


@pytest.mark.parametrize(("way", "name"), PAIRS)
def test_a_workload_trains_under_a_strategy(way: str, name: str) -> None:
    clients = losses_of(way, made(name))
    assert all(losses and all(map(math.isfinite, losses)) for losses in clients)
    if way in IN_STEP and name not in OF_EACH_REPLICA:
        for losses in clients:
            assert losses == pytest.approx(alone(name), rel=1e-4, abs=1e-5)


def test_no_strategy_is_left_out() -> None:
    assert {name for name, _ in WAYS.values()} == STRATEGIES.keys()
