"""Workers that only collectives join take the very steps that one replica takes alone."""

from collections.abc import Callable
from itertools import cycle

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.clusters import TestCluster, cluster_kind, running_cluster, start_cluster
from tests.strategies.loss_curve import STEPS, VARIABLES, curve, perceptron
from tests.strategies.several_clients import Client, Training
from tracer.capture_graph.capture import Evaluation
from tracer.capture_graph.optimizers import SGD
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.strategy import StrategyError, Topology
from tracer.workloads.workload import Workload, seeded

__all__ = ["cluster_kind", "start_cluster"]

NAME = "multi_worker_mirrored"
S_BYTES = 4 * (64 * 32 + 32 + 32 * 10 + 10)  #: of the variables of the perceptron


def cluster_of(workers: int) -> ClusterSpec:
    return STRATEGIES[NAME].cluster(Topology(workers=workers))


def two_by(devices: int) -> tuple[ClusterSpec, tuple[str, ...], dict[TaskName, tuple[str, ...]]]:
    """Two workers, their devices, and the same by worker."""
    spec, own = cluster_of(2), tuple(f"cpu:{number}" for number in range(devices))
    return spec, own, dict.fromkeys(spec.tasks(), own)


def check(clients: list[Client], momentum: float, replicas: int) -> None:
    """All know the loss of the global batch, and have the same bits in all copies."""
    first = clients[0]
    for client in clients:
        assert client.losses == pytest.approx(curve(momentum, 1), abs=2e-6)
        assert client.losses == first.losses
        for name in VARIABLES:
            for copy in (name, *(f"{name}/replica_{number}" for number in range(1, replicas))):
                assert torch.equal(client.variables[copy], first.variables[name])


@pytest.mark.parametrize("momentum", [0.0, pytest.param(0.9, marks=pytest.mark.slow)])
def test_two_workers_take_tensorflows_steps(
    start_cluster: Callable[..., TestCluster], momentum: float
) -> None:
    spec = cluster_of(2)
    clients = Training(start_cluster(spec), spec, NAME, perceptron(momentum), STEPS).run()
    check(clients, momentum, replicas=1)


@pytest.mark.slow
@pytest.mark.parametrize("hint", ["ring", "tree"])
def test_two_devices_of_two_workers_are_four_ranks(hint: str) -> None:
    spec, devices, by_worker = two_by(2)
    with running_cluster("near", spec, devices=by_worker) as cluster:
        training = Training(cluster, spec, NAME, perceptron(0.9), STEPS, devices)
        check(training.run(cross_device_ops=hint), 0.9, replicas=2)


def test_a_step_sends_from_each_rank_what_a_ring_needs() -> None:
    spec = cluster_of(2)
    with running_cluster("near", spec) as cluster:
        Training(cluster, spec, NAME, perceptron(0.0), 3).run()
        cluster.leave()
        reduced = [
            span
            for span in cluster.spans("collective.all_reduce")
            if span.attributes["vizdist.step.number"] == 2
        ]
    by_rank = sorted(
        (span.attributes["vizdist.collective.rank"], span.attributes["vizdist.bytes"])
        for span in reduced
    )
    loss = 4
    assert by_rank == sorted((rank, size) for rank in (0, 1) for size in (S_BYTES, loss))


X = torch.randn(8, 3, generator=torch.Generator().manual_seed(4))
JUDGED = Evaluation((X, X.sum(1, keepdim=True)), functional.mse_loss)


def test_the_model_is_judged_with_the_mean_of_all_workers_statistics() -> None:
    """As TensorFlow reads a SyncOnRead variable from outside of the replicas."""
    workload = Workload(
        seeded(lambda: nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1))),
        functional.mse_loss,
        SGD(0.1),
        lambda *_: cycle([JUDGED.batch]),
        lambda: JUDGED,
    )
    spec = cluster_of(2)
    with running_cluster("near", spec) as cluster:
        clients = Training(cluster, spec, NAME, workload, 3).run()
    chief, other = (client.variables for client in clients)
    module = workload.make_module(0).eval()
    named = {name: name.replace(".", "/") for name in module.state_dict()}
    state = {name: chief[key] for name, key in named.items() if key in chief}
    for name in ("0.running_mean", "0.running_var"):
        key = named[name]
        assert not torch.equal(chief[key], other[key])
        state[name] = (chief[key] + other[key]) / 2
    module.load_state_dict(state, strict=False)  # nothing reads the counter
    judged = functional.mse_loss(module(X), JUDGED.batch[1]).item()
    metric = clients[0].fitted.metric
    assert metric is not None
    assert metric.name == "mse loss"
    assert metric.value == pytest.approx(judged, abs=2e-6)


def test_what_it_has_no_use_for_is_refused() -> None:
    with pytest.raises(StrategyError, match="--ps 1: multi_worker_mirrored keeps variables on"):
        STRATEGIES[NAME].cluster(Topology(ps=1))
