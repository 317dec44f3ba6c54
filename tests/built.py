"""Inputs and graphs of strategies, as a client makes them."""

import torch

from tracer.capture_graph.capture import Batch, CapturedStep
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph
from tracer.strategies.distribution import Building
from tracer.strategies.inputs.autoshard import Policy, Sharding
from tracer.strategies.inputs.dataset import Examples
from tracer.strategies.inputs.step_input import Pipeline, ReplicaInput, StepInput
from tracer.strategies.strategy import Site, Strategy


def graph_alone(
    strategy: Strategy, step: CapturedStep, task: TaskName, cluster: ClusterSpec
) -> Graph:
    """Of a client with one replica."""
    return strategy.build([step], [1.0], Site(task, cluster), Building()).graph


def given(*batches: Batch) -> StepInput:
    """A step of one worker, with a batch a replica."""
    replicas = tuple(
        ReplicaInput(replica, Examples(torch.arange(len(batch[1])), batch))
        for replica, batch in enumerate(batches)
    )
    pipeline = Pipeline(Sharding(Policy.DATA, Policy.DATA), replicas=len(batches))
    return StepInput(replicas, sum(map(len, replicas)), pipeline)
