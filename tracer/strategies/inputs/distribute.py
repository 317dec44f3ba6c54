"""A data set → the inputs of one worker, step after step (TF `distribute/input_lib.py`).

    distribute_dataset        one global data set: rebatched and split, every step of all workers
                              holds one global batch
    distribute_from_function  a function says what each input pipeline reads, and nothing is split
                              or cut any further

Data of one worker may end before those of another. It then gets empty inputs until all are at their
end, so that every collective still has all its ranks; none is dropped and none waits for ever. Of
data that end an input is looked at ahead, so that the last one is known to be the last.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, zip_longest

import torch

from tracer.strategies.inputs.autoshard import Policy, Sharding, sharding_of
from tracer.strategies.inputs.dataset import DataError, Dataset, Examples
from tracer.strategies.inputs.rebatch import batch_sizes_for_worker, rebatched, sliced
from tracer.strategies.inputs.step_input import NO_IDS, Pipeline, ReplicaInput, StepInput

_Pieces = tuple[Examples, ...]


@dataclass(frozen=True, slots=True)
class InputContext:
    """Which input pipeline of how many is asked for (TF `InputContext`).

    `num_replicas_in_sync` are all that share one global batch: those of every pipeline that waits.
    """

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    def get_per_replica_batch_size(self, global_batch: int) -> int:
        """Raises DataError where replicas do not divide the global batch."""
        if global_batch % self.num_replicas_in_sync:
            raise DataError(
                f"a global batch of {global_batch} is no multiple of the "
                f"{self.num_replicas_in_sync} replicas in sync; ask for --option batch="
                f"{self.num_replicas_in_sync * max(1, global_batch // self.num_replicas_in_sync)}"
            )
        return global_batch // self.num_replicas_in_sync


def distribute_dataset(
    dataset: Dataset,
    *,
    workers: int = 1,
    worker: int = 0,
    replicas: int = 1,
    autoshard: str = Policy.AUTO,
) -> Iterator[StepInput]:
    """The inputs of `worker`, which has `replicas`; the data set is the same for all workers.

    Raises OpError at its first step where the policy cannot split this data set.
    """
    sharding = sharding_of(dataset, autoshard, workers)
    pipeline = Pipeline(sharding, worker, workers, replicas, dataset.num_files, dataset.cycle)
    if sharding.effective is Policy.DATA:
        steps = _by_data(dataset, pipeline)
    elif dataset.is_endless:
        steps = _by_sizes(dataset, pipeline)
    else:
        mine, counted = _part(dataset, pipeline, worker), dataset.counted()
        own = _pieces(mine, pipeline, worker)
        others = (
            _pieces(_part(counted, pipeline, other), pipeline, other)
            for other in range(workers)
            if other != worker
        )
        steps = _until_all_end(own, others, mine.nothing, pipeline)
    yield from steps if dataset.is_endless else _with_last(steps)


def distribute_from_function(
    make: Callable[[InputContext], Dataset], context: InputContext, replicas: int = 1
) -> Iterator[StepInput]:
    """Each replica takes the next batch of the data set that `make` gives this pipeline."""
    dataset = make(context)
    pipeline = Pipeline(
        Sharding(Policy.FUNCTION, Policy.FUNCTION),
        context.input_pipeline_id,
        context.num_input_pipelines,
        replicas,
        dataset.num_files,
        dataset.cycle,
    )
    own = _with_rows(dataset.batches())
    is_alone = context.num_replicas_in_sync <= replicas
    if is_alone or (dataset.is_endless and dataset.batch is None):
        steps = _as_they_come(own, pipeline, 1 if is_alone else pipeline.workers)
    else:
        others = (
            _with_rows(make(replace(context, input_pipeline_id=other)).counted().batches())
            for other in range(pipeline.workers)
            if other != pipeline.worker
        )
        steps = _until_all_end(own, others, dataset.nothing, pipeline)
    yield from steps if dataset.is_endless else _with_last(steps)


def _as_they_come(
    batches: Iterable[Examples], pipeline: Pipeline, in_sync: int
) -> Iterator[StepInput]:
    """So many pipelines are in sync; each is taken to have as many examples as this one."""
    for pieces in _grouped(batches, pipeline.replicas):
        yield _step(pieces, in_sync * sum(map(len, pieces)), pipeline)


def _by_data(dataset: Dataset, pipeline: Pipeline) -> Iterator[StepInput]:
    """Every global batch is read and cut for all replicas; every `workers`-th slice is kept."""
    for batch in _with_rows(dataset.batches()):
        cut = sliced(batch, pipeline.workers * pipeline.replicas)
        kept = tuple(cut[pipeline.worker :: pipeline.workers])
        others = [
            piece.ids for n, piece in enumerate(cut) if n % pipeline.workers != pipeline.worker
        ]
        discarded = torch.cat(others) if others else NO_IDS
        yield _step(kept, len(batch), pipeline, discarded)


def _by_sizes(dataset: Dataset, pipeline: Pipeline) -> Iterator[StepInput]:
    """Data without an end: in every step the workers' sizes sum to a global batch."""
    mine = _part(dataset, pipeline, pipeline.worker)
    for pieces in _grouped(_pieces(mine, pipeline, pipeline.worker), pipeline.replicas):
        own = sum(map(len, pieces))
        yield _step(pieces, dataset.batch or own * pipeline.workers, pipeline)


