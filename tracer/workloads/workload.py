"""What a workload is: a model, its loss and optimizer, real data, and a way to judge the result."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import nn

from tracer.capture_graph.capture import Batch, CapturedStep, Evaluation, capture_step
from tracer.capture_graph.optimizers import Optimizer
from tracer.capture_graph.trace import LossFn


@dataclass(frozen=True, slots=True)
class Workload:
    """One small real training job.

    `make_module(seed)` gives the same first weights for the same seed. `batches(seed, worker,
    workers)` never ends and yields batches of one shape, from this worker's share of the training
    data. `evaluation()` holds data that no batch contains.
    """

    name: str
    says: str
    make_module: Callable[[int], nn.Module]
    loss: LossFn
    optimizer: Optimizer
    batches: Callable[[int, int, int], Iterator[Batch]]
    evaluation: Callable[[], Evaluation]

    def capture(self, seed: int) -> CapturedStep:
        """Its training step with its evaluation, first values from `seed`."""
        example = next(self.batches(seed, 0, 1))
        return capture_step(
            self.make_module(seed), self.loss, self.optimizer, example, evaluation=self.evaluation()
        )
