"""A variable in shards trains as a whole one does; each shard is a variable on a server."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.clusters import running_cluster
from tests.strategies.loss_curve import STEPS, curve, perceptron
from tests.strategies.several_clients import Client, Training
from tests.training.trained import eager, trained
from tracer.capture_graph.capture import Batch
from tracer.capture_graph.optimizers import SGD, AdamW, Optimizer, State
from tracer.model.cluster import TaskName
from tracer.model.graph import HANDLES, Graph
from tracer.strategies.distribution import Building
from tracer.strategies.partitioned_step import partitioned
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.sharded import FixedShards
from tracer.strategies.strategy import Site, StrategyError, Topology
from tracer.workloads.workload import Workload, seeded

STRATEGY = STRATEGIES["parameter_server_v1"]
ONE_WORKER = STRATEGY.cluster(Topology(workers=1, ps=2))
X = torch.randn(6, 5, generator=torch.Generator().manual_seed(2))
ROWS: Batch = (X, X.sum(1, keepdim=True))


def a_net(optimizer: Optimizer) -> Workload:
    """With statistics, which no gradient reaches, and a counter."""
    return Workload(
        seeded(
            lambda: nn.Sequential(nn.Linear(5, 3, bias=False), nn.BatchNorm1d(3), nn.Linear(3, 1))
        ),
        functional.mse_loss,
        optimizer,
        lambda *_: iter([ROWS] * 99),
    )


def cut(optimizer: Optimizer, shards: int = 2) -> Graph:
    captured = a_net(optimizer).step_capture(0).step(ROWS)
    return partitioned(captured, FixedShards(shards)).graph


def on_two_servers(
    workload: Workload, steps: int, devices: tuple[str, ...] = ("cpu:0",), **options: str
) -> Client:
    own = {TaskName("worker", 0): devices}
    with running_cluster("near", ONE_WORKER, devices=own) as cluster:
        training = Training(cluster, ONE_WORKER, STRATEGY.name, workload, steps, devices)
        (client,) = training.run(**options)
        return client


@pytest.mark.parametrize(
    "partitioner", ["fixed:3", pytest.param("max_size:100", marks=pytest.mark.slow)]
)
def test_a_perceptron_in_shards_takes_tensorflows_steps(partitioner: str) -> None:
    client = on_two_servers(perceptron(0.9), STEPS, partitioner=partitioner)
    assert client.losses == pytest.approx(curve(0.9, 1), abs=2e-6)
    assert "fc1/weight" not in client.variables
    assert client.variables["fc1/weight/part_1"].shape[1:] == (64,)


@pytest.mark.slow
def test_so_it_does_with_the_mean_of_two_devices() -> None:
    workload, devices = a_net(AdamW(0.01)), ("cpu:0", "cpu:1")
    whole = on_two_servers(workload, 5, devices, sync="true")
    made = on_two_servers(workload, 5, devices, sync="true", partitioner="fixed:2")
    assert made.losses == pytest.approx(whole.losses, abs=2e-6)


@pytest.mark.parametrize(
    ("rule", "torchs"),
    [
        (SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
        (AdamW(0.01), lambda p: torch.optim.AdamW(p, 0.01)),
    ],
)
def test_shards_take_the_update_of_the_whole(
    rule: Optimizer, torchs: Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer]
) -> None:
    workload = a_net(rule)
    made = trained(workload, STRATEGY.name, 4, options={"partitioner": "fixed:2"})
    module = workload.make_module(0)
    losses = eager(workload, torchs(module.parameters()), module, 4)
    assert made.fitted.losses == pytest.approx(losses, abs=2e-6)
    for name, value in module.state_dict().items():
        if value.shape:  # nobody reads the counter of batches
            found = put_together(made.variables, name)
            torch.testing.assert_close(found, value, rtol=0, atol=2e-6)


def put_together(variables: dict[str, Tensor], name: str) -> Tensor:
    stem = name.replace(".", "/")
    if stem in variables:
        return variables[stem]
    parts = [value for name, value in sorted(variables.items()) if is_part(name, stem)]
    return torch.cat(parts)


def is_part(name: str, stem: str) -> bool:
    return name.startswith(f"{stem}/part_") and "/" not in name.removeprefix(f"{stem}/")


def test_each_shard_says_whose_rows_it_has_and_slots_go_with_it() -> None:
    handles = [node for node in cut(SGD(0.1, 0.9)).nodes if node.op in HANDLES]
    told = {
        node.name: (node.attrs["_part_of"], node.attrs["_offset"], node.attrs["shape"])
        for node in handles
        if "_part_of" in node.attrs
    }
    assert told["0/weight/part_0"] == ("0/weight", 0, [2, 5])
    assert told["0/weight/part_1"] == ("0/weight", 2, [1, 5])
    assert told["0/weight/part_1/Momentum"] == ("0/weight/Momentum", 2, [1, 5])
    assert told["1/running_mean/part_1"] == ("1/running_mean", 2, [1])
    beside = {node.name: node.colocated_with for node in handles}
    assert beside["0/weight/part_1/Momentum"] == ("0/weight/part_1",)
    assert "1/num_batches_tracked" in beside, "a scalar is never cut"


def test_shards_and_whole_variables_take_turns_over_the_servers() -> None:
    captured = a_net(SGD(0.1)).step_capture(0).step(ROWS)
    site = Site(TaskName("worker", 0), ONE_WORKER, options={"partitioner": "fixed:2"})
    graph = STRATEGY.build([captured], [1.0], site, Building()).graph
    turns = [n.requested_device[-1] for n in graph.nodes if n.op in HANDLES]
    assert turns == [str(number % 2) for number in range(len(turns))]


@dataclass(frozen=True, slots=True)
class Scaled:
    """Steps by as much of the gradient as the parameter is long: no row of it moves alone."""

    def slots(self, parameter: Tensor) -> State:
        del parameter
        return {}

    def update(self, parameter: Tensor, gradient: Tensor, slots: State) -> tuple[Tensor, State]:
        return parameter - gradient * parameter.norm(), slots


def test_a_variable_whose_rows_do_not_move_by_themselves_stays_whole() -> None:
    names = {node.name for node in cut(Scaled()).nodes if node.op in HANDLES}
    assert "0/weight" in names
    assert "1/running_mean/part_0" in names


def test_a_refused_partitioner_is_refused_before_a_task_starts() -> None:
    site = Site(TaskName("worker", 0), ONE_WORKER, options={"partitioner": "halves"})
    with pytest.raises(StrategyError, match="partitioner=halves: a partitioner is none, fixed:"):
        STRATEGY.check(site)
