"""scikit-learn's diabetes table: 442 real patients, ten measures, how the disease went a year on.

Columns are *bucketised* (a value becomes the fifth of the patients that it lies in) and some pairs
of them *crossed* (one category for each combination), as a recommender's columns are.
"""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from tracer.capture_graph.capture import Batch, Evaluation
from tracer.workloads.batching import Batches, Reading, row_batches

COLUMNS = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")
CROSSES = (("bmi", "s5"), ("bmi", "bp"), ("age", "sex"))
BUCKETS = 5
COMBINATIONS = BUCKETS * BUCKETS

HELD_OUT = 92
_SPLIT_SEED = 442
_UNIT = 100.0  #: of the outcome, so that losses are about 1


@cache
def diabetes() -> tuple[Batch, Batch]:
    """(training, held out): a category a column and a cross (int64), then the outcome in 100."""
    from sklearn.datasets import load_diabetes  # noqa: PLC0415 (takes a second)

    measures, outcome = load_diabetes(return_X_y=True, scaled=False)
    order = torch.randperm(len(outcome), generator=torch.Generator().manual_seed(_SPLIT_SEED))
    kept, held_out = order[HELD_OUT:], order[:HELD_OUT]
    table = torch.from_numpy(measures).float()
    y = torch.from_numpy(outcome).float() / _UNIT
    x = _crossed(_bucketised(table, table[kept]))
    return (x[kept], y[kept]), (x[held_out], y[held_out])


def _bucketised(table: Tensor, known: Tensor) -> Tensor:
    """Each value as its bucket from 0 to BUCKETS − 1; edges come from the `known` rows alone."""
    inner = torch.linspace(0, 1, BUCKETS + 1)[1:-1]
    columns = zip(table.T, torch.quantile(known, inner, dim=0).T, strict=True)
    return torch.stack(
        [torch.bucketize(values.contiguous(), e.contiguous()) for values, e in columns], 1
    )


def _crossed(buckets: Tensor) -> Tensor:
    crosses = [_column(buckets, a) * BUCKETS + _column(buckets, b) for a, b in CROSSES]
    return torch.cat([buckets, torch.stack(crosses, 1)], 1)


def _column(buckets: Tensor, name: str) -> Tensor:
    return buckets[:, COLUMNS.index(name)]


def diabetes_batches(reading: Reading) -> Batches:
    """Of patients."""
    return row_batches(lambda: diabetes()[0], reading)


def diabetes_evaluation() -> Evaluation:
    return Evaluation(diabetes()[1], explained, "R²")


def explained(outputs: Tensor, y: Tensor) -> Tensor:
    """R²: the share of the outcomes' variance that the model tells; 0 for their mean."""
    return 1 - (outputs - y).square().mean() / y.var(correction=0)


def offsets(sizes: Sequence[int]) -> Tensor:
    """Where each column's categories begin in one table for all of them."""
    return torch.tensor([0, *sizes[:-1]]).cumsum(0)
