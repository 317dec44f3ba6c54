"""Ops that pass values on or refuse them in words (TF `logging_ops.cc`, `check_numerics_op.cc`)."""

from collections.abc import Iterator
from typing import Any

import torch

from tracer.model.graph import Literal, Node
from tracer.model.literal import value_of
from tracer.ops.array import PORTS
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError

Tensor = torch.Tensor


def _bind_assert(node: Node, _context: OpContext) -> Kernel:
    limit = int(node.attrs.get("summarize", 3))

    def check(condition: Tensor, *data: Tensor | Literal) -> None:
        if not bool(condition):
            told = "".join(f" [{summary_of(value, limit)}]" for value in data)
            raise OpError("INVALID_ARGUMENT", f"assertion failed:{told}")

    return check


def summary_of(value: Tensor | Literal, limit: int) -> str:
    """The first `limit` elements (all, if negative) as TF's `Tensor::SummarizeValue` prints them.

    Rows stand in brackets, but a tensor of one dim alone does not.
    """
    given = value_of(value) if isinstance(value, Literal) else _elements(value)
    size = value.num_elements if isinstance(value, Literal) else value.numel()
    limit = size if limit < 0 else limit
    rows = given if isinstance(given, list) else [given]
    return "".join(_written(rows, [limit], is_whole=True)) + ("..." if size > limit else "")


def _written(items: list[Any], left: list[int], *, is_whole: bool) -> Iterator[str]:
    """`left` holds how many elements may still be written."""
    for number, item in enumerate(items):
        if isinstance(item, list):
            if left[0]:
                yield f"[{''.join(_written(item, left, is_whole=False))}]"
        elif left[0]:
            left[0] -= 1
            yield f" {item}" if number else str(item)
        else:
            if not is_whole:
                yield "..."
            return


def _elements(tensor: Tensor) -> Any:
    """Nested lists of its elements, written: a float with as many digits as tell it from others."""
    if not tensor.is_floating_point():
        return (tensor.int() if tensor.dtype == torch.bool else tensor).tolist()
    few, all_ = (15, 17) if tensor.dtype == torch.float64 else (6, 9)

    def written(value: Any) -> Any:
        if isinstance(value, list):
            return [written(item) for item in value]
        short = f"{value:.{few}g}"
        is_it = torch.tensor(float(short), dtype=tensor.dtype) == value
        return short if is_it else f"{value:.{all_}g}"

    return written(tensor.tolist())


def _bind_check_numerics(node: Node, _context: OpContext) -> Kernel:
    says = node.attrs.get("message", "")

    def check(x: Tensor) -> Tensor:
        found = [
            name
            for name, is_there in (("Inf", x.isinf().any()), ("NaN", x.isnan().any()))
            if bool(is_there)
        ]
        if found:
            raise OpError("INVALID_ARGUMENT", f"{says} : Tensor had {' and '.join(found)} values")
        return x

    return check


def _bind_ensure_shape(node: Node, _context: OpContext) -> Kernel:
    expected = node.attrs["shape"]

    def ensure(x: Tensor) -> Tensor:
        if expected is not None and not _fits(x.shape, expected):
            raise OpError(
                "INVALID_ARGUMENT",
                f"Shape of tensor {node.inputs[0].node if node.inputs else ''} "
                f"{list(x.shape)} is not compatible with expected shape {expected}.",
            )
        return x

    return ensure


def _fits(shape: torch.Size, expected: list[int]) -> bool:
    """An expected dim below 0 is open."""
    pairs = zip(shape, expected, strict=False)
    return len(shape) == len(expected) and all(want in (size, -1) for size, want in pairs)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "Assert",
        _bind_assert,
        num_outputs=0,
        stateful=True,
        host_inputs=PORTS,
        is_view=True,
        says="Fails with its data where its condition does not hold.",
    ),
    OpDef("CheckNumerics", _bind_check_numerics),
    OpDef("EnsureShape", _bind_ensure_shape, is_view=True),
)
