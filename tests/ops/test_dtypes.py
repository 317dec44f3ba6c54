"""Constants survive the way between a node's bytes and torch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tracer.model.graph import Literal
from tracer.ops.dtypes import (
    TORCH_DTYPES,
    UnknownDtype,
    dtype_name,
    literal_to_tensor,
    tensor_to_literal,
    torch_dtype,
)

SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@given(st.sampled_from(sorted(TORCH_DTYPES)), SHAPES, st.integers(0, 255))
def test_a_tensor_survives_as_a_literal(name: str, shape: tuple[int, ...], fill: int) -> None:
    tensor = torch.full(shape, fill % 2 if name == "bool" else fill % 128).to(torch_dtype(name))
    literal = tensor_to_literal(tensor)
    assert (literal.dtype, literal.shape) == (name, shape)
    assert torch.equal(literal_to_tensor(literal), tensor)


def test_a_view_becomes_a_literal_in_its_own_order() -> None:
    turned = torch.arange(6.0).reshape(2, 3).t()
    assert torch.equal(literal_to_tensor(tensor_to_literal(turned)), turned)


def test_bytes_that_do_not_fill_the_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \[2\] needs 8 bytes, it has 5"):
        literal_to_tensor(Literal("float32", (2,), b"12345"))


def test_an_unknown_dtype_names_the_nearest() -> None:
    with pytest.raises(UnknownDtype, match="did you mean float32"):
        torch_dtype("floot32")
    with pytest.raises(UnknownDtype, match=r"torch\.complex64 has no name"):
        dtype_name(torch.complex64)
