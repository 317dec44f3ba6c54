"""scikit-learn's handwritten digits: 1797 real images of 8 × 8, split the same in every run."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from tracer.capture_graph.capture import Batch, CapturedStep, Evaluation
from tracer.model.metric import ACCURACY
from tracer.workloads.batching import Batches, Reading, row_batches
from tracer.workloads.graph_workload import Feeds

HELD_OUT = 360
_SPLIT_SEED = 1797


@cache
def digits() -> tuple[Batch, Batch]:
    """(training, held out): 64 pixels from 0 to 1, labels."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 (takes a second)

    pixels, labels = load_digits(return_X_y=True)
    x = torch.from_numpy(pixels / 16).float()
    y = torch.from_numpy(labels).long()
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(_SPLIT_SEED))
    kept, held_out = order[HELD_OUT:], order[:HELD_OUT]
    return (x[kept], y[kept]), (x[held_out], y[held_out])


def digit_batches(reading: Reading) -> Batches:
    """What a workload's `batches` is for images."""
    return row_batches(lambda: digits()[0], reading)


def digit_evaluation() -> Evaluation:
    return Evaluation(digits()[1], accuracy)


def digit_metric(captured: CapturedStep) -> Callable[[], tuple[str, str, Feeds]]:
    """What a graph workload's `evaluation` is for a step that was captured with this one."""

    def evaluation() -> tuple[str, str, Feeds]:
        values = captured.evaluation_feed(digit_evaluation().batch)
        feeds = dict(zip(captured.evaluation_feeds, values, strict=True))
        return ACCURACY, captured.metric, feeds

    return evaluation


def accuracy(logits: Tensor, y: Tensor) -> Tensor:
    return (logits.argmax(1) == y).float().mean()
