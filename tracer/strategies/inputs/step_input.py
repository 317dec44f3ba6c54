"""What one step of one worker is fed: a batch for each of its replicas, empty ones too."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tracer.capture_graph.capture import Batch
from tracer.strategies.inputs.autoshard import Sharding
from tracer.strategies.inputs.dataset import Examples

NO_IDS = torch.empty(0, dtype=torch.int64)


@dataclass(frozen=True, slots=True)
class ReplicaInput:
    """`has_value` is False where the data of this worker are at their end and others still step.

    An empty batch has 0 rows, with dtypes and further dims as ever.
    """

    replica: int
    examples: Examples
    has_value: bool = True

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def batch(self) -> Batch:
        return self.examples.batch

    @property
    def ids(self) -> Tensor:
        return self.examples.ids

    def owned(self) -> "ReplicaInput":
        """The same rows in memory of their own: a slice would keep all that was read alive."""
        parts = tuple(_own(part) for part in self.examples.parts)
        return replace(self, examples=Examples(self.ids, parts))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Whose inputs they are: pipeline `worker` of `workers`, with so many `replicas` each."""

    sharding: Sharding
    worker: int = 0
    workers: int = 1
    replicas: int = 1
    num_files: int = 0
    cycle: int = 1


@dataclass(frozen=True, slots=True)
class StepInput:
    """`replicas` has every local one. `global_batch` counts the examples of all workers.

    `discarded` are ids of examples that were read and thrown away: another worker trains them.
    `is_last`: of data that end, no worker has any more.
    """

    replicas: tuple[ReplicaInput, ...]
    global_batch: int
    pipeline: Pipeline
    discarded: Tensor = NO_IDS
    is_last: bool = False

    @property
    def num_rows(self) -> int:
        return sum(map(len, self.replicas))

    @property
    def batch(self) -> Batch:
        """That of the only replica."""
        (only,) = self.replicas
        return only.batch

    def owned(self) -> "StepInput":
        return replace(self, replicas=tuple(each.owned() for each in self.replicas))


def _own(part: Tensor) -> Tensor:
    return part.clone() if part.untyped_storage().nbytes() > part.nbytes else part
