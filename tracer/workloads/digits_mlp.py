"""digits-mlp: a 64-32-10 perceptron reads scikit-learn's handwritten digits.

What to look at: the step is so small (2.4 k parameters, microseconds a kernel) that on a parameter
server nearly all of it is waiting for reads and sending gradients. With two workers each gradient
was computed on weights that the other one has moved meanwhile, and the model learns all the same.
"""

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from tracer.capture_graph.capture import Batch, Evaluation
from tracer.capture_graph.optimizers import SGD
from tracer.model.refusal import Refusal
from tracer.workloads.workload import Workload

BATCH = 64
HELD_OUT = 360  #: of 1797 images
_SPLIT_SEED = 1797


class DigitsMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.fc1(x))
        logits: Tensor = self.fc2(hidden)
        return logits


def _make_module(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return DigitsMLP()


@cache
def _digits() -> tuple[Batch, Batch]:
    """(training, held out): pixels from 0 to 1, labels; the split is the same in every run."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 (takes a second)

    pixels, labels = load_digits(return_X_y=True)
    x = torch.from_numpy(pixels / 16).float()
    y = torch.from_numpy(labels).long()
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(_SPLIT_SEED))
    kept, held_out = order[HELD_OUT:], order[:HELD_OUT]
    return (x[kept], y[kept]), (x[held_out], y[held_out])


def _batches(seed: int, worker: int, workers: int) -> Iterator[Batch]:
    """Every `workers`-th image from `worker` on, shuffled each epoch, in whole batches."""
    (x, y), _ = _digits()
    x, y = x[worker::workers], y[worker::workers]
    if len(y) < BATCH:
        raise Refusal(
            f"{workers} workers share {len(_digits()[0][1])} images; "
            f"at most {len(_digits()[0][1]) // BATCH} of them get a batch of {BATCH}"
        )
    shuffle = torch.Generator().manual_seed(seed * 1009 + worker)
    while True:
        order = torch.randperm(len(y), generator=shuffle)
        for start in range(0, len(y) - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            yield x[rows], y[rows]


def _accuracy(logits: Tensor, y: Tensor) -> Tensor:
    return (logits.argmax(1) == y).float().mean()


def _evaluation() -> Evaluation:
    return Evaluation(_digits()[1], _accuracy)


WORKLOAD = Workload(
    name="digits-mlp",
    says="A 64-32-10 perceptron on real handwritten digits: tiny kernels, so all else shows.",
    make_module=_make_module,
    loss=functional.cross_entropy,
    optimizer=SGD(learning_rate=0.3),
    batches=_batches,
    evaluation=_evaluation,
)
