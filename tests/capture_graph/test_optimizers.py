"""Update rules: what torch.optim does, in TF's ops, with the state it would keep."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.capture_graph.models import (
    Perceptron,
    assert_same_state,
    batches,
    captured_losses,
    eager_losses,
)
from tests.ops.graph_runner import GraphRunner
from tracer.capture_graph.capture import capture_step, variables_of
from tracer.capture_graph.optimizers import SGD, Adam, AdamW, Optimizer, State
from tracer.model.graph import Graph, Node

Make = Callable[..., torch.optim.Optimizer]

MOMENTUM = {"momentum_buffer": "Momentum"}
MOMENTS = {"exp_avg": "Adam/m", "exp_avg_sq": "Adam/v", "step": "Adam/step"}


def graph_of(rule: Optimizer) -> Graph:
    return capture_step(Perceptron(), functional.cross_entropy, rule, batches(6)[0]).graph


def updates(graph: Graph, op: str) -> list[Node]:
    return [node for node in graph.nodes if node.op == op and node.name.startswith("train/")]


@pytest.mark.parametrize(
    ("rule", "make", "settings", "slots"),
    [
        (SGD(0.1), torch.optim.SGD, {"lr": 0.1}, {}),
        (SGD(0.1, 0.9), torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, MOMENTUM),
        (
            SGD(0.1, 0.9, nesterov=True),
            torch.optim.SGD,
            {"lr": 0.1, "momentum": 0.9, "nesterov": True},
            MOMENTUM,
        ),
        (
            SGD(0.1, 0.9, weight_decay=0.02),
            torch.optim.SGD,
            {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.02},
            MOMENTUM,
        ),
        (Adam(0.02), torch.optim.Adam, {"lr": 0.02}, MOMENTS),
        (
            Adam(0.02, 0.8, 0.95, 1e-4, weight_decay=0.1),
            torch.optim.Adam,
            {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.1},
            MOMENTS,
        ),
        (
            AdamW(0.02, weight_decay=0.1),
            torch.optim.AdamW,
            {"lr": 0.02, "weight_decay": 0.1},
            MOMENTS,
        ),
    ],
)
def test_a_rule_trains_as_torch_does_and_keeps_the_same_state(
    rule: Optimizer, make: Make, settings: dict[str, float], slots: dict[str, str]
) -> None:
    torch.manual_seed(0)
    module, data = Perceptron(), batches(6, count=24)
    step = capture_step(module, functional.cross_entropy, rule, data[0])
    runner, optimizer = GraphRunner(step.graph), make(module.parameters(), **settings)

    got, expected = captured_losses(step, runner, data), eager_losses(module, optimizer, data)

    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    assert_same_state(runner, module, optimizer, slots)


@dataclass(frozen=True)
class Adagrad:
    """A rule of the user's own: each number of the parameter has a learning rate of its own."""

    def slots(self, parameter: Tensor) -> State:
        return {"Sum": torch.zeros_like(parameter)}

    def update(self, parameter: Tensor, gradient: Tensor, slots: State) -> tuple[Tensor, State]:
        total = slots["Sum"] + gradient * gradient
        return parameter - gradient * (0.1 / (total.sqrt() + 1e-10)), {"Sum": total}


def test_a_rate_for_each_number_of_a_parameter_is_no_known_rule_and_trains_as_torch_does() -> None:
    torch.manual_seed(0)
    module, data = Perceptron(), batches(6, count=6)
    step = capture_step(module, functional.cross_entropy, Adagrad(), data[0])
    runner, optimizer = GraphRunner(step.graph), torch.optim.Adagrad(module.parameters(), lr=0.1)

    got, expected = captured_losses(step, runner, data), eager_losses(module, optimizer, data)

    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    assert not updates(step.graph, "ResourceApplyGradientDescent")


def test_a_rate_that_is_traced_is_known_as_long_as_it_is_one_number() -> None:
    @dataclass(frozen=True)
    class Normed(SGD):
        def update(self, parameter: Tensor, gradient: Tensor, slots: State) -> tuple[Tensor, State]:
            return parameter - gradient * (0.1 / (gradient.norm() + 1)), {}

    assert len(updates(graph_of(Normed(0.1)), "ResourceApplyGradientDescent")) == 4


