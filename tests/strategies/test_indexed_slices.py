"""Of a table only the rows that a batch uses cross, and it trains as if all of it did."""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.built import given
from tests.clusters import running_cluster
from tests.fakes import SpanData
from tests.strategies.several_clients import Client, Training
from tests.training.trained import Run, eager, trained
from tracer.capture_graph.capture import Batch
from tracer.capture_graph.optimizers import SGD, Adam, Optimizer
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph
from tracer.model.step import RendezvousKey
from tracer.runtime.session import Session
from tracer.strategies.distributed_step import captured_steps
from tracer.strategies.distribution import Building
from tracer.strategies.indexed_slices import by_rows
from tracer.strategies.partitioned_step import partitioned
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.sharded import FixedShards
from tracer.strategies.strategy import Site, Topology
from tracer.workloads.workload import Workload, seeded

NAME = "parameter_server_v1"
ROWS, DIM = 1000, 4
FIRST = torch.tensor([[1, 1], [5, 1]])
OTHER = torch.tensor([[5, 7], [998, 7]])
RULES: dict[str, Optimizer] = {"sgd": SGD(0.5), "momentum": SGD(0.5, 0.9), "adam": Adam(0.1)}
TORCH: dict[str, Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.5),
    "momentum": lambda parameters: torch.optim.SGD(parameters, 0.5, 0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, 0.1),
}


class Table(nn.Module):
    def __init__(self, padding: int | None = None) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS, DIM, padding_idx=padding)
        self.out = nn.Linear(2 * DIM, 1)

    def forward(self, x: Tensor) -> Tensor:
        outcome: Tensor = self.out(self.table(x).flatten(1))
        return outcome


