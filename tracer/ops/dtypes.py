"""TensorFlow's dtype names, torch's dtypes, and the way of a constant between the two worlds."""

import math

import torch

from tracer.model.graph import Literal, TensorSpec
from tracer.model.refusal import did_you_mean

TORCH_DTYPES: dict[str, torch.dtype] = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}
_NAMES = {dtype: name for name, dtype in TORCH_DTYPES.items()}


class UnknownDtype(ValueError):
    """A dtype no kernel computes with; the text lists those that exist."""


def torch_dtype(name: str) -> torch.dtype:
    if dtype := TORCH_DTYPES.get(name):
        return dtype
    hint = did_you_mean(name, TORCH_DTYPES)
    raise UnknownDtype(f"no kernel computes with dtype {name!r}; known: {_known()}{hint}")


def dtype_name(dtype: torch.dtype) -> str:
    """TF's name of a torch dtype."""
    if name := _NAMES.get(dtype):
        return name
    raise UnknownDtype(f"{dtype} has no name among the dtypes of a graph; known: {_known()}")


def _known() -> str:
    return ", ".join(TORCH_DTYPES)


def spec_of(tensor: torch.Tensor | Literal) -> TensorSpec:
    """Of a tensor, or of a string tensor (which is its literal)."""
    if isinstance(tensor, Literal):
        return TensorSpec(tensor.dtype, tensor.shape)
    return TensorSpec(dtype_name(tensor.dtype), tuple(tensor.shape))


def literal_to_tensor(literal: Literal) -> torch.Tensor:
    """A tensor of its own memory on the CPU.

    Raises ValueError if the bytes do not fill the shape.
    """
    dtype = torch_dtype(literal.dtype)
    needed = math.prod(literal.shape) * dtype.itemsize
    if len(literal.data) != needed:
        raise ValueError(
            f"a {literal.dtype} literal of shape {list(literal.shape)} needs {needed} bytes, "
            f"it has {len(literal.data)}"
        )
    if not needed:
        return torch.empty(literal.shape, dtype=dtype)
    return torch.frombuffer(bytearray(literal.data), dtype=dtype).reshape(literal.shape)


def tensor_to_literal(tensor: torch.Tensor) -> Literal:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy().tobytes()
    return Literal(dtype_name(tensor.dtype), tuple(tensor.shape), data)