def test_a_number_that_is_added_to_many_is_assigned() -> None:
    @dataclass(frozen=True)
    class Drift(SGD):
        def update(self, parameter: Tensor, gradient: Tensor, slots: State) -> tuple[Tensor, State]:
            return parameter + 1, {}

    graph = graph_of(Drift(0.1))
    assert len(updates(graph, "AssignVariableOp")) == 4
    assert not updates(graph, "AssignAddVariableOp")


@pytest.mark.parametrize("beta", [0.1, 0.3, 0.7, 0.999])
def test_adam_is_known_whatever_its_betas_lose_by_rounding(beta: float) -> None:
    assert len(updates(graph_of(Adam(beta1=beta, beta2=beta)), "ResourceApplyAdam")) == 4


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_is_one_op_on_the_variable_and_its_slot(nesterov: bool) -> None:
    graph = graph_of(SGD(0.1, 0.9, nesterov))
    (weight, *others) = updates(graph, "ResourceApplyMomentum")
    assert len(others) == 3
    named = [i.node.removeprefix("train/update_fc1/weight/") for i in weight.inputs]
    assert named[:3] == ["fc1/weight", "fc1/weight/Momentum", "learning_rate"]
    assert named[4] == "momentum"
    assert weight.attrs["use_nesterov"] is nesterov
    assert not updates(graph, "AssignVariableOp")


def test_adam_is_one_op_in_tensorflows_order_of_inputs() -> None:
    graph = graph_of(Adam())
    (bias,) = (u for u in updates(graph, "ResourceApplyAdam") if u.inputs[0].node == "fc2/bias")
    names = [i.node.removeprefix("train/update_fc2/bias/") for i in bias.inputs]
    assert names[:3] == ["fc2/bias", "fc2/bias/Adam/m", "fc2/bias/Adam/v"]
    assert [graph[i.node].op for i in bias.inputs[3:5]] == ["aten.pow.Scalar"] * 2
    assert names[5:9] == ["learning_rate", "beta1", "beta2", "epsilon"]
    assert names[9].startswith("gradients/fc2/")
    assert len(updates(graph, "ResourceApplyAdam")) == 4
    assert not updates(graph, "AssignVariableOp")


def test_adam_counts_its_steps_after_it_used_the_count() -> None:
    graph = graph_of(Adam())
    (count,) = (u for u in updates(graph, "AssignAddVariableOp") if "fc1/weight" in u.name)
    assert count.inputs[0].node == "fc1/weight/Adam/step"
    assert count.control_inputs == ("fc1/weight/Adam/step/Read",)


def test_a_slot_and_all_that_updates_it_stay_beside_the_parameter() -> None:
    for rule in (SGD(0.1, 0.9), Adam(), AdamW(), SGD(0.1, weight_decay=0.1)):
        graph = graph_of(rule)
        beside = [n for n in graph.nodes if n.name.startswith("train/update_fc1/weight")]
        slots = [v for v in variables_of(graph) if v.name.startswith("fc1/weight/")]
        assert beside
        assert all(n.colocated_with == ("fc1/weight",) for n in (*beside, *slots))


def test_decay_of_the_weight_itself_is_no_known_rule_and_is_assigned() -> None:
    graph = graph_of(AdamW())
    assert len(updates(graph, "AssignVariableOp")) == 4 * 3
    assert len(updates(graph, "AssignAddVariableOp")) == 4


def test_a_parameter_the_loss_does_not_need_keeps_its_value_and_its_slots() -> None:
    class Idle(Perceptron):
        def __init__(self) -> None:
            super().__init__()
            self.idle = nn.Parameter(torch.ones(2))

    graph = capture_step(Idle(), functional.cross_entropy, Adam(), batches(6)[0]).graph
    assert "idle/Adam/m" in graph
    assert not any(name.startswith("train/update_idle") for name in graph)
