"""Each TF op computes what torch says it should."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.ops.graph_runner import context
from tracer.model.graph import Node
from tracer.ops.kernel import OpError
from tracer.ops.registry import lookup


def run(op: str, *inputs: Tensor, **attrs: Any) -> Any:
    return lookup(op).bind(Node("n", op, attrs=attrs), context())(*inputs)


def ints(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def scalar(value: int) -> Tensor:
    return torch.tensor(value, dtype=torch.int32)


A = torch.tensor([[1.0, 4.0, 2.0], [0.5, 2.0, 9.0]])
B = torch.tensor([[2.0, 3.0, 2.0], [1.5, 0.25, 3.0]])
CUBE = torch.arange(24.0).reshape(2, 3, 4)
LOGITS = torch.tensor([[1.0, 2.0, 0.5], [0.1, -1.0, 3.0]])
LABELS = ints(1, 2)

CASES: dict[str, tuple[str, tuple[Tensor, ...], dict[str, Any], Any]] = {
    "add_n": ("AddN", (A, B, A), {}, A + B + A),
    "argmax": ("ArgMax", (A, scalar(1)), {}, A.argmax(1)),
    "argmin": ("ArgMin", (A, scalar(0)), {"output_type": "int32"}, A.argmin(0).int()),
    "batch_matmul": ("BatchMatMulV2", (CUBE, CUBE.mT), {}, CUBE @ CUBE.mT),
    "batch_matmul_adjoint": ("BatchMatMulV2", (CUBE, CUBE), {"adj_y": True}, CUBE @ CUBE.mT),
    "cast": ("Cast", (A,), {"DstT": "int64"}, A.long()),
    "matmul": ("MatMul", (A, B.t()), {}, A @ B.t()),
    "matmul_ta": ("MatMul", (A, B), {"transpose_a": True}, A.t() @ B),
    "matmul_tb": ("MatMul", (A, B), {"transpose_b": True}, A @ B.t()),
    "matmul_ta_tb": (
        *("MatMul", (A, B.t()), {"transpose_a": True, "transpose_b": True}),
        A.t() @ B,
    ),
    "sum": ("Sum", (CUBE, ints(0, 2)), {}, CUBE.sum((0, 2))),
    "sum_negative_axis": ("Sum", (CUBE, scalar(-1)), {"keep_dims": True}, CUBE.sum(-1, True)),
    "sum_of_no_axis": ("Sum", (CUBE, ints()), {}, CUBE),
    "sum_of_ints_stays_int32": ("Sum", (ints(1, 2, 3), scalar(0)), {}, scalar(6)),
    "mean": ("Mean", (CUBE, ints(0, 1, 2)), {}, CUBE.mean()),
    "max": ("Max", (CUBE, ints(1)), {}, CUBE.amax(1)),
    "min": ("Min", (CUBE, ints(1)), {}, CUBE.amin(1)),
    "prod": ("Prod", (B, ints(0, 1)), {}, B.prod()),
    "all": ("All", (A > 0.6, ints(1)), {}, torch.tensor([True, False])),
    "any": ("Any", (A > 5, ints(1)), {}, torch.tensor([False, True])),
    "shape": ("Shape", (CUBE,), {}, ints(2, 3, 4)),
    "size": ("Size", (CUBE,), {"out_type": "int64"}, torch.tensor(24)),
    "rank": ("Rank", (CUBE,), {}, scalar(3)),
    "reshape": ("Reshape", (CUBE, ints(-1, 4)), {}, CUBE.reshape(-1, 4)),
    "expand_dims": ("ExpandDims", (A, scalar(-1)), {}, A.unsqueeze(-1)),
    "squeeze": ("Squeeze", (A.unsqueeze(0),), {"squeeze_dims": [0]}, A),
    "squeeze_all": ("Squeeze", (A.reshape(1, 2, 1, 3),), {}, A),
    "tile": ("Tile", (A, ints(2, 1)), {}, A.repeat(2, 1)),
    "fill": ("Fill", (ints(2, 2), torch.tensor(7.0)), {}, torch.full((2, 2), 7.0)),
    "broadcast": ("BroadcastTo", (A[:1], ints(2, 3)), {}, A[:1].expand(2, 3)),
    "transpose": ("Transpose", (CUBE, ints(2, 0, 1)), {}, CUBE.permute(2, 0, 1)),
    "range": ("Range", (scalar(1), scalar(8), scalar(3)), {}, ints(1, 4, 7)),
    "zeros_like": ("ZerosLike", (A,), {}, torch.zeros(2, 3)),
    "ones_like": ("OnesLike", (A,), {}, torch.ones(2, 3)),
    "pack": ("Pack", (A, B), {"axis": 1}, torch.stack([A, B], 1)),
    "unpack": ("Unpack", (A,), {"num": 2}, (A[0], A[1])),
    "unpack_one": ("Unpack", (A[:1],), {"num": 1}, A[0]),
    "split": ("Split", (scalar(1), CUBE), {"num_split": 3}, CUBE.tensor_split(3, 1)),
    "concat": ("ConcatV2", (A, B, scalar(1)), {}, torch.cat([A, B], 1)),
    "gather": ("GatherV2", (CUBE, ints(2, 0), scalar(1)), {}, CUBE[:, [2, 0]]),
    "gather_rows": ("GatherV2", (A, LABELS.reshape(1, 2) - 1, scalar(0)), {}, A.unsqueeze(0)),
    "slice": ("Slice", (CUBE, ints(0, 1, 1), ints(1, -1, 2)), {}, CUBE[0:1, 1:, 1:3]),
    "strided": ("StridedSlice", (CUBE, ints(0, 1), ints(2, 3), ints(1, 1)), {}, CUBE[0:2, 1:3]),
    "strided_masks": (
        *("StridedSlice", (CUBE, ints(9, 0, 1, 0), ints(9, 0, 0, 0), ints(1, 1, 2, 1))),
        {"begin_mask": 1, "end_mask": 5, "new_axis_mask": 2, "shrink_axis_mask": 8},
        CUBE[:, None, 1::2, 0],
    ),
    "partition": ("DynamicPartition", (A, ints(1, 0)), {"num_partitions": 2}, (A[1:], A[:1])),
    "stitch": ("DynamicStitch", (ints(2, 0), scalar(1), A, A[0] + 1), {}, None),
    "bias_add": ("BiasAdd", (A, B[0]), {}, A + B[0]),
    "bias_add_grad": ("BiasAddGrad", (CUBE,), {}, CUBE.sum((0, 1))),
    "relu": ("Relu", (LOGITS,), {}, LOGITS.clamp(min=0)),
    "relu_grad": ("ReluGrad", (A, LOGITS), {}, A * (LOGITS > 0)),
    "softmax": ("Softmax", (LOGITS,), {}, LOGITS.softmax(-1)),
    "log_softmax": ("LogSoftmax", (LOGITS,), {}, LOGITS.log_softmax(-1)),
    "l2_loss": ("L2Loss", (A,), {}, (A * A).sum() / 2),
    "elu": ("Elu", (LOGITS,), {}, functional.elu(LOGITS)),
    "softplus": ("Softplus", (LOGITS,), {}, functional.softplus(LOGITS)),
    "identity": ("Identity", (A,), {}, A),
    "stop": ("StopGradient", (A,), {}, A),
    "default": ("PlaceholderWithDefault", (A,), {}, A),
}
CASES["stitch"] = (*CASES["stitch"][:3], torch.stack([A[1], A[0] + 1, A[0]]))


@pytest.mark.parametrize("case", CASES)
def test_an_op_gives_the_value(case: str) -> None:
    op, inputs, attrs, expected = CASES[case]
    torch.testing.assert_close(run(op, *inputs, **attrs), expected)


def gradient_of(loss: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf), leaf)
    return gradient


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "says"),
    [
        ("Unpack", (A,), {"num": 1}, "axis 0 must equal 1, got shape .2, 3."),
        ("Unpack", (A,), {"num": 3, "axis": 0}, "axis 0 must equal 3"),
        ("Split", (scalar(1), A), {"num_split": 2}, r"split_dim 1 \(size = 3\) and num_split 2"),
    ],
)
def test_parts_that_are_not_as_many_as_the_node_has_outputs_are_refused(
    op: str, inputs: tuple[Tensor, ...], attrs: dict[str, Any], says: str
) -> None:
    kernel = lookup(op).bind(Node("n", op, attrs=attrs), context())
    with pytest.raises(OpError, match=says) as failed:
        kernel(*inputs)
    assert failed.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("Squeeze", (A,), {"squeeze_dims": [0]}),
        ("Slice", (A, ints(0, 2), ints(2, 2)), {}),
        ("Tile", (A, ints(2)), {}),
        ("Sum", (A, scalar(2)), {}),
        ("GatherNd", (A, ints(-1).reshape(1, 1)), {}),
        ("DynamicPartition", (A, ints(0, 2)), {"num_partitions": 2}),
    ],
)
def test_what_torch_would_let_pass_is_refused(
    op: str, inputs: tuple[Tensor, ...], attrs: dict[str, Any]
) -> None:
    kernel = lookup(op).bind(Node("n", op, attrs=attrs), context())
    with pytest.raises(OpError) as failed:
        kernel(*inputs)
    assert failed.value.code == "INVALID_ARGUMENT"


def test_integers_divide_as_in_tensorflow() -> None:
    kernel = lookup("Div").bind(Node("n", "Div"), context())
    assert torch.equal(kernel(ints(7, -7, 6), ints(2, 2, -4)), ints(3, -3, -1))
    assert torch.equal(kernel(A, B), A / B)


def test_sparse_cross_entropy_gives_loss_and_gradient() -> None:
    loss, gradient = run("SparseSoftmaxCrossEntropyWithLogits", LOGITS, LABELS)
    torch.testing.assert_close(
        loss, functional.cross_entropy(LOGITS, LABELS.long(), reduction="none")
    )
    torch.testing.assert_close(
        gradient,
        gradient_of(lambda x: functional.cross_entropy(x, LABELS.long(), reduction="sum"), LOGITS),
    )


def test_cross_entropy_gives_loss_and_gradient() -> None:
    target = B.softmax(-1)
    loss, gradient = run("SoftmaxCrossEntropyWithLogits", LOGITS, target)
    torch.testing.assert_close(loss, functional.cross_entropy(LOGITS, target, reduction="none"))
    torch.testing.assert_close(
        gradient,
        gradient_of(lambda x: functional.cross_entropy(x, target, reduction="sum"), LOGITS),
    )


@pytest.mark.parametrize(("op", "function"), [("Tanh", torch.tanh), ("Sigmoid", torch.sigmoid)])
def test_gradients_of_activations_are_autograds(
    op: str, function: Callable[[Tensor], Tensor]
) -> None:
    got = run(f"{op}Grad", function(LOGITS), torch.ones_like(LOGITS))
    torch.testing.assert_close(got, gradient_of(lambda x: function(x).sum(), LOGITS))
