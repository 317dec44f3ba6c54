"""Data → batches without end, each worker its share, the same for the same seed."""

from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import Any

import torch
from torch import Tensor

from tracer.capture_graph.capture import Batch
from tracer.model.refusal import Refusal
from tracer.workloads.seeds import own_generator


class DataError(Refusal):
    """Data that no batch can be made of; the text says what is needed."""


def batches_of_rows(
    rows: Batch, size: int, seed: int, worker: int, workers: int, *, drop_remainder: bool
) -> Iterator[Batch]:
    """Every `workers`-th row from `worker` on, shuffled each epoch; the last batch may be short."""
    x, y = (part[worker::workers] for part in rows)
    total, least = len(rows[1]), size if drop_remainder else 1
    if len(y) < least:
        wanted = f"a batch of {size}" if drop_remainder else "a row"
        raise DataError(
            f"{workers} workers share {total} rows; at most {total // least} of them get {wanted}"
        )
    stop = len(y) - size + 1 if drop_remainder else len(y)
    shuffle = torch.Generator().manual_seed(seed * 1009 + worker)
    while True:
        order = torch.randperm(len(y), generator=shuffle)
        for start in range(0, stop, size):
            picked = order[start : start + size]
            yield x[picked], y[picked]


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
