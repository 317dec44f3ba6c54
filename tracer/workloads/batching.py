"""Data → data sets, each worker its share, the same for the same seed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Annotated, Any

import torch
from torch import Tensor

from tracer.capture_graph.capture import Batch
from tracer.strategies.inputs.dataset import (
    DataError,
    Dataset,
    Rows,
    Slow,
    Source,
    Stream,
    Table,
    numbered,
)
from tracer.strategies.inputs.distribute import InputContext
from tracer.strategies.inputs.files import written
from tracer.workloads.factory import AtLeast
from tracer.workloads.seeds import own_generator

# options of workloads that read rows
DropRemainder = Annotated[bool, "leave out the last, shorter batch of an epoch"]
NumFiles = Annotated[int, AtLeast(0), "files that the rows lie in; 0: none, they are in memory"]
Cycle = Annotated[int, AtLeast(1), "files that are open at a time, read by turns, a row each"]
Epochs = Annotated[int, AtLeast(0), "passes over the data, after which training ends; 0: no end"]
Hint = Annotated[bool, "say where to split the data, for autoshard=HINT"]
ReadMs = Annotated[float, AtLeast(0), "ms by which each batch comes later, as from a slow disk"]


@dataclass(frozen=True, slots=True)
class Batches:
    """A workload's data: `dataset(seed, context)` is what an input pipeline reads.

    The only pipeline reads the whole. Called with a seed, a worker and how many there are, it gives
    batches that do not say which examples they hold.
    """

    dataset: Callable[[int, InputContext], Dataset]

    def __call__(self, seed: int, worker: int, workers: int) -> Iterator[Batch]:
        dataset = self.dataset(seed, InputContext(workers, worker))
        return (examples.batch for examples in dataset.batches())


@dataclass(frozen=True, slots=True)
class Reading:
    """How rows become batches of `batch`, from the first to the last."""

    batch: int
    drop_remainder: bool = False
    files: int = 0
    cycle: int = 1
    epochs: int = 0
    hint: bool = False
    read_ms: float = 0.0

    def source(self, rows: Batch) -> Source:
        source = written(rows, self.files, self.cycle) if self.files else Table(rows)
        return Slow(source, self.read_ms / 1000) if self.read_ms else source


def row_batches(rows: Callable[[], Batch], reading: Reading) -> Batches:
    """A pipeline takes every n-th row, shuffled each epoch; the last batch may be short.

    Where pipelines share a global batch, each takes the batches of its replicas.
    """

    def dataset(seed: int, context: InputContext) -> Dataset:
        return Rows(
            reading.source(rows()),
            context.get_per_replica_batch_size(reading.batch),
            reading.drop_remainder,
            shuffle=seed * 1009 + context.input_pipeline_id,
            part=(context.input_pipeline_id, context.num_input_pipelines),
            epochs=reading.epochs,
            takes_hint=reading.hint,
        )

    return Batches(dataset)


def ready_batches(make: Callable[[int, int, int], Iterator[Batch]]) -> Batches:
    """Of batches that come ready-made; their examples are numbered as they come."""

    def dataset(seed: int, context: InputContext) -> Dataset:
        worker, workers = context.input_pipeline_id, context.num_input_pipelines
        return Stream(lambda: numbered(make(seed, worker, workers)))

    return Batches(dataset)


def batches_from_function(make: Callable[[InputContext], Batches]) -> Batches:
    """Of a function that says what each input pipeline reads: all that it gives is the one's."""

    def dataset(seed: int, context: InputContext) -> Dataset:
        alone = replace(context, num_input_pipelines=1, input_pipeline_id=0)
        return make(context).dataset(seed, alone)

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
