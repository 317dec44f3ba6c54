"""digits-mlp: real digits, shared out fairly, learned in 400 steps, also from stale gradients."""

from itertools import islice

import pytest
import torch

from tests.ops.graph_runner import GraphRunner
from tracer.capture_graph.capture import CapturedStep, variables_of
from tracer.strategies.inputs.dataset import DataError
from tracer.workloads import digits_mlp
from tracer.workloads.registry import WORKLOADS, UnknownWorkload, find_workload

WORKLOAD = digits_mlp.workload()


@pytest.fixture(scope="module", params=[0, 1, 2])
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def held_out() -> tuple[torch.Tensor, torch.Tensor]:
    evaluation = WORKLOAD.evaluation()
    assert evaluation is not None
    return evaluation.batch


def accuracy(runner: GraphRunner, step: CapturedStep) -> float:
    feeds = dict(zip(step.evaluation_feeds, held_out(), strict=True))
    (metric,) = runner.run(step.metric, feeds=feeds)
    assert metric is not None
    return metric.item()


def test_it_learns_within_400_steps(seed: int) -> None:
    step = WORKLOAD.capture(seed)
    runner = GraphRunner(step.graph)
    runner.run(step.init)
    for batch in islice(WORKLOAD.batches(seed, 0, 1), 400):
        runner.run(step.train, feeds=dict(zip(step.feeds, batch, strict=True)))
    assert accuracy(runner, step) >= 0.93


def test_it_learns_from_gradients_two_updates_old(seed: int) -> None:
    """What two workers do to each other: a gradient is applied after two that others computed."""
    step = WORKLOAD.capture(seed)
    updates = [step.graph[name] for name in step.graph[step.train].control_inputs]
    runner = GraphRunner(step.graph)
    runner.run(step.init)
    workers = [WORKLOAD.batches(seed, index, 2) for index in range(2)]
    late: list[list[torch.Tensor | None]] = []
    for number in range(400):
        batch = next(workers[number % 2])
        gradients = [str(update.inputs[2]) for update in updates]
        late.append(runner.run(*gradients, feeds=dict(zip(step.feeds, batch, strict=True))))
        if len(late) > 2:
            for update, gradient in zip(updates, late.pop(0), strict=True):
                assert gradient is not None
                runner.run(update.name, feeds={str(update.inputs[2]): gradient})
    assert accuracy(runner, step) >= 0.93


def test_the_step_is_the_64_32_10_perceptron() -> None:
    step = WORKLOAD.capture(0)
    assert [node.attrs["shape"] for node in variables_of(step.graph)] == [
        [32, 64],
        [32],
        [10, 32],
        [10],
    ]
    assert step.graph["x"].attrs["shape"] == [64, 64]


def test_workers_share_the_images_and_none_is_held_out() -> None:
    def seen(worker: int, workers: int) -> set[bytes]:
        epoch = islice(WORKLOAD.batches(7, worker, workers), 60)
        return {row.numpy().tobytes() for x, _ in epoch for row in x}

    apart = {row.numpy().tobytes() for row in held_out()[0]}
    first, second = seen(0, 2), seen(1, 2)
    assert not first & second
    assert not (first | second) & apart
    assert len(first | second) > 1400


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = (next(WORKLOAD.batches(3, 0, 1)) for _ in range(2))
    assert torch.equal(one[0], other[0])
    assert not torch.equal(one[0], next(WORKLOAD.batches(4, 0, 1))[0])
    weights = [WORKLOAD.make_module(3).state_dict()["fc1.weight"] for _ in range(2)]
    assert torch.equal(*weights)


def test_more_workers_than_batches_are_refused_in_words() -> None:
    with pytest.raises(DataError, match="at most 22 of them get a batch of 64"):
        next(WORKLOAD.batches(0, 0, 23))


def test_an_unknown_workload_names_the_nearest() -> None:
    with pytest.raises(UnknownWorkload, match="did you mean digits-mlp"):
        find_workload("digit-mlp")
    assert find_workload("digits-mlp") is WORKLOADS["digits-mlp"]
