"""Optimizers as functions: what `capture_step` traces after the backward pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

State = Mapping[str, Tensor]


class Optimizer(Protocol):
    """An update rule without state: what it must remember are *slots* of each parameter."""

    def slots(self, parameter: Tensor) -> State:
        """The slots of a parameter by name, with their first values."""
        ...

    def update(self, parameter: Tensor, gradient: Tensor, slots: State) -> tuple[Tensor, State]:
        """The new parameter and its new slots, computed out of place."""
        ...


@dataclass(frozen=True, slots=True)
class SGD:
    """`p - learning_rate * g`; with momentum m first `a = m * a + g`, then `p - learning_rate * a`.

    Written in the form that the capture recognises as `ResourceApplyGradientDescent` and
    `ResourceApplyMomentum`.
    """

    learning_rate: float
    momentum: float = 0.0

    def slots(self, parameter: Tensor) -> State:
        return {"Momentum": torch.zeros_like(parameter)} if self.momentum else {}

    def update(self, parameter: Tensor, gradient: Tensor, slots: State) -> tuple[Tensor, State]:
        if not self.momentum:
            return parameter - gradient * self.learning_rate, {}
        accumulated = slots["Momentum"] * self.momentum + gradient
        return parameter - accumulated * self.learning_rate, {"Momentum": accumulated}