class Tied(nn.Module):
    """The table is a layer's weight too."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS, DIM)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(self.table(x).sum(1), self.table.weight)[:, :1]


def a_table(
    rule: str = "sgd", batches: Sequence[Tensor] = (FIRST, OTHER), make: type[nn.Module] = Table
) -> Workload:
    def endless(_seed: int, worker: int, of: int) -> Iterator[Batch]:
        return cycle([(x, x.float().mean(1, keepdim=True) / ROWS) for x in batches[worker::of]])

    return Workload(seeded(make), functional.mse_loss, RULES[rule], endless)


def table_of(run: Run) -> Tensor:
    parts = {n: v for n, v in run.variables.items() if n.startswith("table/weight")}
    values = [parts[n] for n in sorted(parts) if n.split("/")[-1] in ("weight", *PARTS)]
    return torch.cat(values)


PARTS = [f"part_{number}" for number in range(3)]


def moved(spans: Sequence[SpanData], number: int, word: str) -> dict[str, int]:
    """Edge → bytes between tasks in a step, of those edges with a word in their name."""
    found: dict[str, int] = {}
    for span in spans:
        attributes = span.attributes
        if span.kind != "rendezvous.recv" or attributes.get("vizdist.step.number") != number:
            continue
        key = RendezvousKey.parse(str(attributes["vizdist.rendezvous.key"]))
        tasks = {end.rpartition("/device:")[0] for end in (key.src_device, key.dst_device)}
        if len(tasks) == 2 and word in key.edge_name:
            found[key.edge_name] = int(attributes.get("vizdist.bytes", 0))
    return found


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("partitioner", ["none", pytest.param("fixed:3", marks=pytest.mark.slow)])
def test_a_table_learns_as_eager_torch_lets_it(rule: str, partitioner: str) -> None:
    workload = a_table(rule)
    run = trained(workload, NAME, 6, options={"partitioner": partitioner})
    module = workload.make_module(0)
    losses = eager(workload, TORCH[rule](module.parameters()), module, 6)
    assert run.fitted.losses == pytest.approx(losses, abs=2e-6)
    torch.testing.assert_close(
        table_of(run), module.get_parameter("table.weight").detach(), rtol=0, atol=2e-6
    )


@pytest.mark.parametrize(
    ("rule", "sparse", "size"),
    [
        ("sgd", "true", 2 * (8 + 2 * 4 * DIM)),  # two ids, their rows, their gradients
        ("adam", "true", 2 * (8 + 2 * 4 * DIM)),
        ("sgd", "false", 2 * 4 * ROWS * DIM),
    ],
)
def test_ids_cross_once_and_rows_there_and_back(rule: str, sparse: str, size: int) -> None:
    run = trained(a_table(rule), NAME, 1, options={"sparse": sparse})
    assert sum(moved(run.spans, 1, "table").values()) == size


def test_a_lookup_asks_no_more_shards_for_rows_than_have_them() -> None:
    spec = STRATEGIES[NAME].cluster(Topology(workers=1, ps=3))
    with running_cluster("near", spec) as cluster:
        Training(cluster, spec, NAME, a_table(batches=[FIRST]), 1).run(partitioner="fixed:3")
        cluster.leave()
        spans = cluster.spans("rendezvous.recv")
    assert sorted(moved(spans, 1, "Gather").values()) == [0, 0, 2 * 4 * DIM]


def test_ids_are_dealt_out_as_tensorflow_deals_them_out() -> None:
    graph = sharded_graph(3)
    ops = [node.op for node in graph.nodes if node.name.startswith("table/")]
    for op in ("DynamicPartition", "ResourceGather", "DynamicStitch", "FloorDiv", "FloorMod"):
        assert op in ops
    assert ops.count("ResourceGather") == 3
    assert "aten.embedding.default" not in {node.op for node in graph.nodes}


def sharded_graph(shards: int) -> Graph:
    captured = a_table().step_capture(0).step((FIRST, FIRST[:, :1].float()))
    return by_rows(partitioned(captured, FixedShards(shards))).graph


def test_two_devices_send_each_id_of_theirs_once() -> None:
    devices, options = ("cpu:0", "cpu:1"), {"sparse": "true"}
    run = trained(a_table(), NAME, 2, devices=devices, options=options)
    dense = trained(a_table(), NAME, 2, devices=devices, options={"sparse": "false"})
    assert run.fitted.losses == pytest.approx(dense.fitted.losses, abs=2e-6)
    torch.testing.assert_close(table_of(run), table_of(dense), rtol=0, atol=2e-6)
    pushed = moved(run.spans, 1, "of_replicas/sum")
    assert list(pushed.values()) == [4 * 4 * DIM], "1, 5, 7 and 998"


@pytest.mark.parametrize("rule", ["sgd", "momentum"])
def test_workers_that_step_together_meet_in_accumulators_of_rows(rule: str) -> None:
    sparse, dense = together(rule, "true"), together(rule, "false")
    assert sparse[0].losses == pytest.approx(dense[0].losses, abs=2e-6)
    torch.testing.assert_close(
        sparse[0].variables["table/weight"], dense[0].variables["table/weight"], rtol=0, atol=2e-6
    )


def together(rule: str, sparse: str) -> list[Client]:
    spec = STRATEGIES[NAME].cluster(Topology(workers=2, ps=1))
    with running_cluster("near", spec) as cluster:
        return Training(cluster, spec, NAME, a_table(rule), 4).run(sync="true", sparse=sparse)


@pytest.mark.parametrize("make", [Tied, lambda: Table(padding=1)])
def test_a_gradient_that_is_no_plain_sum_of_rows_stays_whole(make: type[nn.Module]) -> None:
    captured = a_table(make=make).step_capture(0).step((FIRST, FIRST[:, :1].float()))
    graph = by_rows(captured).graph
    update = graph["train/update_table/weight"]
    assert update.op == "ResourceApplyGradientDescent"
    assert not any(node.op == "ResourceScatterSub" for node in graph.nodes)


def test_a_table_that_is_read_whole_is_not_looked_up_beside_that() -> None:
    captured = a_table(make=Tied).step_capture(0).step((FIRST, FIRST[:, :1].float()))
    assert by_rows(captured) is captured


def test_a_device_without_rows_has_no_row_of_a_gradient() -> None:
    spec, devices = STRATEGIES[NAME].cluster(Topology(workers=1, ps=1)), ("cpu:0", "cpu:1")
    rows, worker = (FIRST, FIRST[:, :1].float()), TaskName("worker", 0)
    none = rows[0][:0], rows[1][:0]
    steps = captured_steps(a_table().step_capture(0), given(rows, none))
    step = STRATEGIES[NAME].build(steps, [1.0, 0.0], Site(worker, spec, devices), Building())
    read = "table/weight/Read:0"
    with (
        running_cluster("near", spec, devices={worker: devices}) as cluster,
        Session(cluster.tasks.masters[worker], step.graph) as session,
    ):
        session.run(step.init)
        (before,) = session.run([read])
        session.run(
            [step.train], dict(zip(step.feeds, step.feed([rows, none], [1, 2]), strict=True))
        )
        (after,) = session.run([read])
    assert (before != after).any(1).nonzero().flatten().tolist() == [1, 5]
