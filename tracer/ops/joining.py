"""Several tensors become one, one becomes several (TF `concat_op.cc`, `split_op.cc`)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from tracer.model.graph import Node
from tracer.ops.array import PORTS, count_of, one_or_several
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError, direct
from tracer.ops.reduction import axis_of

Tensor = torch.Tensor


def _bind_pack(node: Node, _context: OpContext) -> Kernel:
    axis = node.attrs.get("axis", 0)
    return lambda *inputs: torch.stack(inputs, axis)


def _bind_unpack(node: Node, _context: OpContext) -> Kernel:
    axis, num = node.attrs.get("axis", 0), count_of("num", node)

    def unpack(x: Tensor) -> Any:
        if x.shape[axis] != num:
            raise OpError(
                "INVALID_ARGUMENT",
                f"Input shape axis {axis} must equal {num}, got shape {list(x.shape)}",
            )
        return one_or_several(x.unbind(axis))

    return unpack


def _bind_split(node: Node, _context: OpContext) -> Kernel:
    num = count_of("num_split", node)

    def split(axis: Tensor, x: Tensor) -> Any:
        dim = axis_of(axis, x.dim())
        size = x.shape[dim]
        if size % num:
            raise OpError(
                "INVALID_ARGUMENT",
                "Number of ways to split should evenly divide the split dimension, but got "
                f"split_dim {dim} (size = {size}) and num_split {num}",
            )
        return one_or_several(x.tensor_split(num, dim))

    return split


def _bind_split_v(node: Node, _context: OpContext) -> Kernel:
    num = count_of("num_split", node)

    def split(x: Tensor, sizes: Tensor, axis: Tensor) -> Any:
        dim, given = axis_of(axis, x.dim()), sizes.tolist()
        rest = x.shape[dim] - sum(size for size in given if size >= 0)
        parts = [rest if size == -1 else size for size in given]
        if len(given) != num or min(parts) < 0 or sum(parts) != x.shape[dim]:
            raise OpError(
                "INVALID_ARGUMENT",
                f"Determined shape must either match input shape along split_dim exactly if fully "
                f"specified, or be less than the size of the input along split_dim if not fully "
                f"specified.  Got: {given} for a size of {x.shape[dim]}",
            )
        return one_or_several(torch.split_with_sizes(x, parts, dim))

    return split


def _join(axis: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    if any(each.dim() != inputs[0].dim() for each in inputs):  # torch lets empty vectors be
        shapes = " vs. ".join(str(list(each.shape)) for each in inputs)
        raise OpError("INVALID_ARGUMENT", f"Ranks of all input tensors should match: {shapes}")
    return torch.cat(list(inputs), int(axis))


def _concat(axis: Tensor, *inputs: Tensor) -> Tensor:
    return _join(axis, inputs)


def _concat_v2(*inputs: Tensor) -> Tensor:
    return _join(inputs[-1], inputs[:-1])


def _concat_offset(axis: Tensor, *shapes: Tensor) -> Any:
    """Where each part begins in the whole."""
    dim, begin = axis_of(axis, shapes[0].numel()), 0
    offsets = []
    for shape in shapes:
        offset = torch.zeros_like(shape)
        offset[dim] = begin
        begin += int(shape[dim])
        offsets.append(offset)
    return one_or_several(offsets)


OPS: tuple[OpDef, ...] = (
    OpDef("Pack", _bind_pack, alike=slice(None)),
    OpDef("Unpack", _bind_unpack, num_outputs=partial(count_of, "num")),
    OpDef("Split", _bind_split, num_outputs=partial(count_of, "num_split"), host_inputs=(0,)),
    OpDef("SplitV", _bind_split_v, num_outputs=partial(count_of, "num_split"), host_inputs=(1, 2)),
    direct("Concat", _concat, alike=slice(1, None), host_inputs=(0,)),
    direct("ConcatV2", _concat_v2, alike=slice(-1), host_inputs=(-1,)),
    direct(
        "ConcatOffset",
        _concat_offset,
        num_outputs=lambda node: len(node.inputs) - 1,
        host_inputs=PORTS,
        host_outputs=PORTS,
        is_view=True,
    ),
)
