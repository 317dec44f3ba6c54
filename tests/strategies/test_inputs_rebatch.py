"""A global batch is cut for replicas: sizes, empty batches, and the end of the data."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies.inputs_golden import GOLDEN, elements, files, ids_of, rows, steps
from tracer.strategies.inputs.dataset import Examples, Rows, Stream, Table, numbered
from tracer.strategies.inputs.distribute import (
    InputContext,
    distribute_dataset,
    distribute_from_function,
)
from tracer.strategies.inputs.rebatch import batch_sizes_for_worker, rebatched

SIZES = st.integers(1, 40)


@pytest.mark.parametrize(
    ("batch", "workers", "replicas", "sizes"),
    [
        (7, 2, 2, [[2, 2, 2, 1], [2, 1, 2, 2]]),
        (10, 3, 1, [[4, 3, 3], [3, 3, 4], [3, 4, 3]]),
        (5, 2, 3, [[1, 1, 1, 1, 1, 0], [1, 1, 0, 1, 1, 1]]),
        (64, 2, 2, [[16, 16], [16, 16]]),
    ],
)
def test_sizes_are_those_of_tensorflow(
    batch: int, workers: int, replicas: int, sizes: list[list[int]]
) -> None:
    of_all = [list(batch_sizes_for_worker(batch, workers, replicas, w)) for w in range(workers)]
    assert of_all == sizes


@settings(max_examples=30)
@given(SIZES, st.integers(1, 6), st.integers(1, 4))
def test_in_every_step_sizes_sum_to_the_global_batch_and_workers_differ_by_one_at_most(
    batch: int, workers: int, replicas: int
) -> None:
    sizes = [batch_sizes_for_worker(batch, workers, replicas, w) for w in range(workers)]
    for start in range(0, len(sizes[0]), replicas):
        totals = [sum(each[start : start + replicas]) for each in sizes]
        assert sum(totals) == batch
        assert max(totals) - min(totals) <= 1


@settings(max_examples=30)
@given(st.integers(0, 30), st.lists(st.integers(0, 5), min_size=1, max_size=4), SIZES)
def test_a_rebatch_loses_nothing_and_keeps_the_order(
    count: int, sizes: list[int], batch: int
) -> None:
    sizes = [*sizes, 1]
    given_ids = torch.split(torch.arange(count), batch) if count else ()
    pieces = list(rebatched(map(Examples, given_ids), sizes))
    assert [n for piece in pieces for n in piece.ids.tolist()] == list(range(count))
    assert all(len(p) == sizes[i % len(sizes)] for i, p in enumerate(pieces[:-1]))


CASE = re.compile(r"(\d) replicas, range\((\d+)\), global batch (\d+)(, drop_remainder)?")


@pytest.mark.parametrize("name", GOLDEN["one process, several replicas"])
def test_replicas_of_one_worker_get_what_tensorflow_gave_them(name: str) -> None:
    match = CASE.fullmatch(name)
    assert match
    replicas, count, batch = (int(text) for text in match.groups()[:3])
    dataset = rows(elements(count), batch, drop_remainder=bool(match[4]))
    inputs = distribute_dataset(dataset, replicas=replicas)
    assert [ids_of(step) for step in inputs] == GOLDEN["one process, several replicas"][name][
        "steps"
    ]


def test_seven_examples_in_batches_of_four_come_as_two_and_two_then_two_and_one() -> None:
    inputs = distribute_dataset(rows(elements(7), 4), replicas=2)
    assert [[len(replica) for replica in step.replicas] for step in inputs] == [[2, 2], [2, 1]]


@pytest.mark.parametrize(("count", "batch", "replicas"), [(9, 4, 2), (2, 4, 3)])
def test_a_replica_that_gets_nothing_gets_an_empty_batch_of_the_right_kind(
    count: int, batch: int, replicas: int
) -> None:
    x, y = torch.rand(count, 5, dtype=torch.float64), torch.arange(count)
    *_, last = distribute_dataset(rows(Table((x, y)), batch), replicas=replicas)
    assert last.num_rows == last.global_batch
    nothing = last.replicas[-1]
    assert [tuple(part.shape) for part in nothing.batch] == [(0, 5), (0,)]
    assert [part.dtype for part in nothing.batch] == [torch.float64, torch.int64]


def test_a_worker_whose_files_end_early_gets_empty_inputs_until_all_are_at_their_end() -> None:
    first, second = (steps(rows(files(6, 2), 4), "FILE", worker) for worker in (0, 1))
    assert [step.num_rows for step in first] == [2, 2, 2]
    assert [step.num_rows for step in second] == [2, 0, 0]
    assert [step.replicas[0].has_value for step in second] == [True, False, False]
    assert [s.global_batch for s in first] == [s.global_batch for s in second] == [4, 2, 2]
    assert second[-1].replicas[0].batch[0].shape == (0,)


def test_a_worker_with_no_batch_of_its_own_steps_along_and_opens_no_file_of_others() -> None:
    source = files(4, 2)
    given = steps(rows(source, 4, drop_remainder=True), "FILE", 1)
    assert [(step.num_rows, step.global_batch) for step in given] == [(0, 2), (0, 2)]
    assert given[0].replicas[0].batch[0].shape == (0,)
    assert not source.opened


def test_data_without_an_end_give_a_global_batch_in_every_step_under_every_policy() -> None:
    for source in (elements(10), files(5, 5, 5)):
        for policy in ("AUTO", "DATA", "OFF"):
            dataset = Rows(source, 5, drop_remainder=True, shuffle=1)
            workers = [
                distribute_dataset(dataset, workers=3, worker=w, replicas=2, autoshard=policy)
                for w in range(3)
            ]
            for _ in range(12):
                taken = [next(worker) for worker in workers]
                assert sum(step.num_rows for step in taken) == 5
                assert all(step.global_batch == 5 for step in taken)


def test_batches_of_unknown_size_are_sliced_for_all_replicas() -> None:
    x = torch.arange(14)
    batches = [(x[:6], x[:6]), (x[6:6], x[6:6]), (x[6:], x[6:])]
    dataset = Stream(lambda: numbered(batches), is_endless=False)
    both = [[ids_of(step)[0] for step in steps(dataset, "DATA", w)] for w in (0, 1)]
    assert both == [[[0, 1, 2], [6, 7, 8, 9]], [[3, 4, 5], [10, 11, 12, 13]]]


def test_a_function_of_the_users_splits_by_itself_and_nothing_is_cut_further() -> None:
    def make(context: InputContext) -> Rows:
        pipelines, own = context.num_input_pipelines, context.input_pipeline_id
        return rows(elements(10), context.get_per_replica_batch_size(4)).of_elements(own, pipelines)

    case = next(n for n in GOLDEN["cases"] if n.startswith("distribute_datasets_from_function"))
    inputs = distribute_from_function(make, InputContext(2, 0, 2))
    assert [ids_of(step)[0] for step in inputs][:2] == GOLDEN["cases"][case]["worker0"]
    with pytest.raises(ValueError, match="a global batch of 4 is no multiple of the 3 replicas"):
        InputContext(num_replicas_in_sync=3).get_per_replica_batch_size(4)
