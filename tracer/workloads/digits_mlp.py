"""digits-mlp: a 64-32-10 perceptron reads scikit-learn's handwritten digits.

What to look at: the step is so small (2.4 k parameters, microseconds a kernel) that on a parameter
server nearly all of it is waiting for reads and sending gradients. With two workers each gradient
was computed on weights that the other one has moved meanwhile, and the model learns all the same.
"""

from typing import Annotated

from torch import Tensor, nn
from torch.nn import functional

from tracer.capture_graph.optimizers import SGD
from tracer.workloads.batching import (
    Cycle,
    DropRemainder,
    Epochs,
    Hint,
    NumFiles,
    Reading,
    ReadMs,
)
from tracer.workloads.digits import digit_batches, digit_evaluation
from tracer.workloads.factory import AtLeast
from tracer.workloads.workload import Workload, seeded


class DigitsMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.fc1(x))
        logits: Tensor = self.fc2(hidden)
        return logits


def workload(
    batch: Annotated[int, AtLeast(1), "images in a batch"] = 64,
    drop_remainder: DropRemainder = True,
    files: NumFiles = 0,
    cycle: Cycle = 1,
    epochs: Epochs = 0,
    hint: Hint = False,
    read_ms: ReadMs = 0.0,
) -> Workload:
    """A 64-32-10 perceptron on real handwritten digits: tiny kernels, so all else shows."""
    reading = Reading(batch, drop_remainder, files, cycle, epochs, hint, read_ms)
    return Workload(
        make_module=seeded(DigitsMLP),
        loss=functional.cross_entropy,
        optimizer=SGD(learning_rate=0.3),
        batches=digit_batches(reading),
        evaluation=digit_evaluation,
    )
