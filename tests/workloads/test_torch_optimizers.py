"""A torch optimizer trains in a graph as it does in torch, or it is refused with the reason."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.training.trained import eager, trained
from tracer.capture_graph.optimizers import SGD, Adam, AdamW
from tracer.workloads.factory import FactoryError
from tracer.workloads.given import workload_of
from tracer.workloads.torch_optimizers import read_optimizer

Make = Callable[..., torch.optim.Optimizer]

READ: list[tuple[Make, object]] = [
    (partial(torch.optim.SGD, lr=0.1), SGD(0.1)),
    (partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
     SGD(0.1, 0.9, nesterov=True, weight_decay=0.01)),
    (partial(torch.optim.Adam, lr=0.02, betas=(0.8, 0.99), eps=1e-6),
     Adam(0.02, 0.8, 0.99, 1e-6)),
    (partial(torch.optim.Adam, lr=0.02, weight_decay=0.1), Adam(0.02, weight_decay=0.1)),
    (partial(torch.optim.AdamW, lr=0.02), AdamW(0.02)),
]  # fmt: skip


@pytest.mark.parametrize(("make", "rule"), READ)
def test_its_settings_become_those_of_the_rule(make: Make, rule: object) -> None:
    module = nn.Linear(3, 1)
    assert read_optimizer(make(module.parameters()), module) == rule
    assert read_optimizer(make, module) == rule


@pytest.mark.parametrize("make", [make for make, _ in READ])
def test_it_trains_as_it_does_in_torch(make: Make) -> None:
    random = torch.Generator().manual_seed(2)
    data = torch.randn(12, 3, generator=random), torch.randn(12, 1, generator=random)
    torch.manual_seed(0)
    module = nn.Linear(3, 1)
    workload = workload_of(
        {"module": module, "loss": functional.mse_loss, "data": data, "batch": 4,
         "optimizer": make}, "train:make",
    )  # fmt: skip
    run = trained(workload, "one_device", 8)
    losses = eager(workload, make(module.parameters()), module, 8)
    assert run.fitted.losses == pytest.approx(losses, abs=1e-6)
    for name, value in module.named_parameters():
        torch.testing.assert_close(run.variables[name], value, rtol=0, atol=1e-6)


def groups(module: nn.Sequential) -> torch.optim.Optimizer:
    return torch.optim.SGD([{"params": layer.parameters(), "lr": 0.1} for layer in module])


def scheduled(module: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    torch.optim.lr_scheduler.StepLR(optimizer, 3)
    return optimizer


def hooked(module: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    optimizer.register_step_post_hook(lambda *_: None)
    return optimizer


def used(module: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return optimizer


class Mine(torch.optim.SGD):
    """Who knows what its step does."""


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda m: torch.optim.SGD(m.parameters(), 0.1, 0.9, dampening=0.5), "dampening=0.5"),
        (lambda m: torch.optim.SGD(m.parameters(), 0.1, maximize=True), "leave maximize out"),
        (lambda m: torch.optim.Adam(m.parameters(), amsgrad=True), "leave amsgrad out"),
        (lambda m: torch.optim.SGD(m[0].parameters(), 0.1), "does not hold the parameter 1.weight"),
        (lambda m: Mine(m.parameters(), 0.1), "the optimizer Mine cannot be captured"),
        (groups, "has 2 parameter groups"),
        (scheduled, "a scheduler or hooks"),
        (hooked, "a scheduler or hooks"),
        (used, "has made steps already"),
    ],
)
def test_what_would_train_otherwise_is_refused(make: Callable[[Any], Any], says: str) -> None:
    module = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    with pytest.raises(FactoryError, match=says):
        read_optimizer(make(module), module)


def test_frozen_parameters_need_no_optimizer() -> None:
    module = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    module[1].requires_grad_(False)
    assert read_optimizer(torch.optim.SGD(module[0].parameters(), 0.1), module) == SGD(0.1)
