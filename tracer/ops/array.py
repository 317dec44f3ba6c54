"""Constants, placeholders, shapes, and what lays whole tensors out anew (TF `array_ops.cc`).

Inputs that hold shapes, axes or bounds are read on the host, as TF's kernels do (`HostMemory`).
"""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch.nn import functional

from tracer.model.graph import Node, TensorSpec
from tracer.ops.dtypes import literal_to_tensor, torch_dtype
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError, direct
from tracer.ops.reduction import axes_of
from tracer.ops.variable import declared_spec

Tensor = torch.Tensor

#: all ports of an op that takes or gives a list
PORTS = tuple(range(64))

#: TF's C++ enum names, as its messages print them
_ENUM_NAMES = {"float32": "float", "float64": "double", "float16": "half"}


def _bind_const(node: Node, context: OpContext) -> Kernel:
    """Strings stay the literal they are: torch has no tensors of them."""
    literal = node.attrs["value"]
    if literal.dtype == "string":
        return lambda: literal
    value = literal_to_tensor(literal).to(context.torch_device)
    return lambda: value


def _const_spec(node: Node, _inputs: list[Any]) -> tuple[TensorSpec, ...]:
    literal = node.attrs["value"]
    return (TensorSpec(literal.dtype, literal.shape),)


def _bind_placeholder(node: Node, _context: OpContext) -> Kernel:
    dtype = node.attrs["dtype"]
    shape = node.attrs.get("shape")
    of_shape = "" if shape is None else f" and shape [{','.join(map(str, shape))}]"
    message = (
        f"You must feed a value for placeholder tensor '{node.name}' with dtype "
        f"{_ENUM_NAMES.get(dtype, dtype)}{of_shape}"
    )

    def unfed() -> NoReturn:
        raise OpError("INVALID_ARGUMENT", message)

    return unfed


def _declared(node: Node, _inputs: list[Any]) -> tuple[TensorSpec, ...]:
    spec = declared_spec(node)
    return (spec,) if spec else ()


def _identity(x: Any) -> Any:
    return x


def _bind_shape(node: Node, _context: OpContext) -> Kernel:
    dtype = torch_dtype(node.attrs.get("out_type", "int32"))
    return lambda x: torch.tensor(x.shape, dtype=dtype)


def _bind_size(node: Node, _context: OpContext) -> Kernel:
    dtype = torch_dtype(node.attrs.get("out_type", "int32"))
    return lambda x: torch.tensor(x.numel(), dtype=dtype)


def _rank(x: Tensor) -> Tensor:
    return torch.tensor(x.dim(), dtype=torch.int32)


def _several_identities(*inputs: Any) -> Any:
    return one_or_several(inputs)


def _bind_shape_n(node: Node, _context: OpContext) -> Kernel:
    dtype = torch_dtype(node.attrs.get("out_type", "int32"))
    return lambda *inputs: one_or_several([torch.tensor(x.shape, dtype=dtype) for x in inputs])


def _reshape(x: Tensor, shape: Tensor) -> Tensor:
    return x.reshape(shape.tolist())


def _expand_dims(x: Tensor, dim: Tensor) -> Tensor:
    return x.unsqueeze(int(dim))


def _bind_squeeze(node: Node, _context: OpContext) -> Kernel:
    dims = tuple(node.attrs.get("squeeze_dims") or node.attrs.get("axis") or ())

    def squeeze(x: Tensor) -> Tensor:
        if wide := [dim for dim in dims if x.shape[dim] != 1]:
            raise OpError(
                "INVALID_ARGUMENT",
                f"Can not squeeze dim[{wide[0] % x.dim()}], expected a dimension of 1, got "
                f"{x.shape[wide[0]]}",
            )
        return x.squeeze(dims) if dims else x.squeeze()

    return squeeze


