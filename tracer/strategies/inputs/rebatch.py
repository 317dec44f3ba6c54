"""A global batch → batches of replicas (TF `data/experimental/ops/distribute.py`).

Two ways, and which one is taken shows in the sizes: `rebatched` makes batches of given sizes out of
whatever comes, over the edges of what it is given; `sliced` cuts each batch by itself, by ceiling.
"""

from collections.abc import Iterable, Iterator
from itertools import cycle

from tracer.strategies.inputs.dataset import Examples, joined


def batch_sizes_for_worker(
    global_batch: int, workers: int, replicas: int, worker: int
) -> tuple[int, ...]:
    """Sizes of this worker's batches, replica after replica, step after step, then from the start.

    In each step sizes of all workers sum to `global_batch`. What does not divide goes to another
    worker each step; where all divides there is one step only. Sizes may be 0.
    """
    share, over = divmod(global_batch, workers)
    steps = workers if over else 1
    totals = (share + ((worker + step) % workers < over) for step in range(steps))
    return tuple(size for total in totals for size in _even(total, replicas))


def _even(total: int, replicas: int) -> Iterator[int]:
    share, over = divmod(total, replicas)
    return (share + (replica < over) for replica in range(replicas))


def rebatched(batches: Iterable[Examples], sizes: Iterable[int]) -> Iterator[Examples]:
    """Batches of `sizes`, over and over; the last one may be short (`RebatchDatasetV2`)."""
    left, incoming = None, iter(batches)
    for size in cycle(sizes):
        taken: list[Examples] = []
        wanted = size
        while True:
            if left is None and (left := next(incoming, None)) is None:
                break
            taken.append(left[:wanted])
            wanted -= len(taken[-1])
            left = left[len(taken[-1]) :] if len(left) > len(taken[-1]) else None
            if not wanted:
                break
        if not taken:
            return
        yield joined(taken)


def sliced(batch: Examples, replicas: int) -> list[Examples]:
    """Slices of ⌈rows / replicas⌉; the last ones may be short or empty (`RebatchDataset`, V1)."""
    size = -(-len(batch) // replicas)
    return [batch[size * index : size * (index + 1)] for index in range(replicas)]
