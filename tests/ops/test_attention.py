"""What other devices compute in place of a CPU's own attention kernel is the same."""

from typing import Any

import pytest
import torch

from tracer.model.graph import Input, Node
from tracer.ops.attention import OF_OTHER_DEVICES, attend, attend_backward
from tracer.ops.kernel import OpContext
from tracer.ops.registry import lookup

FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
WAYS: list[tuple[bool, dict[str, Any]]] = [
    *((is_causal, way) for is_causal in (False, True) for way in ({}, {"scale": 0.3})),
    (False, {"attn_mask": torch.arange(25.0).reshape(5, 5) / 25}),
]


@pytest.mark.parametrize(("is_causal", "way"), WAYS)
def test_values_and_gradients_equal_those_of_the_cpu(is_causal: bool, way: dict[str, Any]) -> None:
    drawn = torch.Generator().manual_seed(3)
    # heads are parted from a (batch, position, head * element) tensor, as modules do it
    q, k, v, grad = (torch.randn(2, 5, 3, 4, generator=drawn).transpose(1, 2) for _ in range(4))
    theirs = FORWARD(q, k, v, 0.0, is_causal, **way)
    ours = attend(q, k, v, 0.0, is_causal, **way)
    torch.testing.assert_close(ours, theirs)
    assert ours[0].stride() == theirs[0].stride()
    their_grads = BACKWARD(grad, q, k, v, *theirs, 0.0, is_causal, **way)
    our_grads = attend_backward(grad, q, k, v, *ours, 0.0, is_causal, **way)
    torch.testing.assert_close(our_grads, their_grads)
    assert [g.stride() for g in our_grads] == [g.stride() for g in their_grads]


def test_a_node_gets_the_kernel_of_its_device() -> None:
    name = next(iter(OF_OTHER_DEVICES))
    inputs = tuple(map(Input, "qkv"))
    node = Node("a", name, inputs, attrs={"args": [{"input": i} for i in range(3)]})
    for device, expected in (("cpu", FORWARD.default._op), ("cuda", attend)):
        context = OpContext(None, torch.device(device), None, None)  # type: ignore[arg-type]
        assert lookup(name).bind(node, context) is expected
