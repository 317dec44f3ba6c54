"""On parameter servers a captured step moves each value once and each gradient once, no more."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.capture_graph.models import Block, Convolutional, Perceptron, batches, texts
from tracer.capture_graph.capture import Batch, StepCapture
from tracer.capture_graph.optimizers import SGD, Adam, AdamW, Optimizer
from tracer.model.cluster import ClusterSpec, DeviceName, TaskName
from tracer.model.graph import Graph
from tracer.ops.registry import lookup
from tracer.passes.keys import SENDS
from tracer.passes.partition import partition_by_worker
from tracer.passes.place import place
from tracer.passes.prune import prune
from tracer.strategies.distribution import Building
from tracer.strategies.parameter_server_v1 import ParameterServerV1
from tracer.strategies.strategy import Site

WORKER = TaskName("worker", 1)
CLUSTER = ClusterSpec.of_counts(ps=2, worker=2)
DEVICES = [task.device() for task in CLUSTER.tasks()]


def placed(module: nn.Module, rule: Optimizer, batch: Batch) -> Graph:
    torch.manual_seed(0)
    step = StepCapture(module, functional.cross_entropy, rule).step(batch)
    site = Site(WORKER, CLUSTER, options={"sparse": False})
    assigned = ParameterServerV1().build([step], [1.0], site, Building()).graph
    needed = prune(assigned, step.feeds, (step.loss,), (step.train,), WORKER.device())
    return place(needed, DEVICES, WORKER.device(), lookup)


def moved(graph: Graph) -> list[tuple[str, str, int]]:
    """What crosses tasks in a step: source, job that it goes to, bytes."""
    parts = partition_by_worker(graph, dict.fromkeys(map(str, DEVICES), 1))
    sends = [node for part in parts for node in part.graph.nodes if node.op in SENDS]
    data = [n for n in sends if n.attrs["edge_kind"] == "data" and not n.attrs["client_terminated"]]
    return [
        (
            str(source := send.inputs[0]),
            DeviceName.parse(send.attrs["recv_device"]).job,
            graph[source.node].specs[source.port].num_bytes,
        )
        for send in data
    ]


@pytest.mark.parametrize(
    "rule", [SGD(0.1), SGD(0.1, 0.9), SGD(0.1, 0.9, True, 0.01), Adam(), AdamW()]
)
def test_a_step_moves_its_reads_and_its_gradients(rule: Optimizer) -> None:
    names = [name.replace(".", "/") for name, _ in Perceptron().named_parameters()]
    size = sum(parameter.numel() * 4 for parameter in Perceptron().parameters())
    crossing = moved(placed(Perceptron(), rule, batches(6)[0]))
    to_worker = [(source, n) for source, job, n in crossing if job == "worker"]
    to_ps = [(source, n) for source, job, n in crossing if job == "ps"]
    assert sorted(source for source, _ in to_worker) == sorted(f"{name}/Read" for name in names)
    assert all(source.startswith("gradients/") for source, _ in to_ps)
    assert sum(n for _, n in to_worker) == sum(n for _, n in to_ps) == size
    assert len(to_ps) == 4


def test_slots_and_updates_run_where_their_parameter_is() -> None:
    graph = placed(Perceptron(), Adam(), batches(6)[0])
    for name in ("fc1/weight", "fc1/bias", "fc2/weight", "fc2/bias"):
        beside = [n for n in graph.nodes if n.name.startswith((f"{name}/", f"train/update_{name}"))]
        assert {n.device for n in beside} == {graph[name].device}
    assert {graph["fc1/weight"].device, graph["fc1/bias"].device} == {
        str(task.device()) for task in CLUSTER.tasks() if task.job == "ps"
    }


def test_a_tied_and_an_embedded_weight_cross_once_too() -> None:
    module = Block()
    size = sum(parameter.numel() * 4 for parameter in module.parameters())
    crossing = moved(placed(module, Adam(), texts()[0]))
    assert sum(n for *_, n in crossing) == 2 * size


def test_running_statistics_are_read_and_assigned_and_the_counter_stays() -> None:
    module = Convolutional()
    size = sum(parameter.numel() * 4 for parameter in module.parameters())
    statistics = sum(
        b.numel() * 4 for b in (module.norm.running_mean, module.norm.running_var) if b is not None
    )
    crossing = moved(placed(module, SGD(0.1), batches(16)[0]))
    assert sum(n for *_, n in crossing) == 2 * (size + statistics)
    assert not any("num_batches_tracked" in source for source, *_ in crossing)


def test_what_draws_stays_with_the_worker_and_so_does_its_generator() -> None:
    graph = placed(Convolutional(), SGD(0.1), batches(16)[0])
    assert graph["drop/bernoulli"].device == str(WORKER.device())
    assert not any("bernoulli" in source or "seed" in source for source, *_ in moved(graph))
