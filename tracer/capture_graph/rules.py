"""The update cones that are known as one op: a row a rule, forms as nested tuples.

    ("sub", "var", ("mul", "gradient", "learning_rate"))     is      var - gradient * learning_rate

A form is (op, operands …), a name, or a number. A name stands for one value throughout a rule:
`var` and the rule's slots for what they hold before the step, a slot with `'` for what it holds
after. Every other name takes what it meets, a traced value or a number, and then means that only:
`gradient` and `count` what has the variable's shape, the rest a number or a traced scalar.
`("1 -", name)` is the number that one minus the named one gives, but for rounding.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

_ATEN: Mapping[str, Any] = {
    "add": torch.ops.aten.add.Tensor,
    "addcmul": torch.ops.aten.addcmul.default,
    "div": torch.ops.aten.div.Tensor,
    "lerp": torch.ops.aten.lerp.Scalar,
    "mul": torch.ops.aten.mul.Tensor,
    "rsub": torch.ops.aten.rsub.Scalar,
    "sqrt": torch.ops.aten.sqrt.default,
    "sub": torch.ops.aten.sub.Tensor,
}
_SAME = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)
_TURN = torch.ops.aten.t.default
_COPY = torch.ops.aten.clone.default
_SHAPED = ("gradient", "count")

Form = Any  # a tuple, a name or a number, see above


@dataclass(frozen=True, slots=True)
class Rule:
    """`forms`: what `var` and each slot become, by name; slots in the order of the op's inputs.

    `operands` are the op's further inputs; numbers among them become constants of `dtype`, or of
    the variable's where it is empty.
    """

    op: str
    forms: Mapping[str, Form]
    operands: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = ""

    @property
    def slots(self) -> tuple[str, ...]:
        return tuple(name for name in self.forms if name != "var")


_ACCUMULATED = ("add", ("mul", "Momentum", "momentum"), "gradient")
_MOMENTUM = ("learning_rate", "gradient", "momentum")
_ROOT = ("add", ("div", ("sqrt", "Adam/v'"), ("sqrt", ("rsub", "beta2_power", 1))), "epsilon")

#: the first that fits is taken
RULES: tuple[Rule, ...] = (
    Rule(
        "ResourceApplyMomentum",
        {"var": ("sub", "var", ("mul", "Momentum'", "learning_rate")), "Momentum": _ACCUMULATED},
        _MOMENTUM,
        {"use_locking": False, "use_nesterov": False},
    ),
    Rule(
        "ResourceApplyMomentum",
        {
            "var": (
                "sub",
                "var",
                ("mul", ("add", "gradient", ("mul", "Momentum'", "momentum")), "learning_rate"),
            ),
            "Momentum": _ACCUMULATED,
        },
        _MOMENTUM,
        {"use_locking": False, "use_nesterov": True},
    ),
    Rule(
        "ResourceApplyAdam",
        {
            "var": (
                "sub",
                "var",
                (
                    "mul",
                    ("div", ("div", "Adam/m'", _ROOT), ("rsub", "beta1_power", 1)),
                    "learning_rate",
                ),
            ),
            "Adam/m": ("lerp", "Adam/m", "gradient", ("1 -", "beta1")),
            "Adam/v": (
                "addcmul",
                ("mul", "Adam/v", "beta2"),
                "gradient",
                "gradient",
                ("1 -", "beta2"),
            ),
        },
        (
            *("beta1_power", "beta2_power", "learning_rate", "beta1", "beta2", "epsilon"),
            "gradient",
        ),
        {"use_locking": False, "use_nesterov": False, "_corrected_epsilon": True},
        "float64",  # 1 - 0.999 in float32 is off by a hundred-thousandth
    ),
    Rule(
        "ResourceApplyGradientDescent",
        {"var": ("sub", "var", ("mul", "gradient", "learning_rate"))},
        ("learning_rate", "gradient"),
        {"use_locking": False},
    ),
    Rule("AssignAddVariableOp", {"var": ("add", "var", "count")}, ("count",)),
)


def plain(node: fx.Node) -> fx.Node:
    """The node behind what changes no value.

    An alias, a copy of an input, a transpose of a transpose.
    """
    while True:
        inner = node.args[0] if node.args else None
        if not isinstance(inner, fx.Node):
            return node
        if node.target in _SAME or (node.target is _COPY and inner.op == "placeholder"):
            node = inner
        elif node.target is _TURN and (turned := plain(inner)).target is _TURN:
            (node,) = turned.all_input_nodes
        else:
            return node


def fits(form: Form, found: Any, known: dict[str, Any]) -> bool:
    """Whether a traced value has a form; `known` learns what the names in it stand for."""
    if isinstance(found, fx.Node):
        found = plain(found)
    if isinstance(form, str):
        known.setdefault(form, found)
        return bool(known[form] is found or known[form] == found)
    if not isinstance(form, tuple):
        return bool(form == found)
    head, *parts = form
    if head == "1 -":
        return isinstance(found, int | float) and _is_rest(found, parts[0], known)
    if not isinstance(found, fx.Node) or found.target is not _ATEN[head]:
        return False
    given = (*found.args, *found.kwargs.values())
    return len(given) == len(parts) and all(
        fits(part, value, known) for part, value in zip(parts, given, strict=True)
    )


def _is_rest(found: float, name: str, known: dict[str, Any]) -> bool:
    taken = known.setdefault(name, 1 - found)
    return isinstance(taken, int | float) and math.isclose(found, 1 - taken)


def can_be(operand: str, found: Any, variable: fx.Node) -> bool:
    """Whether what an operand of a rule stands for has the shape that the rule's op takes there."""
    shape = found.meta["val"].shape if isinstance(found, fx.Node) else ()
    return bool(shape == (variable.meta["val"].shape if operand in _SHAPED else ()))
