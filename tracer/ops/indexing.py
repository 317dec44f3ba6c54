"""What takes elements out of tensors or puts them in, by index (TF `gather_op.cc`, `slice_op.cc`).

Where TF finds an index out of bounds, so do these: torch would count a negative one from the end.
"""

from functools import partial
from typing import Any

import torch

from tracer.model.graph import Node
from tracer.ops.array import count_of, one_or_several
from tracer.ops.dtypes import torch_dtype
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError, direct
from tracer.ops.reduction import axis_of

Tensor = torch.Tensor


def _check(indices: Tensor, limit: int, what: str = "indices") -> None:
    """Raises OpError for the first index outside [0, limit)."""
    if indices.device.type == "meta":
        return
    wrong = ((indices < 0) | (indices >= limit)).nonzero()
    if wrong.numel():
        place = tuple(wrong[0].tolist())
        raise OpError(
            "INVALID_ARGUMENT",
            f"{what}[{','.join(map(str, place))}] = {indices[place]} is not in [0, {limit})",
        )


def _bind_gather(node: Node, _context: OpContext) -> Kernel:
    batch = int(node.attrs.get("batch_dims", 0))

    def gather(params: Tensor, indices: Tensor, axis: Tensor) -> Tensor:
        dim = axis_of(axis, params.dim())
        if batch:
            return _gather_batches(params, indices, dim, batch % indices.dim())
        return _rows(params, indices, dim)

    return gather


def _rows(params: Tensor, indices: Tensor, dim: int) -> Tensor:
    rows = torch.index_select(params, dim, indices.reshape(-1))
    return rows.reshape(*params.shape[:dim], *indices.shape, *params.shape[dim + 1 :])


def _gather_batches(params: Tensor, indices: Tensor, dim: int, batch: int) -> Tensor:
    """Each of the first `batch` dims takes from its own part of `params`."""
    if not batch:
        return _rows(params, indices, dim)
    parts = zip(params.unbind(0), indices.unbind(0), strict=True)
    return torch.stack([_gather_batches(p, i, dim - 1, batch - 1) for p, i in parts])


def _gather_v1(params: Tensor, indices: Tensor) -> Tensor:
    return _rows(params, indices, 0)