def _until_all_end(
    own: Iterable[Examples],
    others: Iterable[Iterable[Examples]],
    empty: Callable[[], Examples],
    pipeline: Pipeline,
) -> Iterator[StepInput]:
    """What the other workers get is counted along: who is at the end first gets empty inputs."""
    nothing: Examples | None = None
    grouped = (_grouped(each, pipeline.replicas) for each in (own, *others))
    for pieces, *rest in zip_longest(*grouped, fillvalue=()):
        total = sum(len(piece) for each in (pieces, *rest) for piece in each)
        if not total:
            continue
        if pieces:
            nothing = pieces[0][:0]
        elif nothing is None:
            nothing = empty()
        yield _step(pieces, total, pipeline, nothing=nothing)


def _with_last(steps: Iterator[StepInput]) -> Iterator[StepInput]:
    before = next(steps, None)
    for step in steps:
        assert before is not None
        yield before
        before = step
    if before is not None:
        yield replace(before, is_last=True)


def _part(dataset: Dataset, pipeline: Pipeline, worker: int) -> Dataset:
    """What `worker` reads of it."""
    match pipeline.sharding.effective:
        case Policy.FILE:
            return dataset.of_files(worker, pipeline.workers)
        case Policy.HINT:
            return dataset.of_elements(worker, pipeline.workers)
        case _:
            return dataset


def _pieces(dataset: Dataset, pipeline: Pipeline, worker: int) -> Iterator[Examples]:
    """Replicas' batches of one worker, in order, from its part of the data."""
    workers, replicas = pipeline.workers, pipeline.replicas
    batches = _with_rows(dataset.batches())
    if dataset.batch is None:
        return (piece for batch in batches for piece in sliced(batch, workers * replicas))
    sizes = batch_sizes_for_worker(dataset.batch, workers, replicas, worker)
    return rebatched(batches, sizes)


def _with_rows(batches: Iterable[Examples]) -> Iterator[Examples]:
    """A mean over no rows is no number, so a batch of none is no step."""
    return (each for each in batches if len(each) and all(part.numel() for part in each.parts))


def _grouped(pieces: Iterable[Examples], replicas: int) -> Iterator[_Pieces]:
    """So many at a time; the last group may be short."""
    left = iter(pieces)
    while group := tuple(islice(left, replicas)):
        yield group


def _step(
    pieces: _Pieces,
    global_batch: int,
    pipeline: Pipeline,
    discarded: torch.Tensor = NO_IDS,
    nothing: Examples | None = None,
) -> StepInput:
    """Replicas without a piece are empty."""
    empty = pieces[0][:0] if pieces else nothing
    assert empty is not None
    inputs = (
        ReplicaInput(n, pieces[n] if n < len(pieces) else empty, n < len(pieces))
        for n in range(pipeline.replicas)
    )
    return StepInput(tuple(inputs), global_batch, pipeline, discarded)
