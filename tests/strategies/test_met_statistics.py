"""Statistics of workers that have copies of their own: what one of them saves is the mean of all.

TensorFlow saves a SyncOnRead variable so, and every worker takes part in it.
"""

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.clusters import TestCluster, cluster_kind, start_cluster
from tests.strategies.several_clients import Training
from tests.strategies.test_saved_copies import saved
from tracer.capture_graph.capture import Batch
from tracer.capture_graph.optimizers import SGD
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.strategy import Topology
from tracer.training.checkpoint import Checkpoints
from tracer.workloads.workload import Workload, seeded

__all__ = ["cluster_kind", "start_cluster"]

NAME = "multi_worker_mirrored"
TWO = STRATEGIES[NAME].cluster(Topology(workers=2))
X = torch.randn(8, 3, generator=torch.Generator().manual_seed(4))
OWN = "0/running_mean", "0/running_var"


def batches(_seed: int, _worker: int, _workers: int) -> Iterator[Batch]:
    return cycle([(X, X.sum(1, keepdim=True))])


def normed() -> Workload:
    """Workers see other rows, and nobody judges the model."""
    make = seeded(lambda: nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1)))
    return Workload(make, functional.mse_loss, SGD(0.1), batches)


@pytest.mark.parametrize("every", [0, 1, 2])
def test_the_mean_of_all_workers_statistics_is_saved_and_all_go_on_from_it(
    start_cluster: Callable[..., TestCluster], every: int, tmp_path: Path
) -> None:
    checkpoints = Checkpoints(tmp_path, every)
    cluster = start_cluster(TWO, checkpoints=tmp_path)
    trained = Training(cluster, TWO, NAME, normed(), 3, checkpoints=checkpoints).run()
    one, other = (client.variables for client in trained)
    held = saved(tmp_path, 3)
    for name in OWN:
        assert not torch.equal(one[name], other[name])
        torch.testing.assert_close(held[name], (one[name] + other[name]) / 2)
    assert not [name for name in held if "of_all" in name]
    again = Training(cluster, TWO, NAME, normed(), 3, checkpoints=checkpoints).run()
    for client in again:
        assert same(client.variables, held)


def same(found: dict[str, Tensor], held: dict[str, Tensor]) -> bool:
    return all(torch.equal(found[name], held[name]) for name in OWN)


def test_the_first_checkpoint_holds_the_first_values(
    start_cluster: Callable[..., TestCluster], tmp_path: Path
) -> None:
    cluster = start_cluster(TWO, checkpoints=tmp_path)
    Training(cluster, TWO, NAME, normed(), 1, checkpoints=Checkpoints(tmp_path, 1)).run()
    first = saved(tmp_path, 0)
    assert torch.equal(first["0/running_mean"], torch.zeros(3))
    assert torch.equal(first["0/running_var"], torch.ones(3))
