"""pipeline-steps: while worker:1 trains on a batch, worker:0 prepares the next one.

    worker:0   raw pixels ─► floats ──┐
                                      ▼
    worker:1                   queue ─► train

What to look at: a step feeds the batch after the next to worker:0 and trains on one that lies in
the queue already, so the two workers' partitions lie beside each other in the Timeline, and
`dequeue` takes no time. With `--option ahead=0` nothing lies there: `dequeue` waits for the batch
of its own step, and the two stages take turns.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from tracer.capture_graph.capture import Batch, CapturedStep, StepCapture
from tracer.capture_graph.optimizers import SGD
from tracer.model.graph import Graph, Input, Node, TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.dtypes import tensor_to_literal
from tracer.workloads.batching import Reading
from tracer.workloads.digits import digit_batches, digit_evaluation, digit_metric
from tracer.workloads.factory import AtLeast
from tracer.workloads.graph_workload import Feeds, GraphWorkload, graph_workload

STEPS = 200
LEVELS = 16  #: of a raw pixel
PREPARE, TRAIN = "/job:worker/task:0", "/job:worker/task:1"


def workload(
    batch: Annotated[int, AtLeast(1), "images in a batch"] = 64,
    ahead: Annotated[int, AtLeast(0), "batches that lie in the queue when a step begins"] = 1,
) -> GraphWorkload:
    """Two stages on two workers with a queue between: preparing a batch overlaps with training."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    capture = StepCapture(model, functional.cross_entropy, SGD(learning_rate=0.3))
    batches = digit_batches(Reading(batch, drop_remainder=True))
    seed = torch.initial_seed()  # of the run: this is made while it draws
    laid_in = list(islice(batches(seed, 0, 1), ahead))
    captured = capture.step(next(batches(0, 0, 1)), evaluation=digit_evaluation())

    def feeds(seed: int) -> Iterator[Feeds]:
        for x, y in islice(batches(seed, 0, 1), ahead, None):  # after those that lie there
            yield {"raw:0": _raw(x), "labels:0": y}

    return graph_workload(
        _pipeline(captured, laid_in, batch),
        {"worker": 2},
        [captured.loss, captured.train, "enqueue"],
        init="start",
        steps=STEPS,
        feeds=feeds,
        loss=captured.loss,
        evaluation=digit_metric(captured),
    )


def _raw(x: Tensor) -> Tensor:
    return (x * LEVELS).round().to(torch.uint8)


def _pipeline(captured: CapturedStep, laid_in: list[Batch], batch: int) -> Graph:
    """The training graph behind a queue, and the stage before it; `start` fills the queue."""
    nodes = [_behind_queue(node) for node in captured.graph.nodes]
    specs = [TensorSpec("float32", (batch, 64)), TensorSpec("int64", (batch,))]
    types, shapes = [spec.dtype for spec in specs], [list(spec.shape) for spec in specs]
    b = GraphBuilder()
    with b.device(PREPARE):
        raw = b.placeholder([batch, 64], "uint8", name="raw")
        labels = b.placeholder([batch], "int64", name="labels")
        pixels = b.op("Cast", raw, name="pixels", SrcT="uint8", DstT="float32")
        scaled = b.op("Mul", pixels, b.const(1 / LEVELS, name="level"), name="scaled")
    with b.device(TRAIN):
        room = len(laid_in) + 1
        queue = b.op(
            "FIFOQueueV2", name="queue", component_types=types, shapes=shapes, capacity=room
        )
        b.op("QueueEnqueueV2", queue, scaled, labels, name="enqueue")
        b.op("QueueDequeueV2", queue, name="dequeue", component_types=types, specs=specs)
        put: list[Input] = []
        for number, (x, y) in enumerate(laid_in):
            parts = [_const(b, f"first_{number}/{n}", t) for n, t in (("x", x), ("y", y))]
            with b.control_dependencies(put[-1:]):
                put.append(b.op("QueueEnqueueV2", queue, *parts, name=f"lay_in_{number}"))
    before = (captured.init, *(each.node for each in put))
    start = Node("start", "NoOp", control_inputs=before, requested_device=TRAIN)
    return Graph([*nodes, *b.graph().nodes, start])


def _behind_queue(node: Node) -> Node:
    """What was fed is taken; the rest trains beside the queue, with its variables."""
    if node.name in ("x", "y"):
        port = ("x", "y").index(node.name)
        source = (Input("dequeue", port),)
        node = node.with_(op="Identity", inputs=source, attrs={"T": node.attrs["dtype"]})
    return node if set(node.colocated_with) - {node.name} else node.with_(requested_device=TRAIN)


def _const(b: GraphBuilder, name: str, tensor: Tensor) -> Input:
    literal = tensor_to_literal(tensor)
    spec = TensorSpec(literal.dtype, literal.shape)
    return b.op("Const", name=name, specs=[spec], dtype=literal.dtype, value=literal)
