"""Constants, placeholders, shapes, and everything that moves elements about (TF `array_ops.cc`).

Inputs that hold shapes, axes or bounds are read on the host, as TF's kernels do (`HostMemory`).
"""

from functools import partial
from typing import Any, NoReturn

import torch

from tracer.model.graph import Node, TensorSpec
from tracer.ops.dtypes import literal_to_tensor, torch_dtype
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError, direct
from tracer.ops.math import axes_of
from tracer.ops.variable import declared_spec

Tensor = torch.Tensor

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


def _reshape(x: Tensor, shape: Tensor) -> Tensor:
    return x.reshape(shape.tolist())


def _expand_dims(x: Tensor, dim: Tensor) -> Tensor:
    return x.unsqueeze(int(dim))


def _bind_squeeze(node: Node, _context: OpContext) -> Kernel:
    dims = node.attrs.get("squeeze_dims") or node.attrs.get("axis")
    return lambda x: x.squeeze(tuple(dims)) if dims else x.squeeze()


def _tile(x: Tensor, multiples: Tensor) -> Tensor:
    return x.tile(multiples.tolist())


def _fill(dims: Tensor, value: Tensor) -> Tensor:
    return value.expand(dims.tolist()).contiguous()


def _broadcast_to(x: Tensor, shape: Tensor) -> Tensor:
    return x.expand(shape.tolist())


def _transpose(x: Tensor, permutation: Tensor) -> Tensor:
    return x.permute(permutation.tolist())


def _range(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    return torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


def _bind_pack(node: Node, _context: OpContext) -> Kernel:
    axis = node.attrs.get("axis", 0)
    return lambda *inputs: torch.stack(inputs, axis)


def _one_or_several(parts: Any) -> Any:
    return parts[0] if len(parts) == 1 else tuple(parts)


def _bind_unpack(node: Node, _context: OpContext) -> Kernel:
    axis, num = node.attrs.get("axis", 0), _attr("num", node)

    def unpack(x: Tensor) -> Any:
        if x.shape[axis] != num:
            raise OpError(
                "INVALID_ARGUMENT",
                f"Input shape axis {axis} must equal {num}, got shape {list(x.shape)}",
            )
        return _one_or_several(x.unbind(axis))

    return unpack


def _bind_split(node: Node, _context: OpContext) -> Kernel:
    num = _attr("num_split", node)

    def split(dim: Tensor, x: Tensor) -> Any:
        size = x.shape[int(dim)]
        if size % num:
            raise OpError(
                "INVALID_ARGUMENT",
                "Number of ways to split should evenly divide the split dimension, but got "
                f"split_dim {int(dim)} (size = {size}) and num_split {num}",
            )
        return _one_or_several(x.tensor_split(num, int(dim)))

    return split


def _concat(*inputs: Tensor) -> Tensor:
    return torch.cat(inputs[:-1], int(inputs[-1]))


def _gather(params: Tensor, indices: Tensor, axis: Tensor) -> Tensor:
    (dim,) = axes_of(axis, params.dim())
    rows = torch.index_select(params, dim, indices.reshape(-1))
    return rows.reshape(*params.shape[:dim], *indices.shape, *params.shape[dim + 1 :])


def _slice(x: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    bounds = zip(begin.tolist(), size.tolist(), strict=True)
    return x[tuple(slice(b, None if n < 0 else b + n) for b, n in bounds)]


def _bind_strided_slice(node: Node, _context: OpContext) -> Kernel:
    """x[begin:end:stride, …] with TF's bit masks, one bit a term (`strided_slice_op.cc`)."""
    masks = {
        name: node.attrs.get(f"{name}_mask", 0)
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }

    def term(i: int, begin: int, end: int, stride: int) -> Any:
        bit = 1 << i
        if masks["ellipsis"] & bit:
            return ...
        if masks["new_axis"] & bit:
            return None
        if masks["shrink_axis"] & bit:
            return begin
        first = None if masks["begin"] & bit else begin
        return slice(first, None if masks["end"] & bit else end, stride)

    def strided_slice(x: Tensor, begin: Tensor, end: Tensor, strides: Tensor) -> Tensor:
        rows = zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)
        return x[tuple(term(i, *row) for i, row in enumerate(rows))]

    return strided_slice


def _bind_dynamic_partition(node: Node, _context: OpContext) -> Kernel:
    num = _attr("num_partitions", node)
    return lambda x, parts: _one_or_several([x[parts == i] for i in range(num)])


def _stitch(*inputs: Tensor) -> Tensor:
    """Rows of `data` to where `indices` say: the inverse of DynamicPartition. Later inputs win."""
    half = len(inputs) // 2
    indices = torch.cat([i.reshape(-1) for i in inputs[:half]]).long()
    shape = inputs[half].shape[inputs[0].dim() :]
    data = torch.cat([d.reshape(-1, *shape) for d in inputs[half:]])
    rows = int(indices.max()) + 1 if indices.numel() else 0
    return data.new_zeros(rows, *shape).index_copy(0, indices, data)


def _attr(name: str, node: Node) -> int:
    return int(node.attrs[name])


OPS: tuple[OpDef, ...] = (
    OpDef(
        "Const",
        _bind_const,
        infer=_const_spec,
        is_view=True,
        says="Its tensor is made once, when bound.",
    ),
    OpDef("Placeholder", _bind_placeholder, infer=_declared, says="Must be fed."),
    direct("PlaceholderWithDefault", _identity, is_view=True),
    direct("Identity", _identity, is_view=True),
    direct("StopGradient", _identity, is_view=True),
    OpDef("Shape", _bind_shape, host_outputs=(0,), is_view=True),
    OpDef("Size", _bind_size, host_outputs=(0,), is_view=True),
    direct("Rank", _rank, host_outputs=(0,), is_view=True),
    direct("Reshape", _reshape, host_inputs=(1,)),
    direct("ExpandDims", _expand_dims, host_inputs=(1,)),
    OpDef("Squeeze", _bind_squeeze),
    direct("Tile", _tile, host_inputs=(1,)),
    direct("Fill", _fill, host_inputs=(0,)),
    direct("BroadcastTo", _broadcast_to, host_inputs=(1,)),
    direct("Transpose", _transpose, host_inputs=(1,)),
    direct("Range", _range, host_inputs=(0, 1, 2), host_outputs=(0,), is_view=True),
    direct("ZerosLike", torch.zeros_like),
    direct("OnesLike", torch.ones_like),
    OpDef("Pack", _bind_pack),
    OpDef("Unpack", _bind_unpack, num_outputs=partial(_attr, "num")),
    OpDef("Split", _bind_split, num_outputs=partial(_attr, "num_split"), host_inputs=(0,)),
    direct("ConcatV2", _concat, host_inputs=(-1,)),
    direct("GatherV2", _gather, host_inputs=(2,)),
    direct("Slice", _slice, host_inputs=(1, 2)),
    OpDef("StridedSlice", _bind_strided_slice, host_inputs=(1, 2, 3)),
    OpDef(
        "DynamicPartition",
        _bind_dynamic_partition,
        num_outputs=partial(_attr, "num_partitions"),
        host_inputs=(1,),
    ),
    direct("DynamicStitch", _stitch),
    direct("ParallelDynamicStitch", _stitch),
)
