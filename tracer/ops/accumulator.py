"""Accumulators of gradients (TF `conditional_accumulator.h`, `conditional_accumulator_base.cc`).

An accumulator lies beside a variable. Workers put gradients in, each with the *local step* it was
made in; one made before the accumulator's own *global step* is stale and is dropped. Who takes
waits, without a thread, until enough are in, gets their mean, and the global step goes on by one:
what is still on its way has become stale. Those who take get theirs in the order in which they
came, also where a later one wants fewer.

A sparse one (`sparse_conditional_accumulator.h`) is for gradients of which there are rows with
their ids. Its mean is that of the whole gradients, of which the rows that did not come are zero;
TensorFlow's divides each row by how many gradients held it.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from tracer.model.graph import Node, TensorSpec
from tracer.ops.dtypes import spec_of, torch_dtype
from tracer.ops.kernel import AsyncKernel, Cancel, Done, Kernel, OpContext, OpDef, OpError
from tracer.ops.shapes import Specs

Tensor = torch.Tensor

MEAN, SUM = "MEAN", "SUM"
REDUCTIONS = (MEAN, SUM)


@dataclass(eq=False, slots=True)
class _Taker:
    """Who waits for `wanted` gradients."""

    done: Done
    wanted: int


class ConditionalAccumulator:
    """`version` is the global step, for whoever records what was done to it.

    `_sum` is what came so far, None where nothing did; what it is a subclass decides.
    """

    def __init__(self, name: str, spec: TensorSpec, reduction: str = MEAN) -> None:
        """A dim of -1 in the shape is open: the first gradient of a round decides it."""
        self.name = name
        self.spec = spec
        self.reduction = reduction
        self.version = 0
        self._lock = threading.Lock()
        self._sum: Any = None
        self._count = 0
        self._takers: deque[_Taker] = deque()

    @property
    def count(self) -> int:
        """Gradients that are in."""
        return self._count

    def apply(self, local_step: int, gradient: Any) -> bool:
        """Puts a gradient in; returns whether it was dropped as stale, unlooked at.

        Raises OpError INVALID_ARGUMENT for one of another shape.
        """
        with self._lock:
            if local_step < self.version:
                return True
            self._check(gradient)
            self._sum = gradient if self._sum is None else self._added(self._sum, gradient)
            self._count += 1
        self._go_on()
        return False

    def take(self, done: Done, wanted: int) -> Cancel:
        """Ends with the mean (or sum) of all that are in, once they are at least `wanted`."""
        if wanted < 1:
            raise OpError(
                "INVALID_ARGUMENT", f"Argument num_required must be positive, but was {wanted}"
            )
        taker = _Taker(done, wanted)
        with self._lock:
            self._takers.append(taker)
        self._go_on()
        return lambda: self._take_back(taker)

    def set_global_step(self, step: int) -> None:
        """As a new session's chief does; what is in stays in."""
        with self._lock:
            self.version = step

    def _added(self, total: Any, gradient: Any) -> Any:
        return torch.add(total, gradient)

    def _reduced(self, total: Any, count: int) -> Any:
        """What is taken of `count` gradients."""
        return total if self.reduction == SUM else _mean(total, count)

    def _check(self, gradient: Any) -> None:
        found = spec_of(gradient)
        wanted = self.spec.shape if self._sum is None else tuple(self._sum.shape)
        if len(found.shape) != len(wanted) or any(
            w not in (-1, f) for f, w in zip(found.shape, wanted, strict=True)
        ):
            raise OpError(
                "INVALID_ARGUMENT",
                f"Shape mismatch: expected {_shape(wanted)}, got {_shape(found.shape)}: all "
                f"gradients that come to accumulator '{self.name}' must be of one shape",
            )
        self._check_dtype(gradient)

    def _check_dtype(self, gradient: Tensor) -> None:
        if (found := spec_of(gradient).dtype) != self.spec.dtype:
            raise OpError(
                "INVALID_ARGUMENT",
                f"accumulator '{self.name}' takes {self.spec.dtype}, not {found}; cast the "
                "gradient",
            )

    def _take_back(self, taker: _Taker) -> None:
        with self._lock:
            if taker not in self._takers:  # it has ended
                return
            self._takers.remove(taker)
        taker.done(error=OpError("CANCELLED", f"TakeGradient of '{self.name}' was cancelled"))
        self._go_on()

    def _go_on(self) -> None:
        """Ends all waits that can end; outside the lock, as what they let run comes back here."""
        with self._lock:
            ended = list(self._ended())
        for end in ended:
            end()

    def _ended(self) -> Iterator[Callable[[], None]]:
        while self._takers and self._count >= self._takers[0].wanted:
            taken = self._reduced(self._sum, self._count)
            self._sum, self._count = None, 0
            self.version += 1
            yield partial(self._takers.popleft().done, taken)


