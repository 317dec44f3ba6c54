from contextlib import suppress
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tracer.model.literal import literal_of, value_of
from tracer.rpc.frames import LARGE_BYTES
from tracer.rpc.tensor_codec import (
    UNREADABLE,
    decode_tensor,
    decode_tensors,
    encode_tensor,
    encode_tensors,
)
from tracer.runtime.collectives_pieces import is_alone
from tracer.runtime.interfaces import StepError

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.complex64,
    torch.complex128,
]
SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (5, 7), (0,), (0, 4), (2, 0, 3), (1, 2, 3, 4)]


def through_the_wire(tensor: torch.Tensor) -> torch.Tensor:
    buffers, num_bytes = encode_tensor(tensor)
    message = memoryview(b"".join(buffers))
    assert len(message) == num_bytes
    back, at = decode_tensor(message)
    assert at == num_bytes
    assert num_bytes % 8 == 0
    assert isinstance(back, torch.Tensor)
    return back


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_dtype_and_shape_arrives_as_it_left(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    tensor = (torch.randn(shape) * 3).to(dtype)
    back = through_the_wire(tensor)
    assert back.dtype == dtype
    assert back.shape == tensor.shape
    assert torch.equal(back, tensor)


@pytest.mark.parametrize("texts", [[], ["a"], ["", "né", "中文字"], [["x" * 9], [""]]])
def test_strings_arrive_as_they_left(texts: list[Any]) -> None:
    literal = literal_of("string", texts)
    buffers, num_bytes = encode_tensors({"text": literal, "ones": torch.ones(2)})
    message = memoryview(b"".join(buffers))
    assert len(message) == num_bytes
    back, ones = decode_tensors(message, 0, 2)
    assert value_of(back) == texts
    assert ones.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool])
def test_a_view_is_sent_as_what_it_shows(dtype: torch.dtype) -> None:
    tensor = torch.arange(24).reshape(4, 6).to(dtype)
    for view in (tensor.t(), tensor[1:3, ::2], tensor[0, 0], tensor[0].expand(3, 6)):
        assert torch.equal(through_the_wire(view), view)


def test_a_tensor_with_a_gradient_is_sent_as_its_value() -> None:
    tensor = torch.ones(3, requires_grad=True)
    assert torch.equal(through_the_wire(tensor * 2), torch.full((3,), 2.0))
    assert not through_the_wire(tensor).requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_memory_of_a_large_tensor_is_lent_until_its_bytes_are_sent(dtype: torch.dtype) -> None:
    tensor = torch.ones(LARGE_BYTES, dtype=dtype)
    buffers, _ = encode_tensor(tensor)
    assert not is_alone(tensor)
    del buffers
    assert is_alone(tensor)


@given(st.lists(st.integers(0, 20), max_size=6))
def test_several_tensors_share_a_payload(sizes: list[int]) -> None:
    tensors = [torch.arange(size, dtype=torch.uint8) for size in sizes]
    buffers, num_bytes = encode_tensors({str(i): t for i, t in enumerate(tensors)})
    payload = memoryview(b"".join(buffers))
    assert len(payload) == num_bytes
    back = decode_tensors(payload, 0, len(tensors))
    assert all(torch.equal(a, b) for a, b in zip(back, tensors, strict=True))


def test_a_received_tensor_looks_into_the_message() -> None:
    buffers, _ = encode_tensor(torch.zeros(4))
    message = bytearray(b"".join(buffers))
    tensor, _ = decode_tensor(memoryview(message))
    message[16:20] = torch.tensor(9.0).numpy().tobytes()
    assert tensor.tolist() == [9.0, 0.0, 0.0, 0.0]


def test_more_than_two_gib_is_refused_with_size_and_limit() -> None:
    huge = torch.empty(2**31 + 1, dtype=torch.uint8, device="meta")
    with pytest.raises(
        StepError,
        match=r"w/read:0: a tensor of shape \[2147483649\] .* at most 2147483648 \(2 GiB\)",
    ) as info:
        encode_tensor(huge, "w/read:0")
    assert info.value.code == "INVALID_ARGUMENT"


def test_a_dtype_without_bytes_is_refused_by_name() -> None:
    with pytest.raises(StepError, match=r"torch\.uint16 cannot be sent; these can: float32"):
        encode_tensor(torch.zeros(1, dtype=torch.uint16))


@given(st.binary(min_size=2, max_size=64))
def test_foreign_bytes_are_no_tensor(data: bytes) -> None:
    with suppress(*UNREADABLE):
        decode_tensor(memoryview(data))