def _coordinates(indices: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """The last dim of `indices`, apart, for the first dims of a tensor of this shape."""
    columns = indices.long().unbind(-1)
    for column, size in zip(columns, shape, strict=False):
        _check(column, size)
    return columns


def _gather_nd(params: Tensor, indices: Tensor) -> Tensor:
    if not indices.shape[-1]:
        return params.expand(*indices.shape[:-1], *params.shape)
    return params[_coordinates(indices, tuple(params.shape))]


def _put(target: Tensor, indices: Tensor, updates: Tensor, accumulate: bool) -> Tensor:
    places = _coordinates(indices, tuple(target.shape))
    return target.index_put(places, updates, accumulate=accumulate)


def _scatter_nd(indices: Tensor, updates: Tensor, shape: Tensor) -> Tensor:
    return _put(updates.new_zeros(shape.tolist()), indices, updates, accumulate=True)


def _tensor_scatter(accumulate: bool) -> Kernel:
    def scatter(target: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        return _put(target, indices, updates, accumulate)

    return scatter


def _slice(x: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    terms = []
    for dim, (first, count) in enumerate(zip(begin.tolist(), size.tolist(), strict=True)):
        end = x.shape[dim] if count == -1 else first + count
        if not 0 <= first <= end <= x.shape[dim]:
            raise OpError(
                "INVALID_ARGUMENT",
                f"Expected size[{dim}] in [0, {x.shape[dim] - first}] and begin[{dim}] in [0, "
                f"{x.shape[dim]}], but got {count} and {first}",
            )
        terms.append(slice(first, end))
    return x[tuple(terms)]


_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


def _bind_strided_slice(node: Node, _context: OpContext) -> Kernel:
    """x[begin:end:stride, …] with TF's bit masks, one bit a term (`strided_slice_op.cc`)."""
    masks = {name: int(node.attrs.get(f"{name}_mask", 0)) for name in _MASKS}

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
        terms = [term(i, *row) for i, row in enumerate(rows)]
        return _backwards(x, terms)[tuple(map(_forwards, terms))]

    return strided_slice


def _is_backwards(term: Any) -> bool:
    return isinstance(term, slice) and term.step < 0


def _forwards(term: Any) -> Any:
    return slice(None) if _is_backwards(term) else term


def _backwards(x: Tensor, terms: list[Any]) -> Tensor:
    """Takes the terms with a negative stride, which torch does not know."""
    if not any(map(_is_backwards, terms)):
        return x
    kept = [term for term in terms if term is not None]
    if ... in kept:
        at = kept.index(...)
        kept[at : at + 1] = [slice(None, None, 1)] * (x.dim() - len(kept) + 1)
    for dim, term in enumerate(kept):
        if _is_backwards(term):
            places = range(*term.indices(x.shape[dim]))
            x = x.index_select(dim, torch.tensor(places, dtype=torch.int64, device=x.device))
    return x


def _bind_one_hot(node: Node, _context: OpContext) -> Kernel:
    axis = int(node.attrs.get("axis", -1))

    def one_hot(indices: Tensor, depth: Tensor, on: Tensor, off: Tensor) -> Tensor:
        dim = axis if axis >= 0 else indices.dim()
        numbers = torch.arange(int(depth), device=indices.device)
        shape = [-1 if at == dim else 1 for at in range(indices.dim() + 1)]
        return torch.where(indices.unsqueeze(dim) == numbers.reshape(shape), on, off)

    return one_hot


def _invert_permutation(x: Tensor) -> Tensor:
    _check(x, x.numel(), "x")
    places = torch.arange(x.numel(), dtype=x.dtype, device=x.device)
    inverse = torch.full_like(x, -1).index_copy(0, x.long(), places)
    if x.device.type != "meta" and bool((inverse < 0).any()):
        raise OpError(
            "INVALID_ARGUMENT", f"{x.tolist()} is no permutation: a number is there twice"
        )
    return inverse


def _bind_unique(node: Node, _context: OpContext) -> Kernel:
    """Each value once, in the order of first sight, and where among them each element's is."""
    dtype = torch_dtype(node.attrs.get("out_idx", "int32"))
    counts = node.op == "UniqueWithCounts"

    def unique(x: Tensor) -> tuple[Tensor, ...]:
        values, inverse, counted = torch.unique(x, return_inverse=True, return_counts=True)
        places = torch.arange(x.numel(), device=x.device)
        first = torch.full_like(counted, x.numel()).scatter_reduce(0, inverse, places, "amin")
        order = torch.argsort(first)
        rank = torch.argsort(order)
        found = (values[order], rank[inverse].to(dtype))
        return (*found, counted[order].to(dtype)) if counts else found

    return unique


def _bind_dynamic_partition(node: Node, _context: OpContext) -> Kernel:
    num = count_of("num_partitions", node)

    def partition(x: Tensor, parts: Tensor) -> Any:
        _check(parts, num, "partitions")
        return one_or_several([x[parts == i] for i in range(num)])

    return partition


def _stitch(*inputs: Tensor) -> Tensor:
    """Rows of `data` to where `indices` say: the inverse of DynamicPartition. Later inputs win."""
    half = len(inputs) // 2
    indices = torch.cat([i.reshape(-1) for i in inputs[:half]]).long()
    shape = inputs[half].shape[inputs[0].dim() :]
    data = torch.cat([d.reshape(-1, *shape) for d in inputs[half:]])
    rows = int(indices.max()) + 1 if indices.numel() else 0
    return data.new_zeros(rows, *shape).index_copy(0, indices, data)


OPS: tuple[OpDef, ...] = (
    direct("Gather", _gather_v1),
    OpDef("GatherV2", _bind_gather, host_inputs=(2,)),
    direct("GatherNd", _gather_nd),
    direct("ScatterNd", _scatter_nd, host_inputs=(2,)),
    direct("TensorScatterAdd", _tensor_scatter(accumulate=True), alike=slice(0, 3, 2)),
    direct("TensorScatterUpdate", _tensor_scatter(accumulate=False), alike=slice(0, 3, 2)),
    direct("Slice", _slice, host_inputs=(1, 2)),
    OpDef("StridedSlice", _bind_strided_slice, host_inputs=(1, 2, 3)),
    OpDef("OneHot", _bind_one_hot, alike=slice(2, None), host_inputs=(1,)),
    direct("Where", torch.nonzero),
    direct("InvertPermutation", _invert_permutation),
    OpDef("Unique", _bind_unique, num_outputs=2),
    OpDef("UniqueWithCounts", _bind_unique, num_outputs=3),
    OpDef(
        "DynamicPartition",
        _bind_dynamic_partition,
        num_outputs=partial(count_of, "num_partitions"),
        host_inputs=(1,),
    ),
    direct("DynamicStitch", _stitch),
    direct("ParallelDynamicStitch", _stitch),
)
