"""Variables: read, assigned, updated out of place, and never used before they have a value."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.ops.graph_runner import PlainResources, PlainVariable, context
from tracer.model.graph import Node
from tracer.ops.kernel import OpError
from tracer.ops.registry import lookup

W = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
G = torch.tensor([[0.5, 1.0], [2.0, 0.0], [1.0, 1.0]])
RATE = torch.tensor(0.1)


def variable(value: Tensor | None = W) -> PlainVariable:
    made = PlainVariable("w")
    made.value = value
    return made


def run(op: str, *inputs: Any, **attrs: Any) -> Any:
    return lookup(op).bind(Node("n", op, attrs=attrs), context())(*inputs)


def test_a_handle_is_the_variable_of_its_shared_name() -> None:
    resources = PlainResources()
    node = Node("here", "VarHandleOp", attrs={"shared_name": "w", "container": "c"})
    handle = lookup("VarHandleOp").bind(node, context(resources))()
    assert handle is resources.variable("c", "w")


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("ReadVariableOp", ()),
        ("ResourceGather", (torch.tensor([0]),)),
        ("AssignAddVariableOp", (G,)),
        ("ResourceApplyGradientDescent", (RATE, G)),
        ("ResourceScatterAdd", (torch.tensor([0]), G[:1])),
    ],
)
def test_an_uninitialized_variable_is_named_with_the_remedy(
    op: str, inputs: tuple[Tensor, ...]
) -> None:
    with pytest.raises(OpError, match=r"uninitialized value w: .* init target") as failed:
        run(op, variable(None), *inputs)
    assert failed.value.code == "FAILED_PRECONDITION"


@pytest.mark.parametrize("op", ["VarIsInitializedOp", "IsVariableInitialized"])
def test_one_may_ask_whether_it_is_initialized(op: str) -> None:
    assert run(op, variable()).item()
    assert not run(op, variable(None)).item()


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        ("AssignVariableOp", (G,), G),
        ("AssignAddVariableOp", (G,), W + G),
        ("AssignSubVariableOp", (G,), W - G),
        ("ResourceApplyGradientDescent", (RATE, G), W - 0.1 * G),
        ("ResourceScatterAdd", (torch.tensor([2, 0, 2]), G), W + G[[1, 1, 1]] * 0),
        (
            "ResourceScatterSub",
            (torch.tensor([1]), G[:1]),
            W - torch.stack([W[0] * 0, G[0], W[0] * 0]),
        ),
        ("ResourceScatterUpdate", (torch.tensor([1]), G[:1]), torch.stack([W[0], G[0], W[2]])),
    ],
)
def test_updates_make_a_new_value_and_count_a_version(
    op: str, inputs: tuple[Tensor, ...], expected: Tensor
) -> None:
    if op == "ResourceScatterAdd":  # rows may repeat: both are added
        expected = torch.stack([W[0] + G[1], W[1], W[2] + G[0] + G[2]])
    changed, before = variable(), W.clone()
    run(op, changed, *inputs)
    torch.testing.assert_close(changed.value, expected)
    assert changed.version == 1
    assert torch.equal(W, before)


def test_a_ref_op_hands_on_the_new_value() -> None:
    assert torch.equal(run("AssignAdd", variable(), G), W + G)


def test_what_was_read_before_an_update_stays_as_it_was() -> None:
    changed = variable()
    snapshot = run("ReadVariableOp", changed)
    run("ResourceApplyGradientDescent", changed, RATE, G)
    assert torch.equal(snapshot, W)
    assert not torch.equal(run("ReadVariableOp", changed), W)


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_is_torchs_sgd(nesterov: bool) -> None:
    weight, slot = variable(), variable(torch.zeros_like(W))
    leaf = torch.nn.Parameter(W.clone())
    reference = torch.optim.SGD([leaf], lr=0.1, momentum=0.9, nesterov=nesterov)
    for _ in range(3):
        operands = (RATE, G, torch.tensor(0.9))
        run("ResourceApplyMomentum", weight, slot, *operands, use_nesterov=nesterov)
        leaf.grad = G.clone()
        reference.step()
    torch.testing.assert_close(weight.value, leaf.detach())


def test_a_gradient_of_another_shape_is_refused_not_broadcast() -> None:
    with pytest.raises(OpError, match=r"shape \[3, 2\], its gradient has shape \[1, 2\]"):
        run("ResourceApplyGradientDescent", variable(), RATE, G[:1])


def test_a_value_of_another_shape_is_refused_unless_the_node_allows_it() -> None:
    with pytest.raises(OpError, match=r"the value assigned has shape \[2\]"):
        run("Assign", variable(), G[0])
    changed = variable()
    run("Assign", changed, G[0], validate_shape=False)
    assert torch.equal(changed.value, G[0])  # type: ignore[arg-type]


def test_a_value_of_another_dtype_is_refused_by_both_names() -> None:
    with pytest.raises(OpError, match="has dtype float32, the value assigned has dtype int64"):
        run("AssignVariableOp", variable(), G.long(), dtype="float32")


def test_a_gather_reads_rows_in_the_shape_of_its_indices() -> None:
    got = run("ResourceGather", variable(), torch.tensor([[2, 0]]))
    assert torch.equal(got, W[torch.tensor([[2, 0]])])
