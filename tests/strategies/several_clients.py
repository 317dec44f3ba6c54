"""A workload trained by every worker of a cluster in this process, each with its own client."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from tests.clusters import RUN_ID, TestCluster
from tracer.capture_graph.capture import Evaluation
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import HANDLES, Graph
from tracer.model.option import values_of
from tracer.model.trace_policy import TracePolicy
from tracer.runtime.interfaces import MasterInterface
from tracer.runtime.session import Session
from tracer.strategies.distributed_step import DistributedStep, captured_steps, shares_of
from tracer.strategies.distribution import Building
from tracer.strategies.inputs.step_input import StepInput
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.strategy import Site
from tracer.training.checkpoint import Checkpoints
from tracer.training.trainer import Fit, Fitted, Trainer, sessions_of, tracing_of
from tracer.workloads.workload import Workload


@dataclass(frozen=True)
class Client:
    """What one worker came to; `variables` are those of its graph."""

    fitted: Fitted
    variables: dict[str, Tensor]

    @property
    def losses(self) -> list[float]:
        return self.fitted.losses


@dataclass(frozen=True)
class Training:
    cluster: TestCluster
    spec: ClusterSpec
    strategy: str
    workload: Workload
    steps: int
    devices: tuple[str, ...] = ("cpu:0",)
    checkpoints: Checkpoints | None = None

    def run(self, **options: str) -> list[Client]:
        """By worker."""
        tasks = [task for task in self.spec.tasks() if task.job == "worker"]
        with ThreadPoolExecutor(len(tasks)) as pool:
            return list(pool.map(partial(self.client, options), tasks))

    def client(self, options: dict[str, str], task: TaskName) -> Client:
        strategy, workload = STRATEGIES[self.strategy], self.workload
        texts = values_of(strategy.options, options)
        site = Site(task, self.spec, self.devices, texts)
        inputs = partial(strategy.inputs, partial(workload.dataset, 0), site)
        capture, built = workload.step_capture(0), list[DistributedStep]()

        def step(
            given: StepInput, evaluation: Evaluation | None, building: Building
        ) -> DistributedStep:
            captured = captured_steps(capture, given, evaluation)
            shares = shares_of([len(each) for each in given.replicas], given.global_batch)
            built.append(strategy.build(captured, shares, site, building))
            return built[-1]

        role = strategy.role(task, self.spec)
        master = self.cluster.tasks.masters[task]
        trainer = Trainer(
            sessions_of(master),
            step,
            next(inputs()),
            workload.evaluation(),
            tracing_of(self.cluster.tracing.recorder, RUN_ID, task, TracePolicy("all")),
            Fit(
                self.steps,
                is_chief=role.is_chief,
                replica=role.replica,
                checkpoints=self.checkpoints,
                is_group=strategy.is_group(texts),
            ),
        )
        with closing(trainer):
            fitted = trainer.run(inputs)
        return Client(fitted, dict(_values(master, built[0].graph)))


def _values(master: MasterInterface, graph: Graph) -> Iterator[tuple[str, Tensor]]:
    """Of every variable that the graph reads."""
    names = {node.name for node in graph.nodes if node.op in HANDLES}
    reads = {
        node.inputs[0].node: f"{node.name}:0"
        for node in graph.nodes
        if node.op == "ReadVariableOp" and node.inputs[0].node in names and not node.control_inputs
    }
    with Session(master, graph) as session:
        for name, value in zip(reads, session.run(list(reads.values())), strict=True):
            assert isinstance(value, torch.Tensor)
            yield name, value
