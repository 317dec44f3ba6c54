"""A generator is a value: it goes into a draw and comes out of it."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.ops.graph_runner import context
from tracer.model.graph import Input, Node
from tracer.ops.registry import lookup

SEED = torch.tensor(5)


def draw(op: str, args: list[object], *inputs: Tensor, start: int) -> Any:
    attrs = {"args": args, "kwargs": {"generator": {"generator": start}}}
    node = Node("n", op, tuple(Input("x") for _ in inputs), attrs=attrs)
    assert lookup(op).outputs_of(node) == 2
    return lookup(op).bind(node, context())(*inputs)


def test_a_draw_from_a_seed_is_torchs_own() -> None:
    got, _ = draw("aten.bernoulli.p", [{"input": 0}, 0.5], torch.empty(99), SEED, start=1)
    torch.manual_seed(5)
    assert torch.equal(got, torch.empty(99).bernoulli_(0.5))


def test_a_turned_tensor_is_drawn_in_the_order_in_which_dropout_draws() -> None:
    turned = torch.empty(9, 11).t()
    got, _ = draw("aten.bernoulli.p", [{"input": 0}, 0.5], turned, SEED, start=1)
    torch.manual_seed(5)
    assert torch.equal(got, torch.empty_like(turned).bernoulli_(0.5))


def test_the_next_draw_goes_on_where_the_last_one_ended() -> None:
    first, state = draw("aten.rand.generator", [[7]], SEED, start=0)
    second, _ = draw("aten.rand.generator", [[7]], state, start=0)
    torch.manual_seed(5)
    assert torch.equal(torch.cat([first, second]), torch.cat([torch.rand(7), torch.rand(7)]))


def test_the_process_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    draw("aten.randn.generator", [[7]], SEED, start=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_state_that_no_generator_left_is_refused() -> None:
    with pytest.raises(RuntimeError, match="RNG state"):
        draw("aten.rand.generator", [[7]], torch.zeros(3, dtype=torch.uint8), start=0)


def test_a_draw_without_a_generator_has_its_value_alone() -> None:
    assert lookup("aten.rand.default").outputs_of(Node("n", "aten.rand.default")) == 1