class SparseConditionalAccumulator(ConditionalAccumulator):
    """A gradient is (ids, rows); what is taken has each id once, in order."""

    def _added(self, total: Any, gradient: Any) -> Any:
        return tuple(map(torch.cat, zip(total, gradient, strict=True)))

    def _reduced(self, total: Any, count: int) -> Any:
        ids, rows = total
        unique, places = torch.unique(ids, return_inverse=True)
        summed = rows.new_zeros(len(unique), *rows.shape[1:]).index_add(0, places, rows)
        shape = torch.tensor(self.spec.shape)
        return unique.long(), super()._reduced(summed, count), shape

    def _check(self, gradient: Any) -> None:
        ids, rows = gradient
        self._check_dtype(rows)
        if ids.dim() != 1 or rows.shape != (len(ids), *self.spec.shape[1:]):
            raise OpError(
                "INVALID_ARGUMENT",
                f"Shape mismatch: accumulator '{self.name}' takes an id each for rows of a tensor "
                f"of shape {_shape(self.spec.shape)}, not ids {_shape(tuple(ids.shape))} with rows "
                f"{_shape(tuple(rows.shape))}",
            )
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.spec.shape[0]:
            raise OpError(
                "INVALID_ARGUMENT",
                f"accumulator '{self.name}' is for {self.spec.shape[0]} rows, and an id is not in "
                f"[0, {self.spec.shape[0]})",
            )


def _mean(total: Tensor, count: int) -> Tensor:
    """In the dtype of what came: of integers the mean is cut, as in TF."""
    return torch.div(total, count, rounding_mode=None if total.is_floating_point() else "trunc")


def _shape(dims: tuple[int, ...]) -> str:
    """As TF writes it, with `?` for an open dim."""
    return f"[{','.join('?' if dim < 0 else str(dim) for dim in dims)}]"


def _bind_accumulator(kind: type[ConditionalAccumulator], node: Node, context: OpContext) -> Kernel:
    name = node.attrs.get("shared_name") or node.name
    spec, reduction = _spec(node), node.attrs.get("reduction_type") or MEAN
    if reduction not in REDUCTIONS:
        raise OpError(
            "INVALID_ARGUMENT",
            f"{node.name} has reduction_type {reduction!r}; it must be one of "
            f"{', '.join(REDUCTIONS)}",
        )
    accumulator = context.resources.resource(
        node.attrs.get("container", ""),
        name,
        lambda: kind(name, spec, reduction),
    )
    if (type(accumulator), accumulator.spec, accumulator.reduction) != (kind, spec, reduction):
        raise OpError(
            "INVALID_ARGUMENT",
            f"Shared accumulator '{name}' is for {accumulator.reduction} of {accumulator.spec} in "
            f"this task; {node.name} asks for {reduction} of {spec}",
        )
    return lambda: accumulator


