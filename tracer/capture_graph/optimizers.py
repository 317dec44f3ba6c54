"""Optimizers as functions: what `capture_step` traces after the backward pass.

The settings and their order are torch's, and so is what comes out, slots included. Each is written
in the form that `tracer.capture_graph.rules` knows as one op on the variable.
"""

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

    `nesterov` steps by `g + m * a`; `weight_decay` adds that part of p to g.
    """

    learning_rate: float
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def slots(self, parameter: Tensor) -> State:
        return {"Momentum": torch.zeros_like(parameter)} if self.momentum else {}

    def update(self, parameter: Tensor, gradient: Tensor, slots: State) -> tuple[Tensor, State]:
        if self.weight_decay:
            gradient = gradient + parameter * self.weight_decay
        if not self.momentum:
            return parameter - gradient * self.learning_rate, {}
        accumulated = slots["Momentum"] * self.momentum + gradient
        step = gradient + accumulated * self.momentum if self.nesterov else accumulated
        return parameter - step * self.learning_rate, {"Momentum": accumulated}


@dataclass(frozen=True, slots=True)
class Adam:
    """Steps by the mean gradient over the root of its mean square, both running and unbiased.

    Slots: `Adam/m`, `Adam/v` (torch's `exp_avg`, `exp_avg_sq`) and `Adam/step`, the count of steps.
    `weight_decay` adds that part of p to g.
    """

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def slots(self, parameter: Tensor) -> State:
        mean, square = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return {"Adam/m": mean, "Adam/v": square, "Adam/step": torch.zeros(())}

    def update(self, parameter: Tensor, gradient: Tensor, slots: State) -> tuple[Tensor, State]:
        if self.weight_decay:
            gradient = gradient + parameter * self.weight_decay
        step, new = self._step(gradient, slots)
        return parameter - step * self.learning_rate, new

    def _step(self, gradient: Tensor, slots: State) -> tuple[Tensor, State]:
        """Powers are float64, as torch takes them: near 1 a float32 says little of `1 - power`."""
        count = slots["Adam/step"] + 1
        mean = torch.lerp(slots["Adam/m"], gradient, 1 - self.beta1)
        square = torch.addcmul(
            slots["Adam/v"] * self.beta2, gradient, gradient, value=1 - self.beta2
        )
        power1, power2 = (torch.pow(beta, count.double()) for beta in (self.beta1, self.beta2))
        root = square.sqrt() / (1 - power2).sqrt() + self.epsilon
        new = {"Adam/m": mean, "Adam/v": square, "Adam/step": count}
        return mean / root / (1 - power1), new


@dataclass(frozen=True, slots=True)
class AdamW:
    """Adam with the decay taken from p itself: `p * (1 - learning_rate * weight_decay) - …`."""

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 1e-2

    def slots(self, parameter: Tensor) -> State:
        return Adam().slots(parameter)

    def update(self, parameter: Tensor, gradient: Tensor, slots: State) -> tuple[Tensor, State]:
        adam = Adam(self.learning_rate, self.beta1, self.beta2, self.epsilon)
        kept = parameter * (1 - self.learning_rate * self.weight_decay)
        return adam.update(kept, gradient, slots)
