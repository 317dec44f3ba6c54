"""A worker whose data are at their end still has every variable, gradient and collective."""

from itertools import islice, repeat

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.built import given
from tests.clusters import running_cluster
from tests.strategies.sessions import DEVICES, session
from tests.strategies.several_clients import Training
from tracer.capture_graph.capture import StepCapture
from tracer.capture_graph.optimizers import SGD
from tracer.model.cluster import TaskName
from tracer.model.graph import HANDLES, Graph, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.runtime.session import Session
from tracer.strategies.distributed_step import captured_steps
from tracer.strategies.distribution import Building, Distribution
from tracer.strategies.inputs.dataset import Stream, numbered
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.step_builder import StepBuilder
from tracer.strategies.strategy import Site, Topology
from tracer.workloads.batching import Batches
from tracer.workloads.workload import Workload, seeded

NOTHING = torch.empty(0, 3), torch.empty(0, 2)
MIRRORED = STRATEGIES["multi_worker_mirrored"]
TWO = MIRRORED.cluster(Topology(workers=2))


def a_line(rows: int) -> Workload:
    """Fits a line to the same rows again and again."""
    batch = torch.ones(rows, 3), torch.ones(rows, 2)
    return Workload(
        seeded(lambda: nn.Linear(3, 2)),
        functional.mse_loss,
        SGD(0.1),
        Batches(lambda *_: Stream(lambda: numbered(repeat(batch)))),
    )


def alone(workload: Workload, steps: int) -> list[float]:
    """The losses of torch itself."""
    module, losses = workload.make_module(0), []
    for x, y in islice(workload.batches(0, 0, 1), steps):
        loss = functional.mse_loss(module(x), y)
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(module.parameters(), gradients, strict=True):
                parameter.sub_(0.1 * gradient)
    return losses


def test_a_worker_without_rows_takes_the_others_steps() -> None:
    with running_cluster("near", TWO) as cluster:
        clients = Training(cluster, TWO, MIRRORED.name, a_line(rows=1), 3).run()
    for client in clients:
        assert client.losses == pytest.approx(alone(a_line(rows=1), 3))


def needed_for(graph: Graph, name: str) -> dict[str, Node]:
    found, left = dict[str, Node](), [name]
    while left:
        node = graph[left.pop()]
        if node.name not in found:
            found[node.name] = node
            left += [*node.control_inputs, *(source.node for source in node.inputs)]
    return found


@pytest.mark.parametrize("own", [1, 2])
def test_collectives_of_one_group_are_issued_in_one_order(own: int) -> None:
    capture = a_line(rows=1).step_capture(0)
    nothing = given(*[NOTHING] * own)
    devices = tuple(f"cpu:{number}" for number in range(own))
    site = Site(TaskName("worker", 1), TWO, devices)
    step = MIRRORED.build(captured_steps(capture, nothing), [0.0] * own, site, Building())
    needed = needed_for(step.graph, step.train)
    reduced = [node for node in needed.values() if node.op == "CollectiveReduceV2"]
    first = [node for node in reduced if not {*node.control_inputs} & {n.name for n in reduced}]
    assert len(reduced) == 2 * own, "one of the gradients and one of the loss a rank"
    assert len(first) == own, "all but the first of a rank wait for the one before"
    assert {node.attrs["of"] for node in first} == {"loss/of_replica"}, "it meets first"


def test_replicas_without_rows_give_zeros_and_ask_for_no_feeds() -> None:
    module = nn.Linear(3, 2)
    capture = StepCapture(module, functional.mse_loss, SGD(0.1))
    steps = captured_steps(capture, given(NOTHING, NOTHING))
    builder = GraphBuilder()
    step = StepBuilder(Distribution(builder, DEVICES[:2]), steps, [0.0, 0.0]).build()
    assert step.feeds == ()
    assert step.feed([NOTHING, NOTHING], [1, 2]) == ()
    with session(builder) as opened:
        opened.run(step.init)
        loss, _, losses = opened.run([step.loss, step.train, step.losses])
        assert loss.item() == 0
        assert losses.isnan().all(), "the mean over no rows is no number"
    assert {"weight", "weight/replica_1", "bias", "bias/replica_1"} <= set(step.graph)
    updates = [node for node in step.graph.nodes if node.op == "ResourceApplyGradientDescent"]
    assert len(updates) == 4


def test_a_worker_without_rows_keeps_its_statistics_of_a_batch_norm() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    capture = StepCapture(module, functional.mse_loss, SGD(0.1))
    site = Site(TaskName("worker", 1), TWO)
    steps = captured_steps(capture, given(NOTHING))
    graph = MIRRORED.build(steps, [0.0], site, Building()).graph
    rules = {
        node.name: node.attrs.get("_synchronization") for node in graph.nodes if node.op in HANDLES
    }
    assert rules["1/running_mean"] == rules["1/running_var"] == "ON_READ"
    assert rules["1/weight"] == rules["0/bias"] == "ON_WRITE"


@pytest.mark.parametrize(("devices", "sync"), [(("cpu:0",), False), (("cpu:0", "cpu:1"), True)])
def test_of_a_worker_of_servers_without_rows_statistics_stay(
    devices: tuple[str, ...], sync: bool
) -> None:
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
    capture = StepCapture(module, functional.mse_loss, SGD(0.1))
    strategy, worker = STRATEGIES["parameter_server_v1"], TaskName("worker", 0)
    spec = strategy.cluster(Topology(workers=1, ps=1))
    nothing = [NOTHING] * len(devices)
    steps = captured_steps(capture, given(*nothing))
    site = Site(worker, spec, devices, {"sync": sync})
    step = strategy.build(steps, [0.0] * len(devices), site, Building())
    read = ["0/running_var/Read:0", "1/weight/Read:0"]
    feeds = dict(zip(step.feeds, step.feed(nothing, [1] * len(devices)), strict=True))
    with (
        running_cluster("near", spec, devices={worker: devices}) as cluster,
        Session(cluster.tasks.masters[worker], step.graph) as opened,
    ):
        opened.run(step.init)
        if step.local_init:
            opened.run(step.local_init)
        before = opened.run(read)
        opened.run([step.train], feeds)
        after = opened.run(read)
    for then, now in zip(before, after, strict=True):
        assert torch.equal(then, now)


def test_each_gradient_of_a_replica_without_rows_has_a_zero_of_its_shape() -> None:
    module = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(8, 2))
    capture = StepCapture(module, functional.mse_loss, SGD(0.1))
    rows, none = (torch.ones(2, 1, 3, 3), torch.ones(2, 2)), torch.empty(0, 1, 3, 3)
    steps = captured_steps(capture, given(rows, (none, torch.empty(0, 2))))
    builder = GraphBuilder()
    step = StepBuilder(Distribution(builder, DEVICES[:2]), steps, [1.0, 0.0]).build()
    with session(builder) as opened:
        opened.run(step.init)
        feeds = dict(zip(step.feeds, step.feed([rows, (none, none)], [1, 2]), strict=True))
        first, _ = opened.run([step.loss, step.train], feeds)
        second, _ = opened.run([step.loss, step.train], feeds)
    assert second.item() < first.item()
