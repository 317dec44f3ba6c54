"""`StepCapture`: a torch module, its loss and its optimizer → graphs with variables.

    x, y ─► forward (reads variables) ─► loss ─► gradients/… ─► train/update_<variable>, one each
    init: assigns the module's first values      train: all updates      evaluation/…: forward only

A graph is specialised to the shapes of one batch (its *signature*). Graphs of one `StepCapture` are
over the same variables, so a batch of another shape (the short last one) gets a graph of its own:

    capture = StepCapture(module, loss_fn, optimizer)
    whole = capture.step((x, y), evaluation=held_out)   # run `whole.init` once, in any session
    short = capture.step((x[:5], y[:5]))                # a further session; never its `init`
    cached = {capture.signature((x, y)): whole, capture.signature((x[:5], y[:5])): short}

    for number, batch in enumerate(batches, 1):
        captured = cached[capture.signature(batch)]
        values = captured.feed(batch, step_seed(run_seed, replica, number))
        … run `captured.loss` and `captured.train`, fed `dict(zip(captured.feeds, values))`

A graph asks for no device. What belongs to a variable (its first value, its updates and their
constants) says so by `_class`, so that a strategy moves it as one piece.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tracer.capture_graph.errors import CaptureError
from tracer.capture_graph.optimizers import Optimizer
from tracer.capture_graph.state import StateValues, variable_nodes
from tracer.capture_graph.step_graph import (
    GIVEN_NAMES,
    INIT,
    LOGITS,
    LOSS,
    METRIC,
    TRAIN,
    StepGraph,
)
from tracer.capture_graph.trace import LossFn, trace_evaluation, trace_step
from tracer.model.graph import HANDLES, Graph, Node, TensorSpec
from tracer.ops.dtypes import spec_of

EVALUATION = "evaluation"

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A forward-only part of the graph: `metric(outputs, y)` on a batch of its own shape.

    The metric is called as its function is, unless it has another `name`.
    """

    batch: Batch
    metric: Callable[[Any, Tensor], Tensor]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a captured step is specialised to: dtype and shape of its feeds, by name."""

    feeds: tuple[tuple[str, TensorSpec], ...]

    @classmethod
    def of(cls, feeds: Mapping[str, Tensor]) -> "Signature":
        return cls(tuple((name, spec_of(tensor)) for name, tensor in feeds.items()))


@dataclass(frozen=True, slots=True)
class CapturedStep:
    """The graph and the names to run it by: `init` once, then `train` with `loss` fetched.

    `feeds` and `fetches` are `node:port`; `evaluation_*` are empty where nothing is evaluated. A
    step that draws random numbers has a third feed, `seed:0`; `feed` gives the values of all. There
    are `logits` where the module returns one tensor. `trainable`: the variables with gradients.
    """

    graph: Graph
    signature: Signature
    feeds: tuple[str, ...] = ("x:0", "y:0")
    loss: str = f"{LOSS}:0"
    logits: str = f"{LOGITS}:0"
    train: str = TRAIN
    init: str = INIT
    evaluation_feeds: tuple[str, ...] = ()
    metric: str = ""
    trainable: frozenset[str] = frozenset()

    def feed(self, batch: Batch, seed: int = 0) -> tuple[Tensor, ...]:
        """The values of `feeds`, in order; `seed` is the step's own."""
        return _values(self.feeds, batch, seed)

    def evaluation_feed(self, batch: Batch, seed: int = 0) -> tuple[Tensor, ...]:
        """The values of `evaluation_feeds`, in order."""
        return _values(self.evaluation_feeds, batch, seed)


@dataclass(frozen=True, slots=True)
class CapturedEvaluation:
    """A graph that only judges: fetch `metric` or `logits`. It changes no variable."""

    graph: Graph
    signature: Signature
    feeds: tuple[str, ...]
    metric: str = f"{EVALUATION}/{METRIC}:0"
    logits: str = f"{EVALUATION}/{LOGITS}:0"

    def feed(self, batch: Batch, seed: int = 0) -> tuple[Tensor, ...]:
        """The values of `feeds`, in order."""
        return _values(self.feeds, batch, seed)


