"""The gradients pass adds nodes that compute what torch's autograd computes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.ops.graph_runner import GraphRunner
from tracer.model.graph import GraphError, Input
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.gradients import GRADIENTS
from tracer.passes.gradients import gradients

Compute = Callable[..., Tensor | tuple[Tensor, ...]]


def ints(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def number(value: int) -> Tensor:
    return torch.tensor(value, dtype=torch.int32)


_DRAWS = torch.Generator().manual_seed(3)


def drawn(*shape: int) -> Tensor:
    """Away from 0 and from each other, so that no kink or tie is near."""
    count = torch.Size(shape).numel()
    order = torch.randperm(count, generator=_DRAWS)
    return ((order + 1) * (1.7 / count)).double().reshape(shape)


A, B, ROW = drawn(3, 4), drawn(3, 4) + 0.03, drawn(4)
SIGNED = drawn(3, 4) - 0.87
CUBE = drawn(2, 3, 4)
ZEROS = SIGNED * torch.tensor([[1, 0, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1]])  # two, one, none in a row
MASK = torch.tensor([True, False, True, False])
LABELS = ints(1, 0, 3)
SHARES = functional.softmax(drawn(3, 4), -1)


def padded(a: Tensor) -> Tensor:
    return functional.pad(a, (0, 3, 1, 2))


#: op, operands, attributes, what torch computes from the operands that are floats
CASES: dict[str, tuple[str, tuple[Tensor, ...], dict[str, Any], Compute]] = {
    "abs": ("Abs", (SIGNED,), {}, torch.abs),
    "add": ("Add", (A, ROW), {}, torch.add),
    "add_n": ("AddN", (A, B, A), {}, lambda a, b, c: a + b + c),
    "add_v2": ("AddV2", (ROW, A), {}, torch.add),
    "add_v2_ones": ("AddV2", (A[:, :1], A), {}, torch.add),
    "batch_matmul": ("BatchMatMulV2", (CUBE, A.T), {}, torch.matmul),
    "batch_matmul_adj": (*("BatchMatMulV2", (CUBE, CUBE), {"adj_x": True}, lambda a, b: a.mT @ b),),
    "bias_add": ("BiasAdd", (A, ROW), {}, torch.add),
    "bias_add_grad": ("BiasAddGrad", (A,), {}, lambda a: a.sum(0)),
    "broadcast_to": ("BroadcastTo", (ROW, ints(3, 4)), {}, lambda a: a.expand(3, 4)),
    "cast": ("Cast", (A,), {"SrcT": "float64", "DstT": "float32"}, lambda a: a.float()),
    "concat": ("ConcatV2", (A, B[:, :2], number(1)), {}, lambda a, b: torch.cat([a, b], 1)),
    "cos": ("Cos", (SIGNED,), {}, torch.cos),
    "cumsum": ("Cumsum", (A, number(1)), {}, lambda a: a.cumsum(1)),
    "cumsum_exclusive": (
        *("Cumsum", (A, number(-1)), {"exclusive": True}),
        lambda a: a.cumsum(-1) - a,
    ),
    "cumsum_reverse": (
        *("Cumsum", (CUBE, number(0)), {"reverse": True}),
        lambda a: a.flip(0).cumsum(0).flip(0),
    ),
    "cumsum_exclusive_reverse": (
        *("Cumsum", (CUBE, number(1)), {"exclusive": True, "reverse": True}),
        lambda a: a.flip(1).cumsum(1).flip(1) - a,
    ),
    "div": ("Div", (A, B), {}, torch.div),
    "dynamic_partition": (
        *("DynamicPartition", (A, ints(1, 0, 1)), {"num_partitions": 2}),
        lambda a: (a[1:2], a[::2]),
    ),
    "dynamic_stitch": (
        *("DynamicStitch", (ints(2, 0), ints(1), A[:2], A[2:]), {}),
        lambda a, b: torch.stack([a[1], b[0], a[0]]),
    ),
    "elu": ("Elu", (SIGNED,), {}, functional.elu),
    "exp": ("Exp", (SIGNED,), {}, torch.exp),
    "expand_dims": ("ExpandDims", (A, number(1)), {}, lambda a: a.unsqueeze(1)),
    "fill": ("Fill", (ints(2, 3), A[0, 0]), {}, lambda a: a.expand(2, 3)),
    "floor_mod": ("FloorMod", (A, B), {}, torch.remainder),
    "gather": ("GatherV2", (A, ints(2, 0, 2), number(0)), {}, lambda a: a[[2, 0, 2]]),
    "identity": ("Identity", (A,), {}, lambda a: a * 1),
    "l2_loss": ("L2Loss", (A,), {}, lambda a: a.square().sum() / 2),
    "log": ("Log", (A,), {}, torch.log),
    "log_softmax": ("LogSoftmax", (SIGNED,), {}, lambda a: a.log_softmax(-1)),
    "matmul": ("MatMul", (A, B.T), {}, torch.mm),
    "matmul_ta": ("MatMul", (A, B), {"transpose_a": True}, lambda a, b: a.T @ b),
    "matmul_tb": ("MatMul", (A, B), {"transpose_b": True}, lambda a, b: a @ b.T),
    "matmul_ta_tb": (
        *("MatMul", (A, B.T), {"transpose_a": True, "transpose_b": True}),
        lambda a, b: a.T @ b.T,
    ),
    "max": ("Max", (A, ints(0)), {}, lambda a: a.amax(0)),
    "max_kept": ("Max", (A, number(-1)), {"keep_dims": True}, lambda a: a.amax(-1, True)),
    "maximum": ("Maximum", (A, B), {}, torch.maximum),
    "mean": ("Mean", (CUBE, ints(0, 2)), {}, lambda a: a.mean((0, 2))),
    "min": ("Min", (A, number(1)), {}, lambda a: a.amin(1)),
    "minimum": ("Minimum", (A, ROW), {}, torch.minimum),
    "mul": ("Mul", (A, ROW), {}, torch.mul),
    "neg": ("Neg", (A,), {}, torch.neg),
    "pack": ("Pack", (A, B), {"axis": 1}, lambda a, b: torch.stack([a, b], 1)),
    "pad": ("Pad", (A, torch.stack([ints(1, 2), ints(0, 3)])), {}, padded),
    "stitch_parallel": (
        *("ParallelDynamicStitch", (ints(1), ints(0), A[:1], A[1:2]), {}),
        lambda a, b: torch.cat([b, a]),
    ),
    "default": ("PlaceholderWithDefault", (A,), {}, lambda a: a * 1),
    "pow": ("Pow", (A, B), {}, torch.pow),
    "real_div": ("RealDiv", (A, ROW), {}, torch.div),
    "prod": ("Prod", (A, ints(0)), {}, lambda a: a.prod(0)),
    "prod_kept": ("Prod", (SIGNED, number(-1)), {"keep_dims": True}, lambda a: a.prod(-1, True)),
    "prod_of_zeros": ("Prod", (ZEROS, ints(1)), {}, lambda a: a.prod(1)),
    "prod_all": ("Prod", (ZEROS[1:], ints(0, 1)), {}, torch.prod),
    "prod_some": ("Prod", (CUBE, ints(2, 0)), {}, lambda a: a.prod(2).prod(0)),
    "prod_of_no_axes": ("Prod", (A, ints()), {}, lambda a: a * 1),
    "reciprocal": ("Reciprocal", (A,), {}, torch.reciprocal),
    "relu": ("Relu", (SIGNED,), {}, torch.relu),
    "relu_grad": ("ReluGrad", (A, SIGNED), {}, lambda a, b: a * (b > 0) + 0 * b),
    "reshape": ("Reshape", (A, ints(2, 6)), {}, lambda a: a.reshape(2, 6)),
    "rsqrt": ("Rsqrt", (A,), {}, torch.rsqrt),
    "select": ("Select", (A > B, A, B), {}, lambda a, b: torch.where(A > B, a, b)),
    "select_v2": ("SelectV2", (MASK, ROW, A), {}, lambda a, b: torch.where(MASK, a, b)),
    "sigmoid": ("Sigmoid", (SIGNED,), {}, torch.sigmoid),
    "sin": ("Sin", (SIGNED,), {}, torch.sin),
    "slice": ("Slice", (A, ints(1, 0), ints(-1, 2)), {}, lambda a: a[1:, :2]),
    "softmax": ("Softmax", (SIGNED,), {}, lambda a: a.softmax(-1)),
    "softmax_cross_entropy": (
        *("SoftmaxCrossEntropyWithLogits", (SIGNED, SHARES), {}),
        lambda a, b: -(b * a.log_softmax(-1)).sum(-1),
    ),
    "softplus": ("Softplus", (SIGNED,), {}, functional.softplus),
    "sparse_softmax_cross_entropy": (
        *("SparseSoftmaxCrossEntropyWithLogits", (SIGNED, LABELS), {}),
        lambda a: functional.cross_entropy(a, LABELS.long(), reduction="none"),
    ),
    "split": ("Split", (number(1), A), {"num_split": 2}, lambda a: a.chunk(2, 1)),
    "sqrt": ("Sqrt", (A,), {}, torch.sqrt),
    "square": ("Square", (A,), {}, torch.square),
    "squeeze": ("Squeeze", (A[:, :1],), {"squeeze_dims": [1]}, lambda a: a.squeeze(1)),
    "strided_slice": (
        *("StridedSlice", (A, ints(0, 1), ints(3, 2), ints(2, 1)), {"shrink_axis_mask": 2}),
        lambda a: a[0:3:2, 1],
    ),
    "sub": ("Sub", (ROW, A), {}, torch.sub),
    "sum": ("Sum", (CUBE, ints(1)), {"keep_dims": True}, lambda a: a.sum(1, True)),
    "sum_all": ("Sum", (A, ints(0, 1)), {}, lambda a: a.sum()),
    "tanh": ("Tanh", (SIGNED,), {}, torch.tanh),
    "tile": ("Tile", (A, ints(2, 3)), {}, lambda a: a.tile(2, 3)),
    "transpose": ("Transpose", (CUBE, ints(2, 0, 1)), {}, lambda a: a.permute(2, 0, 1)),
    "unpack": ("Unpack", (A,), {"num": 3, "axis": 0}, lambda a: a.unbind(0)),
}


def weights(shape: torch.Size) -> Tensor:
    return torch.linspace(-1, 2, shape.numel()).double().reshape(shape)


@pytest.mark.parametrize("shapes_known", [True, False], ids=["shapes", "no_shapes"])
@pytest.mark.parametrize("name", CASES)
def test_the_gradient_of_an_op_is_autograds(name: str, shapes_known: bool) -> None:
    op, operands, attrs, compute = CASES[name]
    is_float = [operand.is_floating_point() for operand in operands]
    leaves = [
        operand.clone().requires_grad_() for operand in operands if operand.is_floating_point()
    ]
    outputs = compute(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    weighed = [weights(output.shape).to(output.dtype) for output in outputs]
    expected = torch.autograd.grad(outputs, leaves, weighed)

    b, feeds = GraphBuilder(), {}
    inputs = []
    for number_, operand in enumerate(operands):
        if not is_float[number_]:
            dtype = "bool" if operand.dtype == torch.bool else "int32"
            inputs.append(b.const(operand.tolist(), dtype))
            continue
        shape = list(operand.shape) if shapes_known else None
        inputs.append(b.op("Placeholder", name=f"x{number_}", dtype="float64", shape=shape))
        feeds[f"x{number_}"] = operand
    y = b.op(op, *inputs, name="y", **attrs)
    ys = [y._replace(port=port) for port in range(len(outputs))]
    given = [b.op("Placeholder", name=f"dy{port}", dtype="float64") for port in range(len(ys))]
    feeds |= {f"dy{port}": weight for port, weight in enumerate(weighed)}
    xs = [source for source, wanted in zip(inputs, is_float, strict=True) if wanted]
    graph, grads = gradients(b.graph(), ys, xs, given)

    assert None not in grads
    found = GraphRunner(graph).run(*map(str, grads), feeds=feeds)
    for ours, theirs, operand in zip(found, expected, leaves, strict=True):
        assert ours is not None
        assert ours.shape == operand.shape
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-6, atol=1e-6)


def test_every_rule_has_a_case() -> None:
    beside = {"ReadVariableOp", "ResourceGather"}  # they need a variable
    assert {case[0] for case in CASES.values()} | beside == set(GRADIENTS)


def test_a_value_used_twice_gets_the_sum_of_what_comes_back() -> None:
    b = GraphBuilder()
    x = b.placeholder([2], name="x")
    y = b.op("AddN", x, b.op("Mul", x, x), x)
    graph, (dx,) = gradients(b.graph(), [y], [x])
    (found,) = GraphRunner(graph).run(str(dx), feeds={"x": torch.tensor([1.0, 3.0])})
    assert found is not None
    assert found.tolist() == [4.0, 8.0]


def test_what_a_loss_does_not_depend_on_has_no_gradient() -> None:
    b = GraphBuilder()
    x, z = b.placeholder([2], name="x"), b.placeholder([2], name="z")
    stopped = b.op("StopGradient", z)
    y = b.op("Mul", x, stopped)
    graph, grads = gradients(b.graph(), [y], [z])
    assert grads == [None]
    assert set(graph) == {*b.graph(), "gradients/ones"}


def test_rows_of_a_variable_that_are_read_often_get_the_sum() -> None:
    b = GraphBuilder()
    v = b.op("VarHandleOp", name="v", dtype="float32", shape=[3, 2])
    init = b.op("AssignVariableOp", v, b.const([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), name="init")
    rows = b.op("ResourceGather", v, b.const([2, 0, 2], "int32"))
    y = b.op("Square", rows)
    graph, (dv,) = gradients(b.graph(), [y], [v])
    runner = GraphRunner(graph)
    runner.run(init.node)
    (found,) = runner.run(str(dv))
    assert found is not None
    assert found.tolist() == [[2.0, 4.0], [0.0, 0.0], [20.0, 24.0]]


def test_a_variable_that_is_read_gets_the_gradient_of_its_value() -> None:
    b = GraphBuilder()
    v = b.op("VarHandleOp", name="v", dtype="float32", shape=[2])
    b.op("AssignVariableOp", v, b.const([1.0, 2.0]), name="init")
    y = b.op("Square", b.op("ReadVariableOp", v))
    graph, (dv,) = gradients(b.graph(), [y], [v])
    runner = GraphRunner(graph)
    runner.run("init")
    (found,) = runner.run(str(dv))
    assert found is not None
    assert found.tolist() == [2.0, 4.0]


def test_gradient_nodes_ask_for_the_device_and_tell_the_line_of_their_op() -> None:
    b = GraphBuilder()
    x = b.placeholder([2], name="x")
    with b.device("/job:ps/task:0"):
        y = b.op("Tanh", x, name="y")
    graph, (dx,) = gradients(b.graph(), [y], [x])
    assert dx is not None
    made = graph[dx.node]
    assert (made.name, made.requested_device) == ("gradients/y_grad/TanhGrad", "/job:ps/task:0")
    assert made.source == graph["y"].source


@pytest.mark.parametrize(
    ("op", "says"),
    [
        ("Cumprod", "the op Cumprod of 'y' has no gradient"),
        ("aten.sin.default", "'y' is aten.sin.default: torch differentiates what it captures"),
    ],
)
def test_an_op_without_gradient_is_refused_by_name(op: str, says: str) -> None:
    b = GraphBuilder()
    x = b.placeholder([2], name="x")
    y = b.op(op, x, name="y")
    with pytest.raises(GraphError, match=says):
        gradients(b.graph(), [y], [x])


def test_a_product_along_axes_that_only_a_step_knows_has_no_gradient() -> None:
    b = GraphBuilder()
    x, axes = b.placeholder([2], name="x"), b.placeholder([1], "int32", name="axes")
    y = b.op("Prod", x, axes, name="y")
    with pytest.raises(GraphError, match=r"'y' \(Prod\) has no gradient: it has one along const"):
        gradients(b.graph(), [y], [x])


def test_a_value_inside_a_loop_has_no_gradient_of_its_own() -> None:
    b = GraphBuilder()
    x, seen = b.placeholder([], name="x"), list[Input]()

    def body(value: Input) -> Input:
        seen.append(b.op("Square", value))
        return seen[0]

    (result,) = b.while_loop(lambda value: b.op("Less", value, b.const(9.0)), body, [x])
    with pytest.raises(GraphError, match="lives inside a loop or a branch"):
        gradients(b.graph(), [result], [seen[0]])


def test_a_second_derivative_through_a_loop_is_refused_by_the_op_that_has_none() -> None:
    b = GraphBuilder()
    x, bound = b.placeholder([], name="x"), b.const(9.0)
    (y,) = b.while_loop(lambda v: b.op("Less", v, bound), lambda v: b.op("Square", v), [x])
    graph, (dx,) = gradients(b.graph(), [y], [x])
    assert dx is not None
    with pytest.raises(GraphError, match=r"the op StackPopV2 of .* has no gradient"):
        gradients(graph, [dx], [x])


def test_two_losses_may_go_back_through_one_loop() -> None:
    b = GraphBuilder()
    x, bound = b.placeholder([], name="x"), b.const(9.0)
    (y,) = b.while_loop(lambda v: b.op("Less", v, bound), lambda v: b.op("Square", v), [x])
    graph, _ = gradients(b.graph(), [y], [x])
    again, (dx,) = gradients(graph, [y], [x])
    assert dx is not None
    assert sum(node.op == "StackV2" for node in again.nodes) == 2
