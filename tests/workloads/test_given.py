"""What a user's factory may return, and what each mistake in it is told."""

import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from tracer.capture_graph.capture import Batch
from tracer.capture_graph.optimizers import SGD, Adam
from tracer.strategies.inputs.distribute import InputContext
from tracer.workloads.factory import FactoryError
from tracer.workloads.given import BATCH, workload_of
from tracer.workloads.workload import Workload

ROWS: Batch = (torch.arange(30.0).reshape(10, 3), torch.arange(10.0).reshape(10, 1))


def given(**changes: Any) -> Mapping[str, Any]:
    plain = {"module": nn.Linear(3, 1), "loss": functional.mse_loss, "data": ROWS}
    return {name: value for name, value in {**plain, **changes}.items() if value is not None}


def taken(workload: Workload, count: int, worker: int = 0, workers: int = 1) -> list[list[float]]:
    """The rows of the first batches, by their y."""
    batches = islice(workload.batches(0, worker, workers), count)
    return [y.flatten().tolist() for _, y in batches]


def mean_error(outputs: Tensor, y: Tensor) -> Tensor:
    return (outputs - y).abs().mean()


def test_a_module_a_loss_and_data_are_enough() -> None:
    workload = workload_of(given(), "train:make")
    assert workload.optimizer == Adam()
    assert workload.evaluation() is None
    assert len(taken(workload, 1)[0]) == min(BATCH, 10)
    assert workload.capture(0).metric == ""


def test_two_tensors_are_shuffled_and_shared_out_and_the_last_batch_is_short() -> None:
    workload = workload_of(given(batch=4), "train:make")
    epoch = taken(workload, 3)
    assert [len(rows) for rows in epoch] == [4, 4, 2]
    assert sorted(chain(*epoch)) == list(range(10))
    first, second = (taken(workload, 2, worker, 2) for worker in range(2))
    assert sorted(chain(*first)) == [0, 2, 4, 6, 8]
    assert sorted(chain(*second)) == [1, 3, 5, 7, 9]


def test_batches_of_a_loader_are_dealt_out_in_the_order_that_all_workers_see() -> None:
    loader = DataLoader(TensorDataset(*ROWS), batch_size=3, shuffle=True)
    workload = workload_of(given(data=loader), "train:make")
    torch.manual_seed(1)  # what a process draws otherwise does not matter
    first = taken(workload, 4, 0, 2)
    torch.manual_seed(2)
    second = taken(workload, 4, 1, 2)
    assert sorted(chain(*first[:2], *second[:2])) == list(range(10))
    assert sorted(chain(*first[2:], *second[2:])) == list(range(10))
    assert first[:2] != first[2:]  # shuffled anew


@pytest.mark.parametrize("batch", [None, 6])
def test_data_may_be_a_function_of_the_input_pipeline_that_asks(batch: int | None) -> None:
    """Batches of its own, or rows that become batches: `batch` is that of all replicas in sync."""

    def data(context: InputContext) -> object:
        rows = slice(context.input_pipeline_id, None, context.num_input_pipelines)
        x, y = ROWS
        return (x[rows], y[rows]) if batch else [(x[rows], y[rows])]

    workload = workload_of(given(data=data, batch=batch), "train:make")
    alone = workload.dataset(0, InputContext())
    assert sorted(chain(*taken(workload, 2 if batch else 1))) == list(range(10))
    shared = workload.dataset(0, InputContext(2, 1, num_replicas_in_sync=2))
    assert (alone.batch, shared.batch) == ((6, 3) if batch else (None, None))
    mine = next(shared.batches()).parts[1].flatten().tolist()
    assert {*mine} <= {1, 3, 5, 7, 9}
    assert len(mine) == (3 if batch else 5)


def test_drawing_batches_leaves_the_random_numbers_of_the_process_alone() -> None:
    loader = DataLoader(TensorDataset(*ROWS), batch_size=3, shuffle=True)
    workload = workload_of(given(data=loader), "train:make")
    state = torch.get_rng_state()
    taken(workload, 6)
    assert torch.equal(torch.get_rng_state(), state)