def _spec(node: Node) -> TensorSpec:
    dtype = node.attrs["dtype"]
    torch_dtype(dtype)
    return TensorSpec(dtype, tuple(-1 if dim is None else dim for dim in node.attrs["shape"]))


def _apply(accumulator: ConditionalAccumulator, local_step: Tensor, gradient: Tensor) -> bool:
    return accumulator.apply(int(local_step), gradient)


def _apply_rows(
    accumulator: ConditionalAccumulator, local_step: Tensor, ids: Tensor, rows: Tensor, _: Tensor
) -> bool:
    return accumulator.apply(int(local_step), (ids, rows))


def _take(done: Done, accumulator: ConditionalAccumulator, num_required: Tensor) -> Cancel:
    return accumulator.take(done, int(num_required))


def _set_global_step(accumulator: ConditionalAccumulator, step: Tensor) -> None:
    accumulator.set_global_step(int(step))


def _num_accumulated(accumulator: ConditionalAccumulator) -> Tensor:
    return torch.tensor(accumulator.count, dtype=torch.int32)


def _handle_spec(_node: Node, _inputs: list[Any]) -> Specs:
    return (TensorSpec("resource", ()),)


def _no_spec(_node: Node, _inputs: list[Any]) -> Specs:
    return ()


def _always(kernel: Kernel) -> Callable[[Node, OpContext], Kernel]:
    return lambda _node, _context: kernel


def _bind_take(_node: Node, _context: OpContext) -> AsyncKernel:
    return _take


def _worker(name: str, bind: Callable[[Node, OpContext], Kernel], **fields: Any) -> OpDef:
    """An op on an accumulator, which is its input 0."""
    return OpDef(name, bind, stateful=True, writes=True, num_variables=1, **fields)


_REF_OPS: tuple[OpDef, ...] = (
    OpDef(
        "ConditionalAccumulator",
        partial(_bind_accumulator, ConditionalAccumulator),
        infer=_handle_spec,
        stateful=True,
        is_view=True,
        says="Gathers gradients of one variable in its task, and drops stale ones.",
    ),
    _worker(
        "AccumulatorApplyGradient",
        _always(_apply),
        num_outputs=0,
        host_inputs=(1,),
        drops=True,
        says="Puts a gradient in, unless its local step is before the accumulator's global step.",
    ),
    _worker(
        "AccumulatorTakeGradient",
        _bind_take,
        infer=_no_spec,
        host_inputs=(1,),
        is_async=True,
        says="Waits until `num_required` are in, and takes the mean of all that are.",
    ),
    _worker("AccumulatorSetGlobalStep", _always(_set_global_step), num_outputs=0, host_inputs=(1,)),
    _worker(
        "AccumulatorNumAccumulated", _always(_num_accumulated), host_outputs=(0,), is_view=True
    ),
)

_SPARSE_OPS: tuple[OpDef, ...] = (
    OpDef(
        "SparseConditionalAccumulator",
        partial(_bind_accumulator, SparseConditionalAccumulator),
        infer=_handle_spec,
        stateful=True,
        is_view=True,
        says="Gathers rows of gradients of one table in its task, and drops stale ones.",
    ),
    _worker(
        "SparseAccumulatorApplyGradient",
        _always(_apply_rows),
        num_outputs=0,
        host_inputs=(1, 4),
        drops=True,
        says="Puts rows in, each with its id, unless they are older than the global step.",
    ),
    _worker(
        "SparseAccumulatorTakeGradient",
        _bind_take,
        num_outputs=3,
        infer=_no_spec,
        host_inputs=(1,),
        host_outputs=(2,),
        is_async=True,
        says="Waits until `num_required` are in, and takes ids, rows and shape of their mean.",
    ),
)

#: what makes one with resource handles (TF 2), and the older names for the same
OPS: tuple[OpDef, ...] = (
    *(each for op in _REF_OPS for each in (op, replace(op, name=f"Resource{op.name}"))),
    *_SPARSE_OPS,
)
