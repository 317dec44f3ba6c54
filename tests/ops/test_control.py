"""The kernels of control flow: who gets the value, and who gets DEAD."""

import pytest
import torch

from tests.ops.graph_runner import context
from tests.runtime.loops import choice
from tracer.model.graph import Input, Node, TensorSpec
from tracer.ops.infer import infer_specs
from tracer.ops.kernel import DEAD, Kernel, OpError
from tracer.ops.registry import lookup

X = torch.tensor([1.0, 2.0])


def kernel(op: str) -> Kernel:
    return lookup(op).bind(Node("n", op, (Input("x"),)), context())


@pytest.mark.parametrize(("taken", "expected"), [(True, (DEAD, X)), (False, (X, DEAD))])
def test_a_switch_hands_its_value_to_one_side(taken: bool, expected: tuple[object, object]) -> None:
    got = kernel("Switch")(X, torch.tensor(taken))
    assert all(a is b for a, b in zip(got, expected, strict=True))


def test_a_merge_takes_the_first_that_lives_and_says_which() -> None:
    value, index = kernel("Merge")(DEAD, X, DEAD)
    assert value is X
    assert (index.item(), index.dtype) == (1, torch.int32)
    with pytest.raises(OpError, match="all its inputs are dead"):
        kernel("Merge")(DEAD, DEAD)


@pytest.mark.parametrize("op", ["Enter", "Exit", "NextIteration", "LoopCond"])
def test_what_moves_a_value_between_frames_leaves_it_as_it_is(op: str) -> None:
    value = torch.tensor(True)
    assert kernel(op)(value) is value


@pytest.mark.parametrize(("op", "inputs"), [("Switch", (X, X)), ("LoopCond", (X,))])
def test_a_choice_needs_a_scalar(op: str, inputs: tuple[torch.Tensor, ...]) -> None:
    with pytest.raises(OpError, match=rf"{op} needs a scalar .* \[2\]") as wrong:
        kernel(op)(*inputs)
    assert wrong.value.code == "INVALID_ARGUMENT"


def test_shapes_go_through_a_cond() -> None:
    graph = choice()
    specs = infer_specs(graph)
    assert specs["out"] == (TensorSpec("float32", (2,)),)
    of_merges = [specs[name] for name, node in graph.items() if node.op == "Merge"]
    assert of_merges == [(TensorSpec("float32", (2,)), TensorSpec("int32", ()))]
