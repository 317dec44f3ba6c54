"""Shape rules: what an output will be, for ops where that is cheaper said than tried.

Without a rule a kernel is run on torch's meta tensors, whose rules take a second to import. Inputs
of a rule are tensors with or without data (real where the host reads them), or variables.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tracer.model.graph import Node, TensorSpec
from tracer.ops.dtypes import dtype_name, spec_of
from tracer.ops.kernel import Infer, Kernel

Specs = tuple[TensorSpec, ...]


def broadcast_by(kernel: Kernel) -> Infer:
    """Of an op that works element by element; its dtype is tried on tensors without elements."""

    def infer(_node: Node, inputs: list[Any]) -> Specs:
        shape = np.broadcast_shapes(*(tuple(each.shape) for each in inputs))
        tried = kernel(*(torch.empty(0, dtype=each.dtype) for each in inputs))
        return (TensorSpec(dtype_name(tried.dtype), tuple(shape)),)

    return infer


def reduced_by(dims_of: Callable[[torch.Tensor, int], tuple[int, ...]], dtype: str = "") -> Infer:
    """Of a reduction over the dims that input 1 names; `dtype` where it is not that of input 0."""

    def infer(node: Node, inputs: list[Any]) -> Specs:
        x, axis = inputs
        dims = dims_of(axis, x.dim())
        keep = bool(node.attrs.get("keep_dims", node.attrs.get("keepdims", False)))
        sizes = enumerate(x.shape)
        shape = tuple(1 if dim in dims else n for dim, n in sizes if keep or dim not in dims)
        return (TensorSpec(dtype or dtype_name(x.dtype), shape),)

    return infer


def same(_node: Node, inputs: list[Any]) -> Specs:
    """Of an op that hands its first input on."""
    return (spec_of(inputs[0]),)


def matmul(node: Node, inputs: list[Any]) -> Specs:
    a, b = inputs
    rows = a.shape[1 if node.attrs.get("transpose_a") else 0]
    columns = b.shape[0 if node.attrs.get("transpose_b") else 1]
    return (TensorSpec(dtype_name(a.dtype), (rows, columns)),)


def bias_grad(node: Node, inputs: list[Any]) -> Specs:
    """Of what sums all dims but that of the channels."""
    channels = inputs[0].shape[1 if node.attrs.get("data_format") == "NCHW" else -1]
    return (TensorSpec(dtype_name(inputs[0].dtype), (channels,)),)


def losses(_node: Node, inputs: list[Any]) -> Specs:
    """A loss per row of the logits, and the gradient of each logit."""
    logits = spec_of(inputs[0])
    return TensorSpec(logits.dtype, logits.shape[:-1]), logits


def of_value(_node: Node, inputs: list[Any]) -> Specs:
    """Of an assignment, which hands on what it assigned."""
    return (spec_of(inputs[1]),)


def of_variable(_node: Node, inputs: list[Any]) -> Specs:
    """What an update hands on: the new value, which has the form of the old one."""
    return (spec_of(inputs[0].value),)
