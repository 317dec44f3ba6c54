"""A mirrored or centrally stored model takes the very steps that one replica takes alone."""

from itertools import product

import pytest
import torch

from tests.strategies.loss_curve import STEPS, VARIABLES, curve, perceptron
from tests.training.trained import Run, trained

#: bytes of the variables of the perceptron
S_BYTES = 4 * (64 * 32 + 32 + 32 * 10 + 10)


def run(strategy: str, replicas: int, momentum: float = 0.0, **options: str) -> Run:
    devices = tuple(f"cpu:{number}" for number in range(replicas))
    return trained(perceptron(momentum), strategy, STEPS, devices=devices, options=options)


@pytest.mark.parametrize(
    ("strategy", "replicas", "momentum"),
    [
        *product(["mirrored"], [1, 2, 3, 4], [0.0, 0.9]),
        *product(["central_storage"], [2, 3], [0.0, 0.9]),
    ],
)
def test_losses_are_those_of_tensorflow(strategy: str, replicas: int, momentum: float) -> None:
    losses = run(strategy, replicas, momentum).fitted.losses
    assert losses == pytest.approx(curve(momentum, 1), abs=2e-6)
    assert losses == pytest.approx(curve(momentum, replicas), abs=2e-6)


@pytest.mark.parametrize("cross_device_ops", ["reduce_to_one", "hierarchical_copy"])
def test_copies_stay_equal_bit_by_bit(cross_device_ops: str) -> None:
    variables = run("mirrored", 3, 0.9, cross_device_ops=cross_device_ops).variables
    for name in VARIABLES:
        for replica in (1, 2):
            assert torch.equal(variables[name], variables[f"{name}/replica_{replica}"])
