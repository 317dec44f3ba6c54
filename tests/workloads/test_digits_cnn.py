"""digits-cnn: learns more than the perceptron, as eager torch does, and is judged in eval mode."""

import pytest
import torch

from tests.training.trained import eager, trained
from tests.workloads.learning import Learner
from tracer.capture_graph.capture import variables_of
from tracer.workloads import digits_cnn, digits_mlp

WORKLOAD = digits_cnn.workload()
SEEDS = [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_reads_digits_better_than_the_perceptron_in_half_the_steps(seed: int) -> None:
    ours, perceptron = Learner(WORKLOAD, seed), Learner(digits_mlp.workload(), seed)
    ours.learn(200)
    perceptron.learn(400)
    assert ours.metric >= 0.975
    assert ours.metric > perceptron.metric


@pytest.mark.parametrize("strategy", ["one_device", "parameter_server_v1"])
def test_its_losses_and_statistics_are_those_of_eager_torch(strategy: str) -> None:
    run = trained(WORKLOAD, strategy, 4)
    module = WORKLOAD.make_module(0)
    losses = eager(WORKLOAD, torch.optim.Adam(module.parameters(), 0.003), module, 4)
    assert run.fitted.losses == pytest.approx(losses, abs=1e-5)
    expected = {name.replace(".", "/"): value for name, value in module.state_dict().items()}
    seen = expected.keys() & run.variables.keys()
    assert seen >= {"conv1/weight", "norm1/running_mean", "norm2/running_var", "head/bias"}
    for name in seen:
        torch.testing.assert_close(run.variables[name], expected[name], rtol=1e-4, atol=1e-5)


def test_judging_it_changes_no_variable_and_drops_nothing_out() -> None:
    learner = Learner(WORKLOAD, 0)
    learner.learn(2)
    names = [node.name for node in variables_of(learner.step.graph)]
    before = {name: learner.runner.resources[name].version for name in names}
    judged = learner.metric
    assert learner.metric == judged
    assert {name: learner.runner.resources[name].version for name in names} == before


def test_the_last_batch_of_an_epoch_is_short_where_it_is_kept() -> None:
    workload = digits_cnn.workload(batch=400, drop_remainder=False)
    batches = workload.batches(0, 0, 1)
    assert [len(next(batches)[0]) for _ in range(5)] == [400, 400, 400, 237, 400]
