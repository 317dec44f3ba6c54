"""rnn-while: a loop in a step is trained through, as eager torch trains the unrolled one."""

from itertools import islice

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.training.trained import trained
from tracer.workloads import rnn_while
from tracer.workloads.rnn_while import PIXELS, ROWS, RowReader

WORKLOAD = rnn_while.workload()


def unrolled(module: RowReader, x: Tensor) -> Tensor:
    rows, state = x.reshape(-1, ROWS, PIXELS), module.start.repeat(len(x), 1)
    for i in range(ROWS):
        state = torch.tanh(module.row(rows[:, i]) + module.state(state))
    logits: Tensor = module.head(state)
    return logits


@pytest.mark.parametrize("strategy", ["one_device", "parameter_server_v1"])
def test_its_losses_are_those_of_the_unrolled_network(strategy: str) -> None:
    run = trained(WORKLOAD, strategy, 3)
    module = WORKLOAD.make_module(0)
    assert isinstance(module, RowReader)
    optimizer = torch.optim.Adam(module.parameters(), 0.005)
    losses = []
    for x, y in islice(WORKLOAD.batches(0, 0, 1), 3):
        optimizer.zero_grad()
        loss = functional.cross_entropy(unrolled(module, x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    assert run.fitted.losses == pytest.approx(losses, abs=1e-5)
    for name, value in module.state_dict().items():
        ours = run.variables[name.replace(".", "/")]
        torch.testing.assert_close(ours, value, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns_to_read_digits(seed: int) -> None:
    fitted = trained(WORKLOAD, "one_device", 200, seed=seed, trace="none").fitted
    first, last = sum(fitted.losses[:10]), sum(fitted.losses[-10:])
    assert last < first / 5
    assert fitted.metric is not None
    assert fitted.metric.name == "accuracy"
    assert fitted.metric.value >= 0.91
