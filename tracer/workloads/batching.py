"""Data → data sets without end, each worker its share, the same for the same seed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import torch
from torch import Tensor

from tracer.capture_graph.capture import Batch
from tracer.strategies.inputs.dataset import (
    DataError,
    Dataset,
    Rows,
    Source,
    Stream,
    numbered,
)
from tracer.workloads.seeds import own_generator


@dataclass(frozen=True, slots=True)
class Batches:
    """A workload's data: `dataset(seed, worker, workers)` is what one of the workers reads.

    Worker 0 of 1 reads the whole. Called, it gives the same without saying which examples they are.
    """

    dataset: Callable[[int, int, int], Dataset]

    def __call__(self, seed: int, worker: int, workers: int) -> Iterator[Batch]:
        return (examples.batch for examples in self.dataset(seed, worker, workers).batches())


def row_batches(
    source: Callable[[], Source], size: int, *, drop_remainder: bool = False
) -> Batches:
    """Every `workers`-th row from `worker` on, shuffled each epoch; the last batch may be short."""

    def dataset(seed: int, worker: int, workers: int) -> Dataset:
        return Rows(source(), size, drop_remainder, seed * 1009 + worker, (worker, workers))

    return Batches(dataset)


def ready_batches(make: Callable[[int, int, int], Iterator[Batch]]) -> Batches:
    """Of batches that come ready-made; their examples are numbered as they come."""

    def dataset(seed: int, worker: int, workers: int) -> Dataset:
        return Stream(lambda: numbered(make(seed, worker, workers)))

    return Batches(dataset)


def batches_of(data: Iterable[Any], seed: int, worker: int, workers: int) -> Iterator[Batch]:
    """Every `workers`-th batch that `data` yields from `worker` on; then `data` from its start.

    All workers see the same order, also where `data` shuffles by torch's global generator. Batches
    without rows are left out. Raises DataError if a pass over `data` gives this worker none.
    """
    for epoch in count():
        taken = 0
        for item in islice(_seeded(data, seed * 1009 + epoch), worker, None, workers):
            batch = pair(item)
            if len(batch[0]):
                taken += 1
                yield batch
        if not taken:
            raise DataError(
                f"a pass over the data gives worker {worker} of {workers} no batch with rows"
                + (": give it more batches, or run fewer workers" if workers > 1 else "")
            )


def pair(item: Any) -> Batch:
    """Raises DataError for what is no (x, y) of tensors with the same number of rows."""
    parts = tuple(item) if isinstance(item, list | tuple) else ()
    if len(parts) != 2 or not all(isinstance(part, Tensor) for part in parts):
        raise DataError(
            f"a batch must be a pair of tensors (x, y), not {_kind(item)}; "
            "let the model take everything else from x"
        )
    x, y = parts
    if not x.dim() or not y.dim() or len(x) != len(y):
        raise DataError(
            f"x and y of a batch need the same number of rows; they are {list(x.shape)} and "
            f"{list(y.shape)}"
        )
    return x, y


def _kind(item: Any) -> str:
    if isinstance(item, list | tuple):
        return f"{type(item).__name__} of " + (", ".join(type(p).__name__ for p in item) or "none")
    return type(item).__name__


def _seeded(data: Iterable[Any], seed: int) -> Iterator[Any]:
    """One pass; what `data` draws from torch's global generator comes from a state of its own."""
    with own_generator():
        torch.manual_seed(seed)
        items = iter(data)
        state = torch.get_rng_state()
    while True:
        with own_generator():
            torch.set_rng_state(state)
            try:
                item = next(items)
            except StopIteration:
                return
            state = torch.get_rng_state()
        yield item
