"""Arithmetic, comparison and matrix product (TF `cwise_ops.cc`, `matmul_op.cc`)."""

import torch

from tracer.model.graph import Node
from tracer.ops.dtypes import torch_dtype
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError, direct
from tracer.ops.shapes import broadcast_by, matmul

Tensor = torch.Tensor


def _div(x: Tensor, y: Tensor) -> Tensor:
    """Of integers the whole part, as C++ divides."""
    return torch.div(x, y) if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def _floor_div(x: Tensor, y: Tensor) -> Tensor:
    """Of floats the floor of the rounded quotient, where Python takes that of the exact one."""
    return torch.floor(x / y) if x.is_floating_point() else torch.floor_divide(x, y)


def _no_nan(kernel: Kernel) -> Kernel:
    """0 where `y` is 0, whatever `x` is."""

    def call(x: Tensor, y: Tensor) -> Tensor:
        return torch.where(y == 0, torch.zeros_like(x), kernel(x, y))

    return call


def _pow(x: Tensor, y: Tensor) -> Tensor:
    if not x.is_floating_point() and y.device.type != "meta" and bool((y < 0).any()):
        raise OpError("INVALID_ARGUMENT", "Integers to negative integer powers are not allowed")
    return torch.pow(x, y)


def _select(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """A vector of conditions chooses rows."""
    if condition.dim() == 1 and x.dim() > 1:
        condition = condition.reshape(-1, *[1] * (x.dim() - 1))
    return torch.where(condition, x, y)


def _xdivy(x: Tensor, y: Tensor) -> Tensor:
    """0 where `x` is 0, whatever `y` is."""
    return torch.where(x == 0, torch.zeros_like(y), torch.div(x, y))


def _sign(x: Tensor) -> Tensor:
    """NaN stays NaN."""
    return torch.where(x.isnan(), x, x.sign()) if x.is_floating_point() else x.sign()


def _shift(kernel: Kernel) -> Kernel:
    """By at most the width of a number, as TF clamps it."""

    def call(x: Tensor, y: Tensor) -> Tensor:
        shifted: Tensor = kernel(x, y.clamp(0, 8 * x.element_size() - 1))
        return shifted

    return call


def _squared_difference(x: Tensor, y: Tensor) -> Tensor:
    return torch.square(torch.sub(x, y))


def _rsqrt_grad(y: Tensor, grad: Tensor) -> Tensor:
    return grad * -0.5 * y * y * y


def _sqrt_grad(y: Tensor, grad: Tensor) -> Tensor:
    return grad * 0.5 / y


def _reciprocal_grad(y: Tensor, grad: Tensor) -> Tensor:
    return -grad * y * y


def _clip(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(x, low), high)


ELEMENTWISE: dict[str, Kernel] = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Add": torch.add,
    "AddV2": torch.add,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atan2": torch.atan2,
    "Atanh": torch.atanh,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
    "Ceil": torch.ceil,
    "ClipByValue": _clip,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Digamma": torch.digamma,
    "Div": _div,
    "DivNoNan": _no_nan(torch.div),
    "Equal": torch.eq,
    "Erf": torch.erf,
    "Erfc": torch.erfc,
    "Erfinv": torch.erfinv,
    "Exp": torch.exp,
    "Expm1": torch.expm1,
    "Floor": torch.floor,
    "FloorDiv": _floor_div,
    "FloorMod": torch.remainder,
    "Greater": torch.gt,
    "GreaterEqual": torch.ge,
    "Inv": torch.reciprocal,
    "InvGrad": _reciprocal_grad,
    "Invert": torch.bitwise_not,
    "IsFinite": torch.isfinite,
    "IsInf": torch.isinf,
    "IsNan": torch.isnan,
    "LeftShift": _shift(torch.bitwise_left_shift),
    "Less": torch.lt,
    "LessEqual": torch.le,
    "Lgamma": torch.lgamma,
    "Log": torch.log,
    "Log1p": torch.log1p,
    "LogicalAnd": torch.logical_and,
    "LogicalNot": torch.logical_not,
    "LogicalOr": torch.logical_or,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "Mod": torch.fmod,
    "Mul": torch.mul,
    "MulNoNan": _no_nan(torch.mul),
    "Neg": torch.neg,
    "NotEqual": torch.ne,
    "Pow": _pow,
    "RealDiv": torch.true_divide,
    "Reciprocal": torch.reciprocal,
    "ReciprocalGrad": _reciprocal_grad,
    "RightShift": _shift(torch.bitwise_right_shift),
    "Rint": torch.round,
    "Round": torch.round,
    "Rsqrt": torch.rsqrt,
    "RsqrtGrad": _rsqrt_grad,
    "Select": _select,
    "SelectV2": torch.where,
    "Sigmoid": torch.sigmoid,
    "Sign": _sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Sqrt": torch.sqrt,
    "SqrtGrad": _sqrt_grad,
    "Square": torch.square,
    "SquaredDifference": _squared_difference,
    "Sub": torch.sub,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
    "TruncateDiv": _div,
    "TruncateMod": torch.fmod,
    "Xdivy": _xdivy,
    "Xlog1py": torch.special.xlog1py,
    "Xlogy": torch.xlogy,
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

    def batch_matmul(x: Tensor, y: Tensor) -> Tensor:
        a, b = x.mH if adjoint_a else x, y.mH if adjoint_b else y
        try:
            return torch.matmul(a, b)
        except RuntimeError as error:
            shapes = [f"[{','.join(map(str, each.shape))}]" for each in (x, y)]
            says = "In[0] and In[1] must have compatible batch dimensions: {} vs. {}"
            if a.shape[-1] != b.shape[-2]:
                says = "Matrix size-incompatible: In[0]: {}, In[1]: {}"
            raise OpError("INVALID_ARGUMENT", says.format(*shapes)) from error

    return batch_matmul


def _bind_cast(node: Node, _context: OpContext) -> Kernel:
    dtype = torch_dtype(node.attrs["DstT"])
    return lambda x: x.to(dtype)


def _bind_approximate_equal(node: Node, _context: OpContext) -> Kernel:
    tolerance = float(node.attrs.get("tolerance", 1e-5))
    return lambda x, y: torch.abs(x - y) < tolerance


def _bind_linspace(_node: Node, _context: OpContext) -> Kernel:
    def linspace(start: Tensor, stop: Tensor, num: Tensor) -> Tensor:
        if int(num) <= 0:
            raise OpError("INVALID_ARGUMENT", f"Requires num > 0: {int(num)}")
        return torch.linspace(start.item(), stop.item(), int(num), dtype=start.dtype)

    return linspace


def _range(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    return torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


OPS: tuple[OpDef, ...] = (
    *(
        direct(
            name,
            kernel,
            infer=broadcast_by(kernel),
            alike=slice(1, None) if name.startswith("Select") else slice(None),
        )
        for name, kernel in ELEMENTWISE.items()
    ),
    direct(
        "AddN",
        _add_n,
        infer=broadcast_by(_add_n),
        alike=slice(None),
        says="The sum of all inputs, left to right.",
    ),
    OpDef("ApproximateEqual", _bind_approximate_equal, alike=slice(None)),
    *(
        OpDef(name, _bind_batch_matmul, alike=slice(None))
        for name in ("BatchMatMul", "BatchMatMulV2")
    ),
    OpDef("Cast", _bind_cast),
    OpDef(
        "LinSpace",
        _bind_linspace,
        alike=slice(2),
        host_inputs=(0, 1, 2),
        host_outputs=(0,),
        is_view=True,
    ),
    OpDef("MatMul", _bind_matmul, infer=matmul, alike=slice(None)),
    direct(
        "Range", _range, alike=slice(None), host_inputs=(0, 1, 2), host_outputs=(0,), is_view=True
    ),
)
