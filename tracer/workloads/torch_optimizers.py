"""A `torch.optim` optimizer as the update rule that a graph can hold, or a refusal that says why.

Read are SGD, Adam and AdamW with one group that holds what the module trains. A setting that the
rule does not have must be switched off, or the run would train otherwise than the user's code says.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from tracer.capture_graph.optimizers import SGD, Adam, AdamW, Optimizer
from tracer.workloads.factory import FactoryError

#: settings that choose how torch computes, never what
_MANNER = frozenset({"params", "foreach", "fused", "capturable", "differentiable"})
_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


@dataclass(frozen=True, slots=True)
class _Rule:
    """`settings` are those that `make` understands."""

    make: Callable[[Mapping[str, Any]], Optimizer]
    settings: frozenset[str]


def _sgd(group: Mapping[str, Any]) -> Optimizer:
    rate, momentum, decay = (float(group[name]) for name in ("lr", "momentum", "weight_decay"))
    return SGD(rate, momentum, nesterov=bool(group["nesterov"]), weight_decay=decay)


def _adam(kind: type[Adam] | type[AdamW], group: Mapping[str, Any]) -> Optimizer:
    beta1, beta2 = map(float, group["betas"])
    rate, epsilon, decay = (float(group[name]) for name in ("lr", "eps", "weight_decay"))
    return kind(rate, beta1, beta2, epsilon, weight_decay=decay)


_ADAM = frozenset({"lr", "betas", "eps", "weight_decay"})
_RULES: Mapping[type[torch.optim.Optimizer], _Rule] = {
    torch.optim.SGD: _Rule(_sgd, frozenset({"lr", "momentum", "weight_decay", "nesterov"})),
    torch.optim.Adam: _Rule(partial(_adam, Adam), _ADAM),
    torch.optim.AdamW: _Rule(partial(_adam, AdamW), _ADAM | {"decoupled_weight_decay"}),
}


def read_optimizer(given: Any, module: nn.Module) -> Optimizer:
    """`given`: an optimizer, or what makes one, such as its class. Raises FactoryError."""
    if isinstance(given, torch.optim.Optimizer):
        return _read(given, module)
    if hasattr(given, "slots") and hasattr(given, "update"):
        rule: Optimizer = given
        return rule
    made = given(list(module.parameters())) if callable(given) else None
    if not isinstance(made, torch.optim.Optimizer):
        raise FactoryError(
            f"'optimizer' is {given!r:.60}; give torch.optim.SGD(model.parameters(), lr=0.1), "
            "its class, or the like"
        )
    return _read(made, module)


def _read(optimizer: torch.optim.Optimizer, module: nn.Module) -> Optimizer:
    kind = type(optimizer)
    rule = _RULES.get(kind)
    if rule is None:
        known = ", ".join(f"torch.optim.{known.__name__}" for known in _RULES)
        raise FactoryError(
            f"the optimizer {kind.__name__} cannot be captured; {known} can, and an update rule of "
            "your own (see tracer.capture_graph.optimizers)"
        )
    if len(optimizer.param_groups) != 1:
        raise FactoryError(
            f"the optimizer has {len(optimizer.param_groups)} parameter groups; only one is "
            "captured, as every variable is updated by one rule"
        )
    _refuse_what_changes(optimizer)
    (group,) = optimizer.param_groups
    _check_parameters(group["params"], module)
    for name, value in group.items():
        if name not in rule.settings | _MANNER and value:
            raise FactoryError(
                f"{kind.__name__} with {name}={value} cannot be captured; leave {name} out "
                f"(captured are {', '.join(sorted(rule.settings))})"
            )
    return rule.make(group)


def _refuse_what_changes(optimizer: torch.optim.Optimizer) -> None:
    if optimizer.state:
        raise FactoryError("the optimizer has made steps already; give a fresh one")
    if any(getattr(optimizer, hooks, None) for hooks in _HOOKS) or hasattr(
        optimizer.step, "_wrapped_by_lr_sched"
    ):
        raise FactoryError(
            "the optimizer has a scheduler or hooks, which a captured step would not call; "
            "give it without"
        )


def _check_parameters(held: list[nn.Parameter], module: nn.Module) -> None:
    ids = {id(parameter) for parameter in held}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and id(parameter) not in ids:
            raise FactoryError(
                f"the optimizer does not hold the parameter {name}; give it model.parameters(), "
                "or freeze the others with requires_grad_(False)"
            )
