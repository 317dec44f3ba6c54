"""A data set: examples that have ids, in batches of the global size, pass after pass.

    Source  ids in order (by file where there are files), and the rows of any of them
    Slow    a source that takes its time
    Rows    shard of the elements → shuffle → batch → repeat, as `tf.data` chains them
    Stream  batches that come ready-made

`batches()` of either gives `Examples`: rows that know which examples they are.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

import torch
from torch import Tensor

from tracer.capture_graph.capture import Batch
from tracer.model.refusal import Refusal


class DataError(Refusal):
    """Data that no batch can be made of; the text says what is needed."""


@dataclass(frozen=True, slots=True)
class Examples:
    """`ids` (int64) and the tensors of these rows: x and y, or none where rows are only counted."""

    ids: Tensor
    parts: tuple[Tensor, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: slice) -> "Examples":
        return Examples(self.ids[rows], tuple(part[rows] for part in self.parts))

    @property
    def batch(self) -> Batch:
        x, y = self.parts
        return x, y


def joined(pieces: Sequence[Examples]) -> Examples:
    """One after the other; one alone is not copied."""
    if len(pieces) == 1:
        return pieces[0]
    parts = zip(*(piece.parts for piece in pieces), strict=True)
    return Examples(torch.cat([p.ids for p in pieces]), tuple(torch.cat(each) for each in parts))


class Source(Protocol):
    """What elements come from. A table has no files; of files `cycle` are open, read by turns."""

    @property
    def num_files(self) -> int: ...

    @property
    def cycle(self) -> int: ...

    def ids(self) -> Tensor:
        """Of all elements, in the order in which they are read."""
        ...

    def of_files(self, worker: int, workers: int) -> "Source":
        """Every `workers`-th file from `worker` on."""
        ...

    def rows(self, ids: Tensor) -> Batch: ...


@dataclass(frozen=True, slots=True)
class Table:
    """Rows in memory; a row's id is its place."""

    parts: Batch
    num_files: int = 0
    cycle: int = 1

    def ids(self) -> Tensor:
        return torch.arange(len(self.parts[1]))

    def of_files(self, worker: int, workers: int) -> "Source":
        raise AssertionError(f"a table has no files for worker {worker} of {workers}")

    def rows(self, ids: Tensor) -> Batch:
        x, y = self.parts
        return x[ids], y[ids]


@dataclass(frozen=True, slots=True)
class Slow:
    """A source whose rows come so many seconds later, as from a disk that is far away."""

    source: Source
    seconds: float

    @property
    def num_files(self) -> int:
        return self.source.num_files

    @property
    def cycle(self) -> int:
        return self.source.cycle

    def ids(self) -> Tensor:
        return self.source.ids()

    def of_files(self, worker: int, workers: int) -> "Slow":
        return Slow(self.source.of_files(worker, workers), self.seconds)

    def rows(self, ids: Tensor) -> Batch:
        if len(ids):
            time.sleep(self.seconds)
        return self.source.rows(ids)


class Dataset(Protocol):
    """What is spread over workers and replicas."""

    @property
    def num_files(self) -> int: ...

    @property
    def cycle(self) -> int: ...

    @property
    def batch(self) -> int | None:
        """Examples of a global batch; None: batches are of any size."""
        ...

    @property
    def is_endless(self) -> bool: ...

    @property
    def takes_hint(self) -> bool:
        """Whether it says itself where its elements are to be split."""
        ...

    def of_files(self, worker: int, workers: int) -> "Dataset": ...

    def of_elements(self, worker: int, workers: int) -> "Dataset":
        """Every `workers`-th element from `worker` on, before they are shuffled."""
        ...

    def counted(self) -> "Dataset":
        """The same examples without their rows."""
        ...

    def nothing(self) -> Examples:
        """No examples, with the dtypes and further dims of all."""
        ...

    def batches(self) -> Iterator[Examples]: ...


@dataclass(frozen=True, slots=True)
class Rows:
    """Elements of a source in batches, shuffled by `shuffle` (a seed) anew in each pass.

    `part` is (index, of how many): the elements that there are for this data set. `epochs` are its
    passes over them; 0: without an end.
    """

    source: Source
    batch: int
    drop_remainder: bool = False
    shuffle: int | None = None
    part: tuple[int, int] = (0, 1)
    epochs: int = 0
    takes_hint: bool = False
    has_rows: bool = True

    @property
    def num_files(self) -> int:
        return self.source.num_files

    @property
    def cycle(self) -> int:
        return self.source.cycle

    @property
    def is_endless(self) -> bool:
        return not self.epochs

    def of_files(self, worker: int, workers: int) -> "Rows":
        return replace(self, source=self.source.of_files(worker, workers))

    def of_elements(self, worker: int, workers: int) -> "Rows":
        return replace(self, part=(worker, workers))

    def counted(self) -> "Rows":
        return replace(self, has_rows=False)

    def nothing(self) -> Examples:
        return self._read(self.source.ids()[:0])

    def batches(self) -> Iterator[Examples]:
        """Raises DataError if a pass holds no batch."""
        index, of = self.part
        ids = self.source.ids()[index::of]
        least = self.batch if self.drop_remainder else 1
        if self.is_endless and len(ids) < least:
            raise DataError(self._too_few(least))
        stop = len(ids) - self.batch + 1 if self.drop_remainder else len(ids)
        generator = torch.Generator().manual_seed(self.shuffle or 0)
        for _ in range(self.epochs) if self.epochs else count():
            order = ids
            if self.shuffle is not None:
                order = ids[torch.randperm(len(ids), generator=generator)]
            for start in range(0, stop, self.batch):
                yield self._read(order[start : start + self.batch])

    def _read(self, ids: Tensor) -> Examples:
        return Examples(ids, self.source.rows(ids) if self.has_rows else ())

    def _too_few(self, least: int) -> str:
        total, workers = len(self.source.ids()), self.part[1]
        wanted = f"a batch of {least}" if self.drop_remainder else "a row"
        return (
            f"{workers} workers share {total} rows; at most {total // least} of them get {wanted}"
        )


@dataclass(frozen=True, slots=True)
class Stream:
    """Batches that `make()` gives, from the first one on."""

    make: Callable[[], Iterator[Examples]]
    is_endless: bool = True
    num_files: int = 0
    cycle: int = 1
    batch: int | None = None
    takes_hint: bool = False

    def of_files(self, worker: int, workers: int) -> "Stream":
        raise AssertionError(f"a stream has no files for worker {worker} of {workers}")

    def of_elements(self, worker: int, workers: int) -> "Stream":
        raise AssertionError(f"a stream is no set of elements for worker {worker} of {workers}")

    def counted(self) -> "Stream":
        return self

    def nothing(self) -> Examples:
        return next(self.make())[:0]

    def batches(self) -> Iterator[Examples]:
        return self.make()


def numbered(batches: Iterable[Batch]) -> Iterator[Examples]:
    """Examples of no name of their own: an id is the place among all that came."""
    seen = 0
    for batch in batches:
        rows = len(batch[1])
        yield Examples(torch.arange(seen, seen + rows), batch)
        seen += rows
