"""What a workload is: a model, its loss and optimizer, real data, and a way to judge the result."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import nn

from tracer.capture_graph.capture import Batch, CapturedStep, Evaluation, StepCapture
from tracer.capture_graph.optimizers import Optimizer
from tracer.capture_graph.trace import LossFn
from tracer.strategies.inputs.dataset import Dataset
from tracer.strategies.inputs.distribute import InputContext
from tracer.workloads.batching import Batches, ready_batches
from tracer.workloads.seeds import drawing_by


@dataclass(frozen=True, slots=True)
class Workload:
    """One small real training job.

    `make_module(seed)` gives the same first weights for the same seed. `batches(seed, worker,
    workers)` never ends and yields this worker's share of the training data; a batch of another
    shape is captured anew. `batching.Batches` also know which examples they hold, and whether they
    end. `evaluation()` holds data that no batch contains.
    """

    make_module: Callable[[int], nn.Module]
    loss: LossFn
    optimizer: Optimizer
    batches: Callable[[int, int, int], Iterator[Batch]]
    evaluation: Callable[[], Evaluation | None] = lambda: None

    def dataset(self, seed: int, context: InputContext) -> Dataset:
        """What an input pipeline reads, as examples; that of the only one is the whole."""
        known = self.batches if isinstance(self.batches, Batches) else ready_batches(self.batches)
        return known.dataset(seed, context)

    def step_capture(self, seed: int) -> StepCapture:
        """What captures its training step for one batch shape after another."""
        return StepCapture(self.make_module(seed), self.loss, self.optimizer)

    def capture(self, seed: int) -> CapturedStep:
        """Its step with its evaluation, for what a single worker sees first."""
        example = next(self.batches(seed, 0, 1))
        return self.step_capture(seed).step(example, evaluation=self.evaluation())


def seeded(make: Callable[[], nn.Module]) -> Callable[[int], nn.Module]:
    """A `make_module` that draws first weights by `seed` alone."""

    def make_module(seed: int) -> nn.Module:
        with drawing_by(seed):
            return make()

    return make_module