def _tile(x: Tensor, multiples: Tensor) -> Tensor:
    if multiples.numel() != x.dim():
        raise OpError(
            "INVALID_ARGUMENT",
            f"Expected multiples argument to be a vector of length {x.dim()} but got length "
            f"{multiples.numel()}",
        )
    return x.tile(multiples.tolist())


def _fill(dims: Tensor, value: Tensor) -> Tensor:
    return value.expand(dims.tolist()).contiguous()


def _broadcast_to(x: Tensor, shape: Tensor) -> Tensor:
    sizes = shape.tolist()
    if any(size < 0 for size in sizes):  # torch would take -1 for "as it is"
        raise OpError("INVALID_ARGUMENT", f"Dimension {min(sizes)} must be >= 0")
    return x.expand(sizes)


def _broadcast(*shapes: Tensor) -> tuple[int, ...]:
    return np.broadcast_shapes(*(tuple(shape.tolist()) for shape in shapes))


def _broadcast_args(*shapes: Tensor) -> Tensor:
    sizes = _broadcast(*shapes)
    return torch.tensor(sizes, dtype=shapes[0].dtype)


def _broadcast_gradient_args(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The axes along which the gradient of each operand of a broadcast is summed."""
    sizes = _broadcast(a, b)
    same = a.tolist() == b.tolist()

    def axes(shape: Tensor) -> Tensor:
        own = [1] * (len(sizes) - shape.numel()) + shape.tolist()
        found = [] if same else [dim for dim, size in enumerate(own) if size == 1]
        return torch.tensor(found, dtype=shape.dtype)

    return axes(a), axes(b)


def _transpose(x: Tensor, permutation: Tensor) -> Tensor:
    return x.permute(permutation.tolist())


def one_or_several(parts: Sequence[Any]) -> Any:
    """As a kernel hands on what it has one or more of."""
    return parts[0] if len(parts) == 1 else tuple(parts)


def _pad_v2(x: Tensor, paddings: Tensor, value: Tensor) -> Tensor:
    pairs = paddings.tolist()
    if len(pairs) != x.dim() or any(n < 0 for pair in pairs for n in pair):
        raise OpError(
            "INVALID_ARGUMENT",
            f"paddings must hold a pair of numbers >= 0 for each of {x.dim()} dimensions, not "
            f"{pairs}",
        )
    flat = [n for pair in reversed(pairs) for n in pair]
    return functional.pad(x, flat, value=value.item()) if flat else x


_ZERO = torch.tensor(0)


def _pad(x: Tensor, paddings: Tensor) -> Tensor:
    return _pad_v2(x, paddings, _ZERO)


def _bind_mirror_pad(node: Node, _context: OpContext) -> Kernel:
    """REFLECT leaves the border element out of the mirror, SYMMETRIC repeats it."""
    skipped = int(node.attrs["mode"] == "REFLECT")

    def mirror_pad(x: Tensor, paddings: Tensor) -> Tensor:
        for dim, (before, after) in enumerate(paddings.tolist()):
            size = x.shape[dim]
            if not (0 <= before <= size - skipped and 0 <= after <= size - skipped):
                raise OpError(
                    "INVALID_ARGUMENT",
                    f"paddings must be no greater than the dimension size: {before}, {after} "
                    f"greater than {size - skipped}",
                )
            inner = torch.arange(size, device=x.device)
            left = inner[skipped : skipped + before].flip(0)
            right = inner[size - skipped - after : size - skipped].flip(0)
            x = x.index_select(dim, torch.cat([left, inner, right]))
        return x

    return mirror_pad


def _reverse(x: Tensor, axis: Tensor) -> Tensor:
    return x.flip(axes_of(axis, x.dim()))


def _roll(x: Tensor, shift: Tensor, axis: Tensor) -> Tensor:
    """Shifts along one axis add up."""
    for by, dim in zip(shift.reshape(-1).tolist(), axis.reshape(-1).tolist(), strict=True):
        x = x.roll(by, dim)
    return x


def _diag(diagonal: Tensor) -> Tensor:
    return diagonal.reshape(-1).diag().reshape(*diagonal.shape, *diagonal.shape)


def _diag_part(x: Tensor) -> Tensor:
    shape = x.shape[: x.dim() // 2]
    return x.reshape(shape.numel(), -1).diagonal().reshape(shape)


def _matrix_diag_part(x: Tensor) -> Tensor:
    return x.diagonal(dim1=-2, dim2=-1)


def _band_part(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Zeros outside a band around the diagonal; a negative width keeps that whole half."""
    low, high = int(lower), int(upper)
    x = x if low < 0 else x.triu(-low)
    return x if high < 0 else x.tril(high)


def _bind_bitcast(node: Node, _context: OpContext) -> Kernel:
    dtype = torch_dtype(node.attrs["type"])

    def bitcast(x: Tensor) -> Tensor:
        wide, narrow = dtype.itemsize, x.element_size()
        if wide < narrow:
            return x.contiguous().unsqueeze(-1).view(dtype)
        return x.view(dtype) if wide == narrow else x.contiguous().view(dtype).squeeze(-1)

    return bitcast


def count_of(name: str, node: Node) -> int:
    """A number of outputs, as an attribute says it."""
    return int(node.attrs[name])


def _num_inputs(node: Node) -> int:
    return len(node.inputs)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "Const",
        _bind_const,
        infer=_const_spec,
        is_view=True,
        says="Its tensor is made once, when bound.",
    ),
    OpDef("Placeholder", _bind_placeholder, infer=_declared, says="Must be fed."),
    *(
        direct(name, _identity, is_view=True)
        for name in ("Identity", "PlaceholderWithDefault", "PreventGradient", "Snapshot")
    ),
    direct("StopGradient", _identity, is_view=True),
    direct("IdentityN", _several_identities, num_outputs=_num_inputs, is_view=True),
    OpDef("Shape", _bind_shape, host_outputs=(0,), is_view=True),
    OpDef("ShapeN", _bind_shape_n, num_outputs=_num_inputs, host_outputs=PORTS, is_view=True),
    OpDef("Size", _bind_size, host_outputs=(0,), is_view=True),
    direct("Rank", _rank, host_outputs=(0,), is_view=True),
    direct("Reshape", _reshape, host_inputs=(1,)),
    direct("ExpandDims", _expand_dims, host_inputs=(1,)),
    OpDef("Squeeze", _bind_squeeze),
    direct("Tile", _tile, host_inputs=(1,)),
    direct("Fill", _fill, host_inputs=(0,)),
    direct("BroadcastTo", _broadcast_to, host_inputs=(1,)),
    direct("BroadcastArgs", _broadcast_args, host_inputs=PORTS, host_outputs=(0,), is_view=True),
    direct(
        "BroadcastGradientArgs",
        _broadcast_gradient_args,
        num_outputs=2,
        host_inputs=PORTS,
        host_outputs=(0, 1),
        is_view=True,
    ),
    direct("Transpose", _transpose, host_inputs=(1,)),
    direct("ZerosLike", torch.zeros_like),
    direct("OnesLike", torch.ones_like),
    direct("Pad", _pad, host_inputs=(1,)),
    direct("PadV2", _pad_v2, alike=slice(0, 3, 2), host_inputs=(1, 2)),
    OpDef("MirrorPad", _bind_mirror_pad, host_inputs=(1,)),
    direct("ReverseV2", _reverse, host_inputs=(1,)),
    direct("Roll", _roll, host_inputs=(1, 2)),
    direct("Diag", _diag),
    direct("DiagPart", _diag_part),
    direct("MatrixDiag", torch.diag_embed),
    direct("MatrixDiagPart", _matrix_diag_part),
    direct("MatrixBandPart", _band_part, host_inputs=(1, 2)),
    OpDef("Bitcast", _bind_bitcast, is_view=True),
)
