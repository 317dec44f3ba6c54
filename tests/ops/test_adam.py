"""Adam as one op: TensorFlow's formula and torch's, all three variables or none."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.ops.graph_runner import PlainVariable, context
from tracer.model.graph import Node
from tracer.ops.kernel import OpError
from tracer.ops.registry import lookup

W = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
G = torch.tensor([[0.5, 1.0], [2.0, 0.0], [1.0, 1.0]])


def variable(value: Tensor | None = W) -> PlainVariable:
    made = PlainVariable("w")
    made.value = value
    return made


def run(*inputs: Any, **attrs: Any) -> Any:
    node = Node("n", "ResourceApplyAdam", attrs=attrs)
    return lookup(node.op).bind(node, context())(*inputs)


ADAM = (0.9**3, 0.999**3, 0.01, 0.9, 0.999, 1e-3)  # powers, rate, betas, epsilon


def moments() -> tuple[PlainVariable, PlainVariable, PlainVariable]:
    return variable(), variable(torch.full_like(W, 0.2)), variable(torch.full_like(W, 0.04))


def operands() -> list[Tensor]:
    return [torch.tensor(number, dtype=torch.float64) for number in ADAM]


@pytest.mark.parametrize("nesterov", [False, True])
def test_adam_is_tensorflows_formula(nesterov: bool) -> None:
    weight, m, v = moments()
    run(weight, m, v, *operands(), G, use_nesterov=nesterov)
    power1, power2, rate, beta1, beta2, epsilon = ADAM
    mean, square = 0.2 * beta1 + G * (1 - beta1), 0.04 * beta2 + G * G * (1 - beta2)
    step = mean * beta1 + G * (1 - beta1) if nesterov else mean
    corrected = rate * (1 - power2) ** 0.5 / (1 - power1)
    torch.testing.assert_close(m.value, mean)
    torch.testing.assert_close(v.value, square)
    torch.testing.assert_close(weight.value, W - corrected * step / (square.sqrt() + epsilon))
    assert (weight.version, m.version, v.version) == (1, 1, 1)


@pytest.mark.parametrize("corrected", [False, True])
def test_where_scalars_stay_tensors_adam_is_the_same(corrected: bool) -> None:
    on_host, elsewhere = moments(), moments()
    node = Node("n", "ResourceApplyAdam", attrs={"_corrected_epsilon": corrected})
    gpu = replace(context(), torch_device=torch.device("cuda"))
    lookup(node.op).bind(node, context())(*on_host, *operands(), G)
    lookup(node.op).bind(node, gpu)(*elsewhere, *operands(), G)
    for one, other in zip(on_host, elsewhere, strict=True):
        torch.testing.assert_close(one.value, other.value)
        assert other.value is not None
        assert other.value.dtype == torch.float32


def test_adam_names_the_moment_that_has_no_value_yet() -> None:
    weight, m, _ = moments()
    with pytest.raises(OpError, match="uninitialized value w"):
        run(weight, m, variable(None), *operands(), G)
    assert weight.version == m.version == 0


def test_adam_refuses_a_gradient_of_another_shape() -> None:
    with pytest.raises(OpError, match=r"shape \[3, 2\], the gradient has shape \[1, 2\]"):
        run(*moments(), *operands(), G[:1])


numbers = st.floats(-1e3, 1e3, width=32)
betas = st.floats(0.1, 0.999)


@given(
    st.lists(st.lists(numbers, min_size=6, max_size=6), min_size=1, max_size=4),
    st.floats(1e-4, 1.0),
    *(betas, betas),
    st.floats(1e-8, 1e-2),
)
def test_with_a_corrected_epsilon_it_is_torchs_adam_bit_for_bit(
    gradients: list[list[float]], rate: float, beta1: float, beta2: float, epsilon: float
) -> None:
    leaf = torch.nn.Parameter(W.clone())
    reference = torch.optim.Adam([leaf], rate, (beta1, beta2), epsilon)
    ours = variable(W), variable(torch.zeros_like(W)), variable(torch.zeros_like(W))
    for step, gradient in enumerate(gradients, 1):
        g = torch.tensor(gradient).reshape(W.shape)
        scalars = (beta1**step, beta2**step, rate, beta1, beta2, epsilon)
        given = [torch.tensor(number, dtype=torch.float64) for number in scalars]
        run(*ours, *given, g, _corrected_epsilon=True)
        leaf.grad = g.clone()
        reference.step()
    kept = reference.state[leaf]
    expected = (leaf.detach(), kept["exp_avg"], kept["exp_avg_sq"])
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one.value, other, rtol=0, atol=0)
