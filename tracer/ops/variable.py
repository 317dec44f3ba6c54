"""Variables: handles, reads, assignments and optimizer updates.

After TF's `resource_variable_ops.cc`, `state_ops.cc` and `training_ops.cc`.

The output of `VarHandleOp` and of the older `VariableV2` is the Variable object itself; it never
leaves its device. Every update is out of place, so that what was read before stays as it was. Where
TF's ref ops (`Assign`, `AssignAdd`, `ScatterSub` …) hand on the reference, these hand on the new
value.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from tracer.model.graph import Node, TensorSpec
from tracer.ops.dtypes import TORCH_DTYPES, dtype_name
from tracer.ops.kernel import Infer, Kernel, OpContext, OpDef, OpError, Variable, direct
from tracer.ops.shapes import of_value, of_variable

Tensor = torch.Tensor
Number = float | Tensor  # a scalar operand, as a kernel takes it


def read(variable: Variable) -> Tensor:
    """The value now. Raises OpError FAILED_PRECONDITION if nothing was ever assigned."""
    value = variable.value
    return value if value is not None else _initialized(variable, value)


def _initialized(variable: Variable, value: Tensor | None) -> Tensor:
    if value is None:
        raise OpError(
            "FAILED_PRECONDITION",
            f"Attempting to use uninitialized value {variable.name}: nothing was assigned to it in "
            "this task yet (or the task was restarted); run the graph's init target, or restore a "
            "checkpoint, before the step that reads it",
        )
    return value


def _same_shape(variable: Variable, value: Tensor, other: Tensor, what: str) -> Tensor:
    if value.shape != other.shape:
        raise OpError(
            "INVALID_ARGUMENT",
            f"variable {variable.name} has shape {list(value.shape)}, {what} has shape "
            f"{list(other.shape)}; they must be equal",
        )
    return value


def _bind_handle(node: Node, context: OpContext) -> Kernel:
    name = node.attrs.get("shared_name") or node.name
    variable = context.resources.variable(node.attrs.get("container", ""), name)
    return lambda: variable


def _handle_spec(_node: Node, _inputs: list[Any]) -> tuple[TensorSpec, ...]:
    return (TensorSpec("resource", ()),)


def declared_spec(node: Node) -> TensorSpec | None:
    """What `dtype` and `shape` of a variable or placeholder say; None if a dim is open."""
    shape = node.attrs.get("shape")
    if shape is None or any(dim is None or dim < 0 for dim in shape):
        return None
    return TensorSpec(node.attrs["dtype"], tuple(shape))


def _ref_spec(node: Node, _inputs: list[Any]) -> tuple[TensorSpec, ...]:
    spec = declared_spec(node)
    return (spec,) if spec else ()


def _is_initialized(variable: Variable) -> Tensor:
    return torch.tensor(variable.value is not None)


def _bind_assign(node: Node, _context: OpContext) -> Kernel:
    checks = bool(node.attrs.get("validate_shape", True))
    dtype = TORCH_DTYPES.get(node.attrs.get("dtype") or node.attrs.get("T", ""))

    def assign(variable: Variable, value: Tensor) -> Tensor:
        if dtype not in (None, value.dtype):
            raise OpError(
                "INVALID_ARGUMENT",
                f"variable {variable.name} has dtype {dtype_name(dtype)}, the value assigned has "
                f"dtype {str(value.dtype).removeprefix('torch.')}; they must be equal, so cast it",
            )

        def change(old: Tensor | None) -> Tensor:
            if checks and old is not None:
                _same_shape(variable, old, value, "the value assigned")
            return value

        return variable.update(change)

    return assign


def _assign_add(variable: Variable, delta: Tensor) -> Tensor:
    return variable.update(lambda value: torch.add(_initialized(variable, value), delta))


def _assign_sub(variable: Variable, delta: Tensor) -> Tensor:
    return variable.update(lambda value: torch.sub(_initialized(variable, value), delta))


def _scatter(
    write: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Callable[[Variable, Tensor, Tensor], Tensor]:
    def scatter(variable: Variable, indices: Tensor, updates: Tensor) -> Tensor:
        def change(old: Tensor | None) -> Tensor:
            value = _initialized(variable, old)
            rows = indices.reshape(-1).long()
            return write(
                value,
                rows,
                updates.expand(*indices.shape, *value.shape[1:]).reshape(-1, *value.shape[1:]),
            )

        return variable.update(change)

    return scatter


def _gather(variable: Variable, indices: Tensor) -> Tensor:
    value = read(variable)
    rows = torch.index_select(value, 0, indices.reshape(-1))
    return rows.reshape(*indices.shape, *value.shape[1:])


SCATTERS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "Add": lambda value, rows, updates: value.index_add(0, rows, updates),
    "Sub": lambda value, rows, updates: value.index_add(0, rows, updates, alpha=-1),
    "Update": lambda value, rows, updates: value.index_copy(0, rows, updates),
}


def _bind_gradient_descent(_node: Node, context: OpContext) -> Kernel:
    number = number_in(context)

    def apply(variable: Variable, alpha: Tensor, delta: Tensor) -> Tensor:
        def change(old: Tensor | None) -> Tensor:
            value = _same_shape(variable, _initialized(variable, old), delta, "its gradient")
            return _plus(value, delta, -number(alpha))

        return variable.update(change)

    return apply


def _bind_momentum(node: Node, context: OpContext) -> Kernel:
    nesterov, number = bool(node.attrs.get("use_nesterov")), number_in(context)

    def apply(
        var: Variable, slot: Variable, rate: Tensor, grad: Tensor, momentum: Tensor
    ) -> Tensor:
        def change_slot(old: Tensor | None) -> Tensor:
            accumulated = _same_shape(slot, _initialized(slot, old), grad, "the gradient")
            return torch.add(torch.mul(accumulated, momentum), grad)

        accumulated = slot.update(change_slot)
        step = _plus(grad, accumulated, number(momentum)) if nesterov else accumulated
        return var.update(lambda old: _plus(_initialized(var, old), step, -number(rate)))

    return apply


def number_in(context: OpContext) -> Callable[[Tensor], Number]:
    """How a kernel takes scalars: a GPU's stay tensors, since to read one would stop the host."""
    return torch.Tensor.item if context.torch_device.type == "cpu" else lambda operand: operand