def test_workers_that_draw_at_once_from_threads_get_what_each_gets_alone() -> None:
    loader = DataLoader(TensorDataset(*ROWS), batch_size=1, shuffle=True)
    workload = workload_of(given(data=loader), "train:make")
    alone = [taken(workload, 100, worker, 4) for worker in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda worker: taken(workload, 100, worker, 4), range(4)))
    assert together == alone


def test_an_evaluation_is_judged_by_its_metric() -> None:
    step = workload_of(given(evaluation=ROWS, metric=mean_error), "train:make").capture(0)
    assert step.metric


def test_a_workload_is_taken_as_it_is() -> None:
    workload = workload_of(given(), "train:make")
    assert workload_of(workload, "train:make") is workload


X, Y = ROWS


class Missing(Dataset[Batch]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Batch:
        sys.stdout.write("looking for the cat\n")
        raise KeyError("cat.png")


def no_nesterov(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, nesterov=True, dampening=1)


def test_what_the_data_raise_is_told_with_the_users_line_and_what_they_print_is_no_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(FactoryError, match=r"test_given.py., line \d+, in __getitem__"):
        workload_of(given(data=DataLoader(Missing())), "train:make")
    assert capsys.readouterr() == ("", "looking for the cat\n")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (None, "returned nothing; return {"),
        (nn.Linear(3, 1), "returned a Linear; return {"),
        ((nn.Linear(3, 1), ROWS), "returned a tuple"),
        ({"module": nn.Linear(3, 1), "data": ROWS}, "returned no 'loss'"),
        (given(modle=1), "returned 'modle'; did you mean module"),
        (given(module=nn.Linear), "'module' of train:make is a type"),
        (given(module=nn.ReLU()), "'module' of train:make has no parameter that could be trained"),
        (given(module=nn.Linear(3, 1, device="meta")), "has weight on meta; leave the module on"),
        (given(loss=3), "'loss' of train:make is a int"),
        (given(batch=0), "'batch' is 0; it must be a whole number from 1 on"),
        (given(data=[ROWS], batch=3), "'batch' is for two tensors"),
        (given(data=7), "'data' of train:make: it is a int"),
        (given(data=iter([ROWS])), "an iterator is at its end after one pass"),
        (given(data=TensorDataset(*ROWS)), "wrap it: torch.utils.data.DataLoader"),
        (given(data=[X]), "must be a pair of tensors .x, y., not Tensor"),
        (given(data=[(X, "cat")]), "not tuple of Tensor, str"),
        (given(data=[{"x": X}]), "not dict"),
        (given(data=(X, Y[:4])), "same number of rows; they are .10, 3. and .4, 1."),
        (given(data=(X[:0], Y[:0])), "at most 0 of them get a row"),
        (given(data=[(X[:0], Y[:0])]), "a pass over the data gives worker 0 of 1 no batch"),
        (given(data=[]), "a pass over the data gives worker 0 of 1 no batch"),
        (given(evaluation=ROWS), "it takes both to judge a model"),
        (given(evaluation=ROWS, metric=3), "'metric' of train:make must be a function"),
        (given(evaluation=[X], metric=mean_error), "'evaluation' of train:make: a batch must be"),
        (given(optimizer=0.1), "'optimizer' is 0.1; give torch.optim.SGD"),
        (given(optimizer=torch.optim.RMSprop), "the optimizer RMSprop cannot be captured"),
        (given(data=DataLoader(Missing())), "'data' of train:make raised KeyError: 'cat.png'"),
        (given(optimizer=no_nesterov), "'optimizer' of train:make raised ValueError: Nesterov"),
    ],
)
def test_what_is_no_workload_is_refused_with_the_rule(wrong: object, says: str) -> None:
    with pytest.raises(FactoryError, match=says):
        workload_of(wrong, "train:make")


def test_more_workers_than_batches_are_refused() -> None:
    workload = workload_of(given(data=[ROWS]), "train:make")
    with pytest.raises(ValueError, match="worker 1 of 2 no batch with rows: give it more batches"):
        next(workload.batches(0, 1, 2))


def test_an_own_update_rule_is_taken_as_it_is() -> None:
    rule = SGD(0.2)
    assert workload_of(given(optimizer=rule), "train:make").optimizer is rule
