"""What is computed along axes: reductions, running sums, orders, segments (TF `reduction_ops`)."""

import math
from collections.abc import Callable
from functools import partial

import torch

from tracer.model.graph import Node
from tracer.ops.dtypes import torch_dtype
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError, direct
from tracer.ops.shapes import reduced_by

Tensor = torch.Tensor


def axes_of(axis: Tensor, rank: int) -> tuple[int, ...]:
    """The dims in `axis` (a scalar or a vector), counted from the front.

    Raises OpError for one that is not there, or is there twice.
    """
    dims = axis.tolist()
    given = dims if isinstance(dims, list) else [dims]
    if wrong := [dim for dim in given if not -rank <= dim < rank]:
        raise OpError(
            "INVALID_ARGUMENT",
            f"Invalid reduction dimension ({wrong[0]} for input with {rank} dimension(s))",
        )
    found = tuple(dim % rank for dim in given)
    if len(set(found)) < len(found):
        twice = next(dim for dim in found if found.count(dim) > 1)
        raise OpError(
            "INVALID_ARGUMENT",
            f"Invalid reduction arguments: Axes contains duplicate dimension: {twice}",
        )
    return found


def axis_of(axis: Tensor, rank: int) -> int:
    """The one dim in `axis`. Raises OpError."""
    (dim,) = axes_of(axis, rank)
    return dim


Reduce = Callable[[Tensor, tuple[int, ...], bool], Tensor]


def _sum(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
    return torch.sum(x, dims, keep, dtype=x.dtype)  # torch widens integers, TF does not


def _prod(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
    for dim in sorted(dims, reverse=True):
        x = torch.prod(x, dim, keep, dtype=x.dtype)
    return x


def _mean(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
    """Of integers the whole part."""
    if x.is_floating_point():
        return torch.mean(x, dims, keep)
    count = math.prod(x.shape[dim] for dim in dims)
    return torch.div(_sum(x, dims, keep), count, rounding_mode="trunc")


def _extreme(reduce: Reduce, least: bool) -> Reduce:
    """Of nothing, the extreme of the dtype; torch refuses to say."""

    def call(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
        if x.numel():
            return reduce(x, dims, keep)
        return _sum(x, dims, keep).fill_(_bound(x.dtype, least))

    return call


def _bound(dtype: torch.dtype, least: bool) -> float:
    if dtype.is_floating_point:
        return float("-inf") if least else float("inf")
    info = torch.iinfo(dtype)
    return info.min if least else info.max


def _euclidean_norm(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
    return torch.sqrt(_sum(x * x, dims, keep)).to(x.dtype)


REDUCTIONS: dict[str, Reduce] = {
    "All": torch.all,
    "Any": torch.any,
    "EuclideanNorm": _euclidean_norm,
    "Max": _extreme(torch.amax, least=True),
    "Mean": _mean,
    "Min": _extreme(torch.amin, least=False),
    "Prod": _prod,
    "Sum": _sum,
}


def _bind_reduction(reduce: Reduce, node: Node, _context: OpContext) -> Kernel:
    keep = bool(node.attrs.get("keep_dims", node.attrs.get("keepdims", False)))

    def reduced(x: Tensor, axis: Tensor) -> Tensor:
        dims = axes_of(axis, x.dim())
        return reduce(x, dims, keep) if dims else x  # torch takes no dims for all of them

    return reduced


def _reduction(name: str, reduce: Reduce) -> OpDef:
    infer = reduced_by(axes_of, "bool" if name in ("All", "Any") else "")
    return OpDef(name, partial(_bind_reduction, reduce), infer=infer, host_inputs=(1,))


def _bind_arg(find: Kernel, node: Node, _context: OpContext) -> Kernel:
    dtype = torch_dtype(node.attrs.get("output_type", "int64"))
    return lambda x, dim: find(x, int(dim)).to(dtype)


def _bind_scan(scan: Kernel, neutral: int, node: Node, _context: OpContext) -> Kernel:
    exclusive, reverse = bool(node.attrs.get("exclusive")), bool(node.attrs.get("reverse"))

    def cumulate(x: Tensor, axis: Tensor) -> Tensor:
        if not x.dim():
            raise OpError("INVALID_ARGUMENT", "ScanOp: Expected scan axis in the range [0, 0)")
        dim = axis_of(axis, x.dim())
        x = x.flip(dim) if reverse else x
        if exclusive and x.shape[dim]:
            first = torch.full_like(x.narrow(dim, 0, 1), neutral)
            x = torch.cat([first, x.narrow(dim, 0, x.shape[dim] - 1)], dim)
        made: Tensor = scan(x, dim, dtype=x.dtype)
        return made.flip(dim) if reverse else made

    return cumulate


def _bind_top_k(node: Node, _context: OpContext) -> Kernel:
    """The largest, and of equal ones the first first."""
    dtype = torch_dtype(node.attrs.get("index_type", "int32"))

    def top_k(x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        if not x.dim() or x.shape[-1] < int(k):
            raise OpError(
                "INVALID_ARGUMENT",
                f"input must have at least k columns: {list(x.shape)} has less than {int(k)}",
            )
        values, indices = torch.sort(x, dim=-1, descending=True, stable=True)
        return values[..., : int(k)], indices[..., : int(k)].to(dtype)

    return top_k


def _in_top_k(predictions: Tensor, targets: Tensor, k: Tensor) -> Tensor:
    targets = targets.long()
    inside = (targets >= 0) & (targets < predictions.shape[1])
    own = predictions.gather(1, targets.clamp(0, predictions.shape[1] - 1).unsqueeze(1))
    above = (predictions > own).sum(1)
    return inside & own.squeeze(1).isfinite() & (above < k)


def _segment_sum(data: Tensor, segments: Tensor) -> Tensor:
    rows = int(segments[-1]) + 1 if segments.numel() else 0
    if bool((segments[1:] < segments[:-1]).any()):
        raise OpError("INVALID_ARGUMENT", "segment ids are not increasing")
    return data.new_zeros(rows, *data.shape[1:]).index_add(0, segments, data)


def _unsorted_segment_sum(data: Tensor, segments: Tensor, num: Tensor) -> Tensor:
    """A negative segment drops its rows."""
    rows, kept = data.reshape(-1, *data.shape[segments.dim() :]), segments.reshape(-1)
    rows, kept = rows[kept >= 0], kept[kept >= 0]
    return data.new_zeros(int(num), *rows.shape[1:]).index_add(0, kept, rows)


OPS: tuple[OpDef, ...] = (
    *(_reduction(name, reduce) for name, reduce in REDUCTIONS.items()),
    OpDef("ArgMax", partial(_bind_arg, torch.argmax), host_inputs=(1,)),
    OpDef("ArgMin", partial(_bind_arg, torch.argmin), host_inputs=(1,)),
    OpDef("Cumprod", partial(_bind_scan, torch.cumprod, 1), host_inputs=(1,)),
    OpDef("Cumsum", partial(_bind_scan, torch.cumsum, 0), host_inputs=(1,)),
    direct("InTopKV2", _in_top_k),
    direct("SegmentSum", _segment_sum),
    OpDef("TopKV2", _bind_top_k, num_outputs=2, host_inputs=(1,)),
    direct("UnsortedSegmentSum", _unsorted_segment_sum, host_inputs=(2,)),
)