def _values(feeds: tuple[str, ...], batch: Batch, seed: int) -> tuple[Tensor, ...]:
    return (*batch, torch.tensor(seed)) if len(feeds) > len(batch) else batch


class StepCapture:
    """Captures one module for one batch shape after another; the module stays as it is.

    All graphs have the variables and first values that the module had when this was made. Raises
    CaptureError if one of them is named like a feed or a result.
    """

    def __init__(self, module: nn.Module, loss_fn: LossFn, optimizer: Optimizer) -> None:
        self._module = module
        self._loss_fn = loss_fn
        self._optimizer = optimizer
        self._state = StateValues.of(module, optimizer)
        if taken := GIVEN_NAMES.intersection(self._state.flat()):
            raise CaptureError(
                f"the module has a variable named {min(taken)!r}, as a node of every captured step "
                "is; rename it, or hold it in a submodule"
            )
        self._variables = variable_nodes(self._state)

    @staticmethod
    def signature(batch: Batch) -> Signature:
        """Equal for batches that one graph serves: `step(batch).signature`."""
        return Signature.of(dict(zip("xy", batch, strict=True)))

    def step(self, batch: Batch, *, evaluation: Evaluation | None = None) -> CapturedStep:
        """A training step for batches of exactly this shape.

        Raises CaptureError if the batch has no rows, the loss is no scalar, or the step contains
        what no graph can hold.
        """
        feeds = _rows(batch)
        graph = StepGraph(self._state, self._variables)
        traced = trace_step(self._module, self._loss_fn, self._optimizer, self._state, feeds)
        names = graph.add_step(traced, feeds)
        judged = self._evaluate(graph, evaluation) if evaluation else ()
        return CapturedStep(
            graph.graph(),
            self.signature(batch),
            feeds=names,
            evaluation_feeds=judged,
            metric=f"{EVALUATION}/{METRIC}:0" if evaluation else "",
            trainable=frozenset(self._state.parameters),
        )

    def evaluation(self, evaluation: Evaluation) -> CapturedEvaluation:
        """The same as the evaluation part of a step, as a graph of its own."""
        graph = StepGraph(self._state, self._variables)
        feeds = self._evaluate(graph, evaluation)
        named = zip(feeds, evaluation.batch, strict=False)
        signature = Signature.of({name.removesuffix(":0"): tensor for name, tensor in named})
        return CapturedEvaluation(graph.graph(), signature, feeds)

    def _evaluate(self, graph: StepGraph, evaluation: Evaluation) -> tuple[str, ...]:
        feeds = _rows(evaluation.batch)
        traced = trace_evaluation(self._module, evaluation.metric, self._state, feeds)
        return graph.add_evaluation(traced, feeds, f"{EVALUATION}/")


def _rows(batch: Batch) -> dict[str, Tensor]:
    """A batch by feed. Means of nothing are NaN, so a batch without rows is no step."""
    if not all(tensor.numel() for tensor in batch):
        shapes = " and ".join(str(list(tensor.shape)) for tensor in batch)
        raise CaptureError(
            f"the batch has no rows (shapes {shapes}), and the mean of nothing is no number; leave "
            "this step out: it would change nothing"
        )
    return dict(zip("xy", batch, strict=True))


def variables_of(graph: Graph) -> tuple[Node, ...]:
    """The variables of a graph in creation order, the order in which strategies deal them out.

    Without those that a client has for itself (`_local`): nobody saves them or waits for them.
    """
    return tuple(n for n in graph.nodes if n.op in HANDLES and not n.attrs.get("_local"))


def capture_step(
    module: nn.Module,
    loss_fn: LossFn,
    optimizer: Optimizer,
    example_batch: Batch,
    *,
    evaluation: Evaluation | None = None,
) -> CapturedStep:
    """One graph of `StepCapture`, where batches have one shape only."""
    return StepCapture(module, loss_fn, optimizer).step(example_batch, evaluation=evaluation)
