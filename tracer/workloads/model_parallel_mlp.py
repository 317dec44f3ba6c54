"""model-parallel-mlp: the lower half of a perceptron on worker:0, the upper half on worker:1.

What to look at: one client, one graph, and in every step the wire twice: the hidden layer's values
go up, their gradient comes down, and no weight ever moves. While one worker computes the other one
waits, since each half needs what the other makes; the Timeline shows it as a zigzag.
"""

from collections.abc import Iterator
from typing import Annotated

from torch import Tensor, nn
from torch.nn import functional

from tracer.capture_graph.capture import StepCapture
from tracer.capture_graph.optimizers import SGD
from tracer.model.graph import Graph, Node
from tracer.workloads.batching import Reading
from tracer.workloads.digits import digit_batches, digit_evaluation, digit_metric
from tracer.workloads.factory import AtLeast
from tracer.workloads.graph_workload import Feeds, GraphWorkload, graph_workload

STEPS = 200
LOWER, UPPER = "/job:worker/task:0", "/job:worker/task:1"


class Halves(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.lower = nn.Sequential(nn.Linear(64, hidden), nn.ReLU())
        self.upper = nn.Sequential(nn.Linear(hidden, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.upper(self.lower(x))
        return logits


def workload(
    batch: Annotated[int, AtLeast(1), "images in a batch"] = 64,
    hidden: Annotated[int, AtLeast(1), "values that cross for each image"] = 128,
) -> GraphWorkload:
    """A perceptron on real digits, cut between two layers: its halves train on two workers."""
    capture = StepCapture(Halves(hidden), functional.cross_entropy, SGD(learning_rate=0.3))
    batches = digit_batches(Reading(batch, drop_remainder=True))
    captured = capture.step(next(batches(0, 0, 1)), evaluation=digit_evaluation())

    def feeds(seed: int) -> Iterator[Feeds]:
        for taken in batches(seed, 0, 1):
            yield dict(zip(captured.feeds, captured.feed(taken), strict=True))

    return graph_workload(
        Graph(node.with_(requested_device=_device_of(node)) for node in captured.graph.nodes),
        {"worker": 2},
        [captured.loss, captured.train],
        init=captured.init,
        steps=STEPS,
        feeds=feeds,
        loss=captured.loss,
        evaluation=digit_metric(captured),
    )


def _device_of(node: Node) -> str:
    """By the half that a node's name tells; variables take what belongs to them along."""
    if set(node.colocated_with) - {node.name}:
        return ""
    parts = node.name.split("/")
    return LOWER if "lower" in parts or parts[-1] == "x" else UPPER
