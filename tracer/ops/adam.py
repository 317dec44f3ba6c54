"""Adam as one op on a variable and its two moments (TF `training_ops.cc`).

Inputs as TF orders them: var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad. TF
adds epsilon to the root of `v`; torch (and the paper's first form) to the root of the
bias-corrected `v`. A node with `_corrected_epsilon` means the latter.
"""

import torch

from tracer.model.graph import Node
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError, Variable
from tracer.ops.shapes import of_variable
from tracer.ops.variable import Number, number_in, read

Tensor = torch.Tensor


def _bind_adam(node: Node, context: OpContext) -> Kernel:
    is_corrected = bool(node.attrs.get("_corrected_epsilon"))
    nesterov = bool(node.attrs.get("use_nesterov"))
    number = number_in(context)

    def apply(var: Variable, m: Variable, v: Variable, *operands: Tensor) -> Tensor:
        gradient = operands[6]
        power1, power2, rate, beta1, beta2, epsilon = map(number, operands[:6])
        correction = (1 - power2) ** 0.5

        def change(_old: Tensor | None) -> Tensor:
            value, mean, square = (_like(gradient, variable) for variable in (var, m, v))
            moved = m.update(lambda _: _between(mean, gradient, 1 - beta1))
            root = v.update(lambda _: _decayed_square(square, gradient, beta2)).sqrt()
            step = moved * beta1 + gradient * (1 - beta1) if nesterov else moved
            if is_corrected:
                return _moved(value, step, root / correction + epsilon, rate / (1 - power1))
            return _moved(value, step, root + epsilon, rate * correction / (1 - power1))

        return var.update(change)

    return apply


def _like(gradient: Tensor, variable: Variable) -> Tensor:
    """The variable's value. Raises OpError if it has none, or another shape than the gradient."""
    value = read(variable)
    if value.shape != gradient.shape:
        raise OpError(
            "INVALID_ARGUMENT",
            f"variable {variable.name} has shape {list(value.shape)}, the gradient has shape "
            f"{list(gradient.shape)}; they must be equal",
        )
    return value


def _between(value: Tensor, other: Tensor, weight: Number) -> Tensor:
    if isinstance(weight, Tensor):
        return value + (other - value) * weight
    return torch.lerp(value, other, weight)


def _decayed_square(value: Tensor, gradient: Tensor, beta: Number) -> Tensor:
    if isinstance(beta, Tensor):
        return value * beta + gradient * gradient * (1 - beta)
    return torch.addcmul(value * beta, gradient, gradient, value=1 - beta)


def _moved(value: Tensor, step: Tensor, root: Tensor, rate: Number) -> Tensor:
    if isinstance(rate, Tensor):
        return value - step / root * rate
    return torch.addcdiv(value, step, root, value=-rate)


def _adam(name: str, num_outputs: int) -> OpDef:
    return OpDef(
        name,
        _bind_adam,
        num_outputs=num_outputs,
        infer=of_variable if num_outputs else None,
        stateful=True,
        writes=True,
        num_variables=3,
        says="m, v and var change together, out of place, under var's lock.",
    )


OPS: tuple[OpDef, ...] = (_adam("ApplyAdam", 1), _adam("ResourceApplyAdam", 0))
