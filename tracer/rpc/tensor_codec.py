"""Tensors on the wire: an 8-byte header, the dims, the raw bytes, padded to 8.

Header: dtype code (TF's `DataType` numbers), rank; for strings, whose size the shape does not tell,
also their number of bytes. Little-endian, row-major. Decoding copies nothing: the tensor looks into
the received message and keeps it alive. A string tensor is its Literal, here as in kernels.
"""

import struct
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from tracer.model.graph import Literal
from tracer.rpc.frames import LARGE_BYTES, Buffer, Parts
from tracer.runtime.interfaces import TENSOR_LIMIT_BYTES, StepError

#: what reading foreign bytes as a message or tensor may raise
UNREADABLE = (ValueError, IndexError, struct.error)

_CODES = {
    torch.float32: 1,
    torch.float64: 2,
    torch.int32: 3,
    torch.uint8: 4,
    torch.int16: 5,
    torch.int8: 6,
    torch.complex64: 8,
    torch.int64: 9,
    torch.bool: 10,
    torch.bfloat16: 14,
    torch.complex128: 18,
    torch.float16: 19,
}
_STRING = 7
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_HEADS = tuple(struct.Struct(f"<BBHI{rank}q") for rank in range(65))
_PADDING = tuple(bytes(n) for n in range(8))

with warnings.catch_warnings():
    # torch says once a process that a received buffer is read-only; nothing here writes into one
    warnings.simplefilter("ignore")
    torch.frombuffer(b"\0", dtype=torch.uint8)


def encode_tensor(tensor: torch.Tensor | Literal, name: str = "") -> Parts:
    """Buffers and their length, a multiple of 8. The bytes are the tensor's own memory if they can.

    Raises StepError, which names the tensor, for a dtype that has no bytes and for more than 2 GiB.
    """
    if isinstance(tensor, Literal):
        return _encode_strings(tensor)
    code, raw_bytes = _CODES.get(tensor.dtype, 0), tensor.nbytes
    if not code or raw_bytes > TENSOR_LIMIT_BYTES:
        raise _unsendable(tensor, name)
    shape = tensor.shape
    head = _HEADS[len(shape)].pack(code, len(shape), 0, 0, *shape)
    if not raw_bytes:
        return [head], len(head)
    raw = _host_bytes(tensor)
    padding = -raw_bytes & 7
    buffers = [head, raw, _PADDING[padding]] if padding else [head, raw]
    return buffers, len(head) + raw_bytes + padding


def _encode_strings(literal: Literal) -> Parts:
    shape, raw = literal.shape, literal.data
    head = _HEADS[len(shape)].pack(_STRING, len(shape), 0, len(raw), *shape)
    padding = _PADDING[-len(raw) & 7]
    return [head, raw, padding], len(head) + len(raw) + len(padding)


def _host_bytes(tensor: torch.Tensor) -> Buffer:
    plain = tensor.detach() if tensor.requires_grad else tensor
    if not plain.is_cpu:
        plain = plain.cpu()
    if plain.dtype is torch.bfloat16:  # numpy does not know it
        plain = plain.contiguous().view(torch.int16)
    plain = plain.contiguous()
    if plain.nbytes <= LARGE_BYTES:
        return plain.numpy()
    # numpy() would mark the memory as shared for good; so it is lent until the bytes are sent, and
    # whoever has the tensor alone after that writes into it
    return np.from_dlpack(plain)


def _unsendable(tensor: torch.Tensor, name: str) -> StepError:
    which = f"{name}: " if name else ""
    if tensor.dtype not in _CODES:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in _CODES)
        return StepError(
            "UNIMPLEMENTED", f"{which}a tensor of {tensor.dtype} cannot be sent; these can: {known}"
        )
    return StepError(
        "INVALID_ARGUMENT",
        f"{which}a tensor of shape {list(tensor.shape)} and {tensor.dtype} has {tensor.nbytes} "
        f"bytes; at most {TENSOR_LIMIT_BYTES} (2 GiB) can be sent. Split it, for example by rows",
    )


def encode_tensors(tensors: Mapping[str, torch.Tensor | Literal]) -> Parts:
    """One after the other; their names are for errors."""
    buffers: list[Buffer] = []
    total = 0
    for name, tensor in tensors.items():
        some, num_bytes = encode_tensor(tensor, name)
        buffers += some
        total += num_bytes
    return buffers, total


def decode_tensor(payload: memoryview, at: int = 0) -> tuple[Any, int]:
    """The tensor at an offset and where the next one begins; raises UNREADABLE."""
    code, rank = payload[at], payload[at + 1]
    dtype = _DTYPES.get(code)
    if rank > 64 or (dtype is None and code != _STRING):
        raise ValueError(f"no tensor begins with dtype code {code} and rank {rank}")
    _, _, _, string_bytes, *shape = _HEADS[rank].unpack_from(payload, at)
    at += 8 + 8 * rank
    if dtype is None:
        data = bytes(payload[at : at + string_bytes])
        return Literal("string", tuple(shape), data), at + string_bytes + (-string_bytes & 7)
    count = 1
    for dim in shape:
        count *= dim
    if not count:
        return torch.empty(shape, dtype=dtype), at
    tensor = torch.frombuffer(payload, dtype=dtype, count=count, offset=at)
    num_bytes = count * dtype.itemsize
    if rank != 1:
        tensor = tensor.view(shape)
    return tensor, at + num_bytes + (-num_bytes & 7)


def decode_tensors(payload: memoryview, at: int, count: int) -> list[Any]:
    tensors = []
    for _ in range(count):
        tensor, at = decode_tensor(payload, at)
        tensors.append(tensor)
    return tensors