def _plus(value: Tensor, delta: Tensor, factor: Number) -> Tensor:
    """With a plain number it is one kernel and one rounding, as in torch.optim."""
    if isinstance(factor, Tensor):
        return torch.add(value, torch.mul(delta, factor))
    return torch.add(value, delta, alpha=factor)


def _writer(
    ref: str,
    resource: str,
    bind: Callable[[Node, OpContext], Kernel],
    *,
    infer: Infer = of_variable,
    num_variables: int = 1,
    says: str = "",
) -> tuple[OpDef, OpDef]:
    """An op on a ref variable and its twin on a resource: the same kernel, no output."""
    op = OpDef(
        ref,
        bind,
        infer=infer,
        stateful=True,
        writes=True,
        num_variables=num_variables,
        says=says,
    )
    return op, replace(op, name=resource, num_outputs=0, infer=None)


def _reader(name: str, kernel: Kernel, **fields: Any) -> OpDef:
    return direct(name, kernel, stateful=True, reads=True, num_variables=1, **fields)


def _always(kernel: Kernel) -> Callable[[Node, OpContext], Kernel]:
    return lambda _node, _context: kernel


OPS: tuple[OpDef, ...] = (
    OpDef("VarHandleOp", _bind_handle, infer=_handle_spec, stateful=True, is_view=True),
    OpDef("VariableV2", _bind_handle, infer=_ref_spec, stateful=True, is_view=True),
    _reader("ReadVariableOp", read, is_view=True),
    _reader("ResourceGather", _gather),
    _reader("VarIsInitializedOp", _is_initialized, host_outputs=(0,), is_view=True),
    _reader("IsVariableInitialized", _is_initialized, host_outputs=(0,), is_view=True),
    *_writer("Assign", "AssignVariableOp", _bind_assign, infer=of_value),
    *_writer("AssignAdd", "AssignAddVariableOp", _always(_assign_add)),
    *_writer("AssignSub", "AssignSubVariableOp", _always(_assign_sub)),
    *(
        op
        for name, write in SCATTERS.items()
        for op in _writer(f"Scatter{name}", f"ResourceScatter{name}", _always(_scatter(write)))
    ),
    *_writer(
        "ApplyGradientDescent",
        "ResourceApplyGradientDescent",
        _bind_gradient_descent,
        says="v = v - alpha * delta, out of place, under the variable's lock.",
    ),
    *_writer("ApplyMomentum", "ResourceApplyMomentum", _bind_momentum, num_variables=2),
)
