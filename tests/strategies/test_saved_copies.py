"""A checkpoint holds one value of each variable, whatever strategy saved it or goes on from it."""

from contextlib import closing
from itertools import cycle
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.strategies.sessions import DEVICES
from tests.training.trained import Run, task_of, trained
from tracer.capture_graph.capture import Evaluation
from tracer.capture_graph.optimizers import SGD
from tracer.model.graph import Input
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.tensor_file import TensorFile
from tracer.runtime.session import NO_TRACING, Session
from tracer.strategies.contexts import ReplicaContext, current
from tracer.strategies.distribution import Distribution
from tracer.training.checkpoint import Checkpoints
from tracer.training.saver import Saver
from tracer.training.trainer import sessions_of
from tracer.workloads.workload import Workload, seeded

CPUS = ("cpu:0", "cpu:1")
X = torch.randn(8, 4, generator=torch.Generator().manual_seed(3))
MEAN = "0/running_mean"


def normed() -> Workload:
    """Replicas see other rows, so their running statistics differ."""
    return Workload(
        make_module=seeded(lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))),
        loss=functional.mse_loss,
        optimizer=SGD(0.1, 0.9),
        batches=lambda _seed, _worker, _workers: cycle([(X, X.sum(1, keepdim=True))]),
        evaluation=lambda: Evaluation((X, X.sum(1, keepdim=True)), functional.mse_loss),
    )


def run(strategy: str, steps: int, folder: Path) -> Run:
    return trained(normed(), strategy, steps, devices=CPUS, checkpoints=Checkpoints(folder))


def saved(folder: Path, step: int) -> dict[str, torch.Tensor]:
    files = [TensorFile(path) for path in Checkpoints(folder).files(step)]
    return {name: file.tensor(name) for file in files for name in file.names}


def test_one_value_of_each_variable_is_saved_the_mean_where_replicas_keep_their_own(
    tmp_path: Path,
) -> None:
    made = run("mirrored", 3, tmp_path).variables
    held = saved(tmp_path, 3)
    assert not [name for name in held if "replica" in name]
    own = made[MEAN], made[f"{MEAN}/replica_1"]
    assert not torch.equal(*own)
    torch.testing.assert_close(held[MEAN], (own[0] + own[1]) / 2)
    assert torch.equal(held["1/weight"], made["1/weight/replica_1"])
    assert held["0/num_batches_tracked"].item() == 3


def test_every_copy_is_restored_also_from_a_run_with_one(tmp_path: Path) -> None:
    run("one_device", 2, tmp_path)
    held = saved(tmp_path, 2)
    gone_on = run("mirrored", 3, tmp_path)
    assert gone_on.fitted.first_step == 3
    for name in ("1/weight", "1/bias"):
        assert torch.equal(gone_on.variables[name], gone_on.variables[f"{name}/replica_1"])
        assert not torch.equal(gone_on.variables[name], held[name])


def test_of_parts_of_a_sum_their_sum_is_saved_and_the_first_copy_gets_it_back(
    tmp_path: Path,
) -> None:
    distribution = Distribution(GraphBuilder(), DEVICES[:2])
    with distribution.scope():
        total = distribution.variable("n", 0.0, synchronization="ON_READ", aggregation="SUM")

        def count() -> Input:
            context = current()
            assert isinstance(context, ReplicaContext)
            return total.assign_add(context.replica + 1.0)

        counted = [each.node for each in distribution.run(count).values]
        held = [f"{each}:0" for each in distribution.run(total.read).values]
    graph, checkpoints = distribution.builder.graph(), Checkpoints(tmp_path)
    with task_of("mirrored", CPUS, folder=tmp_path) as (master, *_):
        saver = Saver(sessions_of(master), graph, checkpoints, NO_TRACING)
        with closing(saver), Session(master, graph) as session:
            session.run([each.node for each in distribution.initializers])
            session.run(counted)
            saver.save(1)
            session.run(counted)
            assert [value.item() for value in session.run(held)] == [2.0, 4.0]
            saver.restore(1)
            assert [value.item() for value in session.run(held)] == [3.0, 0.0]
    assert saved(tmp_path, 1)["n"].item() == 3.0


@pytest.mark.slow
def test_the_model_is_judged_with_the_mean_of_its_statistics(tmp_path: Path) -> None:
    made = run("mirrored", 3, tmp_path)
    held = saved(tmp_path, 3)
    module = normed().make_module(0).eval()
    module.load_state_dict({name.replace("/", "."): value for name, value in held.items()
                            if "Momentum" not in name})  # fmt: skip
    judged = functional.mse_loss(module(X), X.sum(1, keepdim=True)).item()
    assert made.fitted.metric is not None
    assert abs(made.fitted.metric.value - judged) < 1e-6


@pytest.mark.slow
def test_with_one_copy_for_all_statistics_are_the_mean_of_replicas(tmp_path: Path) -> None:
    shared, own = run("central_storage", 1, tmp_path / "a"), run("mirrored", 1, tmp_path / "b")
    mean = (own.variables[MEAN] + own.variables[f"{MEAN}/replica_1"]) / 2
    torch.testing.assert_close(shared.variables[MEAN], mean)
    torch.testing.assert_close(shared.variables["1/weight"], own.variables["1/weight"])
