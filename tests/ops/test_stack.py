"""Stacks of a step: last in, first out, a new one each time their op runs."""

from typing import Any

import pytest
import torch

from tests.ops.graph_runner import context
from tracer.model.graph import Node
from tracer.ops.kernel import OpError
from tracer.ops.registry import lookup


def run(op: str, *inputs: Any, **attrs: Any) -> Any:
    return lookup(op).bind(Node("stack", op, attrs=attrs), context())(*inputs)


def new_stack(max_size: int = -1, **attrs: Any) -> Any:
    return run("StackV2", torch.tensor(max_size), **attrs)


def test_what_was_pushed_last_comes_off_first() -> None:
    stack, one, two = new_stack(), torch.tensor(1.0), torch.tensor(2.0)
    assert run("StackPushV2", stack, one) is one
    run("StackPushV2", stack, two)
    assert run("StackPopV2", stack) is two
    assert run("StackPopV2", stack) is one


def test_a_stack_op_makes_another_stack_each_time_it_runs() -> None:
    kernel = lookup("StackV2").bind(Node("stack", "StackV2"), context())
    first, second = kernel(torch.tensor(-1)), kernel(torch.tensor(-1))
    run("StackPushV2", first, torch.tensor(1.0))
    with pytest.raises(OpError, match=r"Stack\[stack\] is empty when calling Pop\(\)\."):
        run("StackPopV2", second)


def test_a_full_stack_refuses_more() -> None:
    stack = new_stack(1, stack_name="history")
    run("StackPushV2", stack, torch.tensor(1.0))
    with pytest.raises(OpError, match=r"Stack\[history\] overflowed its max_size \(1\)"):
        run("StackPushV2", stack, torch.tensor(2.0))


def test_a_stack_may_hold_stacks() -> None:
    outer, inner = new_stack(), new_stack()
    run("StackPushV2", outer, inner)
    assert run("StackPopV2", outer) is inner
