"""Workers that step together take the very steps that one takes alone, by way of their servers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from tests.clusters import TestCluster, cluster_kind, running_cluster, start_cluster
from tests.fakes import SpanData
from tests.strategies.loss_curve import STEPS, curve, perceptron
from tests.strategies.several_clients import Training
from tracer.capture_graph.capture import Batch, variables_of
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Node
from tracer.model.option import Value
from tracer.model.step import RendezvousKey
from tracer.strategies.distributed_step import DistributedStep, captured_steps
from tracer.strategies.distribution import Building
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.strategy import Site, StrategyError, Topology
from tracer.workloads.workload import Workload

__all__ = ["cluster_kind", "start_cluster"]

S_BYTES = 4 * (64 * 32 + 32 + 32 * 10 + 10)  #: of the variables of the perceptron
STRATEGY = STRATEGIES["parameter_server_v1"]
UPDATE = "ResourceApplyMomentum"
_HALVES = slice(0, 32), slice(32, 64)


def halves(momentum: float, workers: int) -> Workload:
    """The golden batches, of which each worker gets its rows."""
    whole = perceptron(momentum)

    def batches(_seed: int, worker: int, of: int) -> Iterator[Batch]:
        return ((x[worker::of], y[worker::of]) for x, y in whole.batches(0, 0, 1))

    return replace(whole, batches=batches)


def of_devices(momentum: float) -> Workload:
    """The golden batches for one worker with two devices, each of which takes a half."""
    whole = perceptron(momentum)

    def batches(_seed: int, _worker: int, _of: int) -> Iterator[Batch]:
        return ((x[at], y[at]) for x, y in whole.batches(0, 0, 1) for at in _HALVES)

    return replace(whole, batches=batches)


def training(
    cluster: TestCluster, spec: ClusterSpec, momentum: float = 0.0, steps: int = STEPS
) -> Training:
    workload = halves(momentum, len(spec.jobs["worker"]))
    return Training(cluster, spec, STRATEGY.name, workload, steps)


def cluster_of(workers: int, ps: int) -> ClusterSpec:
    return STRATEGY.cluster(Topology(workers=workers, ps=ps))


@pytest.mark.parametrize(
    ("momentum", "ps"), [pytest.param(0.0, 1, marks=pytest.mark.slow), (0.9, 2)]
)
def test_two_workers_with_half_a_batch_each_take_tensorflows_steps(
    start_cluster: Callable[..., TestCluster], momentum: float, ps: int
) -> None:
    spec = cluster_of(2, ps)
    one, other = training(start_cluster(spec), spec, momentum).run(sync="true")
    means = [(a + b) / 2 for a, b in zip(one.losses, other.losses, strict=True)]
    assert means == pytest.approx(curve(momentum, 1), abs=2e-6)


def test_a_step_moves_every_variable_and_gradient_once_a_worker() -> None:
    spec = cluster_of(2, 2)
    with running_cluster("near", spec) as cluster:
        training(cluster, spec, steps=3).run(sync="true")
        cluster.leave()
        numbers = 8 * 2 * (2 + 1)  # the local step to each ps, and the next one back
        assert bytes_in_step(cluster.spans("rendezvous.recv"), 2) == 2 * S_BYTES * 2 + numbers


def test_a_worker_sums_over_its_devices_before_it_sends() -> None:
    spec = cluster_of(1, 1)
    devices = ("cpu:0", "cpu:1")
    own = {TaskName("worker", 0): devices}
    with running_cluster("near", spec, devices=own) as cluster:
        run = Training(cluster, spec, STRATEGY.name, of_devices(0.9), STEPS, devices)
        (asynchronous,) = run.run()
        cluster.leave()
        assert bytes_in_step(cluster.spans("rendezvous.recv"), 2) == S_BYTES * (2 + 1)
        updates = [s for s in cluster.spans("op.run") if s.attributes["vizdist.op"] == UPDATE]
        assert len(updates) == 4 * STEPS
    assert asynchronous.losses == pytest.approx(curve(0.9, 1), abs=2e-6)


def test_a_worker_that_caches_reads_once_for_all_of_its_devices() -> None:
    spec, devices = cluster_of(1, 1), ("cpu:0", "cpu:1")
    with running_cluster("near", spec, devices={TaskName("worker", 0): devices}) as cluster:
        run = Training(cluster, spec, STRATEGY.name, of_devices(0.9), 3, devices)
        (made,) = run.run(caching="true")
        cluster.leave()
        assert bytes_in_step(cluster.spans("rendezvous.recv"), 2) == S_BYTES * (1 + 1)
    assert made.losses == pytest.approx(curve(0.9, 1)[:3], abs=2e-6)


def test_late_gradients_of_a_backup_worker_are_dropped_and_training_ends() -> None:
    spec = cluster_of(3, 1)
    with running_cluster("near", spec) as cluster:
        run = training(cluster, spec)
        chief, *others = run.run(sync="true", backup_workers="1")
        cluster.leave()
        applied = [s for s in cluster.spans("op.run") if s.name.endswith("grad_accum/apply")]
        steps = cluster.spans("session.run")
    assert len(chief.losses) == STEPS
    assert sum(len(each.losses) for each in others) == 2 * STEPS  # a token each
    dropped = sum(bool(span.attributes.get("vizdist.dropped")) for span in applied)
    assert len(applied) - dropped >= 4 * 2 * STEPS
    counted = {int(span.attributes["vizdist.global_step"]) for span in steps}
    assert counted >= {*range(1, STEPS + 1)}


def test_workers_that_go_on_after_a_death_find_nothing_of_what_was_gathered_before() -> None:
    made = step_of(2, {"sync": True})
    assert {node.attrs["container"] for node in shared(made)} == {"round_3"}
    ops = {node.op for node in shared(made)}
    assert ops == {"FIFOQueueV2", "ResourceConditionalAccumulator", "VarHandleOp"}
    variables = {node.name for node in variables_of(made.graph)}
    assert not variables & {node.name for node in shared(made)}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"backup_workers": 1}, "without sync=true no update waits for any worker"),
        ({"sync": True, "backup_workers": 2}, "leave at most 1 of them as backup"),
    ],
)
def test_backup_workers_that_nothing_would_use_are_refused(
    options: Mapping[str, Value], says: str
) -> None:
    with pytest.raises(StrategyError, match=says):
        step_of(2, options)


def step_of(workers: int, options: Mapping[str, Value]) -> DistributedStep:
    """Of the first worker."""
    workload, spec = halves(0.0, workers), cluster_of(workers, 1)
    site = Site(TaskName("worker", 0), spec, options=options)
    given = next(STRATEGY.inputs(partial(workload.dataset, 0), site))
    steps = captured_steps(workload.step_capture(0), given)
    return STRATEGY.build(steps, [1.0], site, Building())


def shared(step: DistributedStep) -> list[Node]:
    """What is not found again in the round after the second one."""
    before = {node.name: node.attrs.get("container") for node in step.graph.nodes}
    after = step.in_round(3).graph.nodes
    return [node for node in after if node.attrs.get("container") != before[node.name]]


def bytes_in_step(recvs: Sequence[SpanData], number: int) -> int:
    return sum(
        int(span.attributes.get("vizdist.bytes", 0))
        for span in recvs
        if span.attributes.get("vizdist.step.number") == number
        and span.attributes["vizdist.edge.kind"] in ("data", "control")
        and _tasks_of(span.attributes["vizdist.rendezvous.key"]) == 2
    )


def _tasks_of(key: object) -> int:
    """Of how many tasks the two ends are."""
    ends = RendezvousKey.parse(str(key))
    return len({end.rpartition("/device:")[0] for end in (ends.src_device, ends.dst_device)})
