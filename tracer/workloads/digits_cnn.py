"""digits-cnn: two convolutions with BatchNorm and Dropout read scikit-learn's handwritten digits.

What to look at: variables that no gradient reaches. BatchNorm's running mean and variance are
assigned in every step and read when the model is judged; Adam keeps two slots beside each
parameter. On a parameter server all of them live there, so a step moves more than weights and
gradients.
"""

from typing import Annotated

from torch import Tensor, nn
from torch.nn import functional

from tracer.capture_graph.optimizers import Adam
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


class DigitsCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(32 * 4 * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.norm1(self.conv1(x.reshape(-1, 1, 8, 8))))
        x = functional.relu(self.norm2(self.conv2(x)))
        x = functional.max_pool2d(x, 2)
        logits: Tensor = self.head(self.drop(x.flatten(1)))
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
    """A small CNN on handwritten digits: BatchNorm's statistics, Dropout, and Adam's slots."""
    reading = Reading(batch, drop_remainder, files, cycle, epochs, hint, read_ms)
    return Workload(
        make_module=seeded(DigitsCNN),
        loss=functional.cross_entropy,
        optimizer=Adam(learning_rate=0.003),
        batches=digit_batches(reading),
        evaluation=digit_evaluation,
    )
