"""Examples that lie in files: what FILE sharding splits, and what a worker need not open."""

import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tracer.capture_graph.capture import Batch
from tracer.strategies.inputs.dataset import DataError


@dataclass(frozen=True, slots=True)
class File:
    """Rows x and y in an .npz; `ids` are theirs, in order."""

    path: Path
    ids: Tensor


class Files:
    """Files read one after the other, or `cycle` of them by turns, a row each.

    A file is opened when a first row of it is wanted, and never before.
    """

    def __init__(self, files: Sequence[File], cycle: int = 1, folder: object | None = None) -> None:
        """`folder` is kept as long as the files are."""
        self._files = tuple(files)
        self.cycle = cycle
        self._folder = folder
        self._opened: dict[int, Batch] = {}
        last = max(int(file.ids.max()) for file in self._files)
        self._file_of, self._row_of = torch.full((2, last + 1), -1).unbind()
        for index, file in enumerate(self._files):
            self._file_of[file.ids] = index
            self._row_of[file.ids] = torch.arange(len(file.ids))

    @property
    def num_files(self) -> int:
        return len(self._files)

    @property
    def opened(self) -> tuple[Path, ...]:
        return tuple(self._files[index].path for index in sorted(self._opened))

    def ids(self) -> Tensor:
        return torch.tensor([*_by_turns([f.ids.tolist() for f in self._files], self.cycle)])

    def of_files(self, worker: int, workers: int) -> "Files":
        return Files(self._files[worker::workers], self.cycle, self._folder)

    def rows(self, ids: Tensor) -> Batch:
        files, rows = self._file_of[ids], self._row_of[ids]
        like_x, like_y = self._open(int(files[0]) if len(files) else 0)
        x = like_x.new_empty(len(ids), *like_x.shape[1:])
        y = like_y.new_empty(len(ids), *like_y.shape[1:])
        for index in sorted(set(files.tolist())):
            chosen = files == index
            file_x, file_y = self._open(index)
            x[chosen], y[chosen] = file_x[rows[chosen]], file_y[rows[chosen]]
        return x, y

    def _open(self, index: int) -> Batch:
        if index not in self._opened:
            with np.load(self._files[index].path) as stored:
                x, y = (torch.from_numpy(stored[name]) for name in "xy")
            self._opened[index] = x, y
        return self._opened[index]


def _by_turns(files: Sequence[list[int]], cycle: int) -> Iterator[int]:
    """One of each of `cycle` open files in turn; where one ends, the next takes its place."""
    waiting = deque(iter(file) for file in files)
    turns = deque(waiting.popleft() for _ in range(min(cycle, len(waiting))))
    while turns:
        file = turns.popleft()
        if (number := next(file, None)) is not None:
            yield number
            turns.append(file)
        elif waiting:
            turns.appendleft(waiting.popleft())


def write_files(folder: Path, rows: Batch, num_files: int) -> tuple[File, ...]:
    """`rows` in so many files of about the same length, in order; a row's id is its place.

    Raises DataError where there are not as many rows.
    """
    x, y = rows
    if not 1 <= num_files <= len(y):
        raise DataError(f"{len(y)} rows fill 1 to {len(y)} files, not {num_files}")
    files = []
    for index, ids in enumerate(torch.arange(len(y)).tensor_split(num_files)):
        path = folder / f"{index}-of-{num_files}.npz"
        np.savez(path, x=x[ids].numpy(), y=y[ids].numpy())
        files.append(File(path, ids))
    return tuple(files)


class _Folder:
    """A temporary folder that goes with the last who holds this."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="vizdist-data-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def written(rows: Batch, num_files: int, cycle: int = 1) -> Files:
    """`rows` in files of their own, which go when the last who could read them does."""
    folder = _Folder()
    return Files(write_files(folder.path, rows, num_files), cycle, folder)
