"""The data sets of the golden cases: elements are their ids, in files or not."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import torch

from tracer.strategies.inputs.dataset import Dataset, Examples, Rows, Source, Stream, Table
from tracer.strategies.inputs.distribute import distribute_dataset
from tracer.strategies.inputs.files import File, Files
from tracer.strategies.inputs.step_input import StepInput

GOLDEN: dict[str, Any] = msgspec.json.decode(
    (Path(__file__).parent.parent / "golden" / "d_autoshard.json").read_bytes()
)


def elements(count: int) -> Table:
    """`tf.data.Dataset.range(count)`."""
    numbers = torch.arange(count)
    return Table((numbers, numbers))


@cache
def files(*sizes: int, cycle: int = 1) -> Files:
    """Files of so many lines; line NN of all, in file K, is example KNN."""
    folder, made, first = TemporaryDirectory(), [], 0
    for index, size in enumerate(sizes):
        ids = 100 * index + torch.arange(first, first + size)
        path = Path(folder.name) / f"{index}.npz"
        np.savez(path, x=ids.numpy(), y=ids.numpy())
        made.append(File(path, ids))
        first += size
    return Files(made, cycle, folder)


def rows(source: Source, batch: int, **more: Any) -> Rows:
    return Rows(source, batch, epochs=1, **more)


def in_order(ids: list[int], batch: int) -> Dataset:
    """What came of a shuffle that drew numbers as TensorFlow does."""
    batches = (Examples(each, (each, each)) for each in torch.split(torch.tensor(ids), batch))
    return Stream(lambda: batches, is_endless=False, batch=batch)


DATASETS: dict[str, Callable[[], Dataset]] = {
    "4 files x 5 lines, global batch 4": lambda: rows(files(5, 5, 5, 5), 4),
    "3 files of 6, 4, 2 lines, global batch 4": lambda: rows(files(6, 4, 2), 4),
    "1 file of 8 lines, global batch 4": lambda: rows(files(8), 4),
    "interleave over 4 files (cycle 2), global batch 4": lambda: rows(
        files(5, 5, 5, 5, cycle=2), 4
    ),
    "range(10), global batch 4": lambda: rows(elements(10), 4),
    "range(10), global batch 4, drop_remainder": lambda: rows(elements(10), 4, drop_remainder=True),
    "range(10), global batch 3 (odd)": lambda: rows(elements(10), 3),
    "range(10), global batch 5 (odd)": lambda: rows(elements(10), 5),
    "range(9), global batch 8": lambda: rows(elements(9), 8),
    "HINT: range(8) with shard(SHARD_HINT, SHARD_HINT), batch 4": lambda: rows(
        elements(8), 4, takes_hint=True
    ),
}


def of_case(name: str) -> tuple[Dataset, str]:
    """A case is a data set and a policy."""
    dataset, _, policy = name.rpartition(", ")
    return DATASETS[dataset](), policy


def steps(dataset: Dataset, policy: str, worker: int, workers: int = 2) -> list[StepInput]:
    return list(distribute_dataset(dataset, workers=workers, worker=worker, autoshard=policy))


def ids_of(step: StepInput) -> list[list[int]]:
    return [replica.ids.tolist() for replica in step.replicas]
