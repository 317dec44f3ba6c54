"""Arithmetic, comparison, reduction and matrix product (TF `math_ops.cc`)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tracer.model.graph import Node
from tracer.ops.dtypes import torch_dtype
from tracer.ops.kernel import Kernel, OpContext, OpDef, direct
from tracer.ops.shapes import broadcast_by, matmul, reduced_by

Tensor = torch.Tensor

ELEMENTWISE: dict[str, Kernel] = {
    "Abs": torch.abs,
    "Add": torch.add,
    "AddV2": torch.add,
    "Cos": torch.cos,
    "Equal": torch.eq,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "FloorDiv": torch.floor_divide,
    "FloorMod": torch.remainder,
    "Greater": torch.gt,
    "GreaterEqual": torch.ge,
    "Less": torch.lt,
    "LessEqual": torch.le,
    "Log": torch.log,
    "LogicalAnd": torch.logical_and,
    "LogicalNot": torch.logical_not,
    "LogicalOr": torch.logical_or,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "Mul": torch.mul,
    "Neg": torch.neg,
    "NotEqual": torch.ne,
    "Pow": torch.pow,
    "RealDiv": torch.true_divide,
    "Reciprocal": torch.reciprocal,
    "Rsqrt": torch.rsqrt,
    "Select": torch.where,
    "SelectV2": torch.where,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sqrt": torch.sqrt,
    "Square": torch.square,
    "Sub": torch.sub,
    "Tanh": torch.tanh,
}


def _add_n(*inputs: Tensor) -> Tensor:
    total = inputs[0]
    for term in inputs[1:]:
        total = torch.add(total, term)
    return total


def _bind_matmul(node: Node, _context: OpContext) -> Kernel:
    match bool(node.attrs.get("transpose_a")), bool(node.attrs.get("transpose_b")):
        case False, False:
            return torch.mm
        case True, False:
            return lambda a, b: torch.mm(a.t(), b)
        case False, True:
            return lambda a, b: torch.mm(a, b.t())
    return lambda a, b: torch.mm(a.t(), b.t())


def _bind_batch_matmul(node: Node, _context: OpContext) -> Kernel:
    adjoint_a, adjoint_b = bool(node.attrs.get("adj_x")), bool(node.attrs.get("adj_y"))
    if not adjoint_a and not adjoint_b:
        return torch.matmul
    return lambda a, b: torch.matmul(a.mH if adjoint_a else a, b.mH if adjoint_b else b)


def axes_of(axis: Tensor, rank: int) -> tuple[int, ...]:
    """The dims in `axis` (a scalar or a vector), counted from the front."""
    dims = axis.tolist()
    return tuple(d % rank if rank else d for d in (dims if isinstance(dims, list) else [dims]))


def _sum(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
    return torch.sum(x, dims, keep, dtype=x.dtype)  # torch widens integers, TF does not


def _prod(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
    for dim in sorted(dims, reverse=True):
        x = torch.prod(x, dim, keep, dtype=x.dtype)
    return x


REDUCTIONS: dict[str, Callable[[Tensor, tuple[int, ...], bool], Tensor]] = {
    "All": torch.all,
    "Any": torch.any,
    "Max": torch.amax,
    "Mean": torch.mean,
    "Min": torch.amin,
    "Prod": _prod,
    "Sum": _sum,
}


def _bind_reduction(
    reduce: Callable[[Tensor, tuple[int, ...], bool], Tensor], node: Node, _context: OpContext
) -> Kernel:
    keep = bool(node.attrs.get("keep_dims", node.attrs.get("keepdims", False)))

    def reduced(x: Tensor, axis: Tensor) -> Tensor:
        dims = axes_of(axis, x.dim())
        return reduce(x, dims, keep) if dims else x  # torch takes no dims for all of them

    return reduced


def _bind_arg(find: Kernel, node: Node, _context: OpContext) -> Kernel:
    dtype = torch_dtype(node.attrs.get("output_type", "int64"))
    return lambda x, dim: find(x, int(dim)).to(dtype)


def _bind_cast(node: Node, _context: OpContext) -> Kernel:
    dtype = torch_dtype(node.attrs["DstT"])
    return lambda x: x.to(dtype)


def _reduction(name: str, reduce: Any) -> OpDef:
    infer = reduced_by(axes_of, "bool" if name in ("All", "Any") else "")
    return OpDef(name, partial(_bind_reduction, reduce), infer=infer, host_inputs=(1,))


def _div(x: Tensor, y: Tensor) -> Tensor:
    """Of integers the whole part, as C++ divides."""
    return torch.div(x, y) if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


OPS: tuple[OpDef, ...] = (
    *(direct(name, kernel, infer=broadcast_by(kernel)) for name, kernel in ELEMENTWISE.items()),
    direct("Div", _div, infer=broadcast_by(_div)),
    *(_reduction(name, reduce) for name, reduce in REDUCTIONS.items()),
    direct(
        "AddN", _add_n, infer=broadcast_by(_add_n), says="The sum of all inputs, left to right."
    ),
    OpDef("ArgMax", partial(_bind_arg, torch.argmax), host_inputs=(1,)),
    OpDef("ArgMin", partial(_bind_arg, torch.argmin), host_inputs=(1,)),
    OpDef("BatchMatMulV2", _bind_batch_matmul),
    OpDef("Cast", _bind_cast),
    OpDef("MatMul", _bind_matmul, infer=matmul),
)
