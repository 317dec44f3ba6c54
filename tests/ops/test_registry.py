"""Ops by name: found, refused, bound once, and equal to torch."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.ops.graph_runner import PlainResources, context
from tracer.model.graph import Input, Literal, Node
from tracer.ops.aten import QUICK, template_of
from tracer.ops.kernel import OpError
from tracer.ops.registry import TABLE, UnknownOp, lookup

X = torch.tensor([[1.0, 4.0, -2.0], [0.5, 2.0, 9.0]])


def aten(op: str, args: list[object], num_inputs: int = 2, **kwargs: object) -> Any:
    inputs = tuple(Input("x") for _ in range(num_inputs))
    node = Node("n", op, inputs, attrs={"args": args, "kwargs": kwargs})
    return lookup(op).bind(node, context())


def test_an_unknown_op_names_the_nearest_ones() -> None:
    with pytest.raises(UnknownOp, match="no op is named 'MatMull'; did you mean MatMul"):
        lookup("MatMull")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("aten.add_.Tensor", "writes into its arguments"),
        ("aten.native_batch_norm.default", "may not run"),
        ("aten.from_file.default", "may not run"),
        ("aten.item.default", "outputs must be tensors"),
        ("aten.mm.nonsense", "it has default"),
        ("aten.softmaxx.int", "has no operator .softmaxx."),
        ("aten.__class__.x", "may not run"),
        ("aten.mm", "aten.OPERATOR.OVERLOAD"),
    ],
)
def test_only_functional_aten_overloads_run(name: str, why: str) -> None:
    with pytest.raises(UnknownOp, match=why):
        lookup(name)


def test_a_matmul_without_transposes_is_torchs_own_function() -> None:
    assert lookup("MatMul").bind(Node("m", "MatMul"), context()) is torch.mm


def test_an_aten_call_with_plain_inputs_adds_no_python() -> None:
    assert aten("aten.mm.default", [{"input": 0}, {"input": 1}]) is torch.mm


def test_constants_of_an_aten_call_come_from_its_attributes() -> None:
    kernel = aten("aten.sum.dim_IntList", [{"input": 0}, [0], True], dtype={"dtype": "float64"})
    assert torch.equal(kernel(X), X.double().sum(0, keepdim=True))


def test_an_aten_call_takes_lists_of_inputs() -> None:
    kernel = aten("aten.cat.default", [[{"input": 0}, {"input": 1}], 1])
    assert torch.equal(kernel(X, X), torch.cat([X, X], 1))


def test_the_name_of_an_argument_is_never_code() -> None:
    with pytest.raises(LookupError, match="is no argument of aten"):
        aten("aten.mm.default", [{"input": 0}], **{"x=exit()": 1})


@pytest.mark.parametrize("number", [-1, 2, 10**12])
def test_an_argument_is_an_input_that_there_is(number: int) -> None:
    with pytest.raises(LookupError, match=f"input {number} of 2"):
        aten("aten.neg.default", [{"input": number}])


def test_what_comes_from_no_input_is_made_on_the_nodes_device() -> None:
    node = Node("n", "aten.ones.default", attrs={"args": [[2]]})
    meta = replace(context(), torch_device=torch.device("meta"))
    assert lookup(node.op).bind(node, meta)().device.type == "meta"


@pytest.mark.parametrize(
    "value",
    [None, 3, True, "floor", 2.5, [1, [2.0]], torch.float32, torch.preserve_format, torch.strided],
)
def test_constants_survive_the_way_through_a_node(value: object) -> None:
    kernel = aten("aten.mm.default", [{"input": 0}, template_of(value)])
    constants = [v for k, v in kernel.__globals__.items() if k.startswith("c")]
    assert constants == [value]


def test_infinity_is_a_constant_too() -> None:
    kernel = aten("aten.add.Tensor", [{"input": 0}, template_of(float("-inf"))])
    assert torch.equal(kernel(X), torch.full_like(X, float("-inf")))


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_binding_gives_the_overloads_bits(name: str) -> None:
    square, bias, cube = torch.randn(3, 3), torch.randn(3), torch.randn(2, 3, 3)
    images, filters = torch.randn(2, 1, 4, 4), torch.randn(2, 1, 3, 3)
    arguments: dict[str, tuple[object, ...]] = {
        "aten._log_softmax.default": (square, 1, False),
        "aten._log_softmax_backward_data.default": (square, square, 1, torch.float32),
        "aten._unsafe_view.default": (square, [9]),
        "aten.addmm.default": (bias, square, square),
        "aten.bmm.default": (cube, cube),
        "aten.cat.default": ([square, square], 1),
        "aten.convolution.default": (
            *(images, filters, bias[:2], [2, 2], [1, 1], [1, 1], False, [0, 0], 1),
        ),
        "aten.embedding.default": (square, torch.tensor([2, 0]), 1),
        "aten.expand.default": (bias, [3, 3]),
        "aten.native_layer_norm.default": (square, [3], bias, bias, 1e-5),
        "aten.stack.default": ([square, square], 1),
        "aten.sum.dim_IntList": (square, [0], True),
        "aten.transpose.int": (cube, 1, 2),
        "aten.view.default": (square, [9]),
        "aten.add.Tensor": (square, bias),
        "aten.mm.default": (square, square),
        "aten.mul.Tensor": (square, 0.5),
        "aten.sub.Tensor": (square, bias),
    }
    arguments["aten.bernoulli.p"] = (square, 1.0)  # what is drawn: see test_random
    given = arguments.get(name, (square,))
    overload = getattr(getattr(torch.ops.aten, name.split(".")[1]), name.split(".")[2])
    assert all(map(torch.equal, _all(QUICK[name](*given)), _all(overload(*given))))


def _all(outputs: Any) -> tuple[torch.Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def test_a_view_of_what_lies_otherwise_than_it_did_in_the_capture_is_a_copy() -> None:
    kernel = aten("aten.view.default", [{"input": 0}, [6]], num_inputs=1)
    turned = X.t()
    assert torch.equal(kernel(turned), turned.contiguous().view(6))


def test_an_unfed_placeholder_says_tensorflows_words() -> None:
    node = Node("x", "Placeholder", attrs={"dtype": "float32", "shape": [2, 3]})
    with pytest.raises(OpError) as failed:
        lookup("Placeholder").bind(node, context())()
    assert failed.value.code == "INVALID_ARGUMENT"
    assert str(failed.value) == (
        "You must feed a value for placeholder tensor 'x' with dtype float and shape [2,3]"
    )


def test_a_transfer_node_has_no_kernel() -> None:
    assert lookup("_Send").is_transfer
    with pytest.raises(OpError, match="its executor must run it itself"):
        lookup("_Recv").bind(Node("r", "_Recv"), context())


def test_a_const_is_made_once() -> None:
    node = Node("c", "Const", attrs={"value": Literal("int32", (2,), b"\1\0\0\0\2\0\0\0")})
    kernel = lookup("Const").bind(node, context())
    assert kernel() is kernel()
    assert kernel().tolist() == [1, 2]


def test_errors_of_kernels_get_tensorflows_codes() -> None:
    with pytest.raises(RuntimeError) as failed:
        torch.mm(X, X)
    assert OpError.of(failed.value).code == "INVALID_ARGUMENT"
    assert OpError.of(MemoryError("no room")).code == "RESOURCE_EXHAUSTED"
    assert OpError.of(ZeroDivisionError("by zero")).code == "INTERNAL"


def test_every_op_says_how_many_outputs_it_has() -> None:
    attrs = {"num": 2, "num_split": 2, "num_partitions": 2, "dtypes": ["int32"]}
    node = Node("n", "?", (Input("a"),), attrs={**attrs, "component_types": ["int32"]})
    assert all(isinstance(op.outputs_of(node), int) for op in TABLE.values())
    assert PlainResources().variable("", "v").value is None


def test_what_gives_a_gpu_nothing_to_do_is_known() -> None:
    views = ["aten.t.default", "aten.view.default", "aten.detach.default", "VarHandleOp"]
    views += ["ReadVariableOp", "Const", "Identity", "Shape", "NoOp", "_Send", "_Recv"]
    assert all(lookup(name).is_view for name in views)
    work = ["aten.mm.default", "aten.relu.default", "MatMul", "Reshape", "AssignVariableOp"]
    assert not any(lookup(name).is_view for name in work)
