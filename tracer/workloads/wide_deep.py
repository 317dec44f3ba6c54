"""wide-deep: how diabetes goes on, told from bucketised and crossed columns of 350 patients.

    buckets ─► embedding (50 × 8) ─► 80-32-16-1 ─┐
                                                 + ─► outcome
    crosses ─► one weight each (75 × 1) ─► sum ──┘

What to look at: a table is read by its ids, and its gradient (`aten.embedding_dense_backward`) adds
up rows by the same ids. On parameter servers only the rows that a batch uses cross, with their ids;
32 patients use nearly all of these small tables, so that it pays with `--option batch=4` alone, and
`sparse=false` moves tables whole. In Data: 350 rows in batches of 32 end each epoch with one of 30,
so its mean loss weighs each patient a little more. With `--option files=3` the rows lie in three
files, which `autoshard=FILE` deals out to workers; with fewer files than workers it refuses. With
`--option epochs=1` training ends with the data: a worker whose files hold fewer rows takes its last
steps with empty batches, so that the others find it in every collective.
"""

from typing import Annotated

from torch import Tensor, nn
from torch.nn import functional

from tracer.capture_graph.optimizers import AdamW
from tracer.workloads.batching import (
    Cycle,
    DropRemainder,
    Epochs,
    Hint,
    NumFiles,
    Reading,
    ReadMs,
)
from tracer.workloads.diabetes import (
    BUCKETS,
    COLUMNS,
    COMBINATIONS,
    CROSSES,
    diabetes_batches,
    diabetes_evaluation,
    offsets,
)
from tracer.workloads.factory import AtLeast
from tracer.workloads.workload import Workload, seeded

DIM = 8


class WideDeep(nn.Module):
    """Cheng et al. 2016: a linear model of crosses remembers, a perceptron of embeddings infers."""

    bucket_at: Tensor
    cross_at: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.buckets = nn.Embedding(BUCKETS * len(COLUMNS), DIM)
        self.wide = nn.Embedding(COMBINATIONS * len(CROSSES), 1)
        self.fc1 = nn.Linear(DIM * len(COLUMNS), 32)
        self.fc2 = nn.Linear(32, 16)
        self.out = nn.Linear(16, 1)
        nn.init.normal_(self.buckets.weight, std=0.1)
        nn.init.zeros_(self.wide.weight)
        self.register_buffer("bucket_at", offsets([BUCKETS] * len(COLUMNS)))
        self.register_buffer("cross_at", offsets([COMBINATIONS] * len(CROSSES)))

    def forward(self, x: Tensor) -> Tensor:
        deep = self.buckets(x[:, : len(COLUMNS)] + self.bucket_at).flatten(1)
        deep = functional.relu(self.fc2(functional.relu(self.fc1(deep))))
        wide = self.wide(x[:, len(COLUMNS) :] + self.cross_at).sum(1)
        outcome: Tensor = (self.out(deep) + wide).squeeze(1)
        return outcome


def workload(
    batch: Annotated[int, AtLeast(1), "patients in a batch"] = 32,
    drop_remainder: DropRemainder = False,
    files: NumFiles = 0,
    cycle: Cycle = 1,
    epochs: Epochs = 0,
    hint: Hint = False,
    read_ms: ReadMs = 0.0,
) -> Workload:
    """Embeddings and crossed columns foretell diabetes: tables whose gradients touch few rows."""
    reading = Reading(batch, drop_remainder, files, cycle, epochs, hint, read_ms)
    return Workload(
        make_module=seeded(WideDeep),
        loss=functional.mse_loss,
        optimizer=AdamW(learning_rate=0.01, weight_decay=1.0),
        batches=diabetes_batches(reading),
        evaluation=diabetes_evaluation,
    )
