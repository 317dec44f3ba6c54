"""Layers, activations, losses, and their gradients (TF `nn_ops.cc`)."""

import torch
from torch.nn import functional

from tracer.ops.kernel import Kernel, OpDef, direct
from tracer.ops.shapes import broadcast_by, last_dim, losses

Tensor = torch.Tensor


def _bias_add_grad(grad: Tensor) -> Tensor:
    return grad.sum(tuple(range(grad.dim() - 1)))


_threshold_backward = torch.ops.aten.threshold_backward.default._op


def _relu_grad(grad: Tensor, features: Tensor) -> Tensor:
    gradient: Tensor = _threshold_backward(grad, features, 0)
    return gradient


def _softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def _log_softmax(x: Tensor) -> Tensor:
    return torch.log_softmax(x, -1)


def _sparse_cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Loss per row, and its gradient with respect to the logits (both outputs, as in TF)."""
    log_p = torch.log_softmax(logits, -1)
    labels = labels.long().unsqueeze(-1)
    loss = torch.neg(log_p.gather(-1, labels)).squeeze(-1)
    gradient = log_p.exp().scatter_add(-1, labels, torch.full_like(loss, -1).unsqueeze(-1))
    return loss, gradient


def _cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    log_p = torch.log_softmax(logits, -1)
    return torch.neg((labels * log_p).sum(-1)), torch.sub(log_p.exp(), labels)


def _l2_loss(x: Tensor) -> Tensor:
    return torch.sum(x * x) / 2


def _tanh_grad(y: Tensor, grad: Tensor) -> Tensor:
    return grad * (1 - y * y)


def _sigmoid_grad(y: Tensor, grad: Tensor) -> Tensor:
    return grad * y * (1 - y)


ELEMENTWISE: dict[str, Kernel] = {
    "BiasAdd": torch.add,
    "Elu": functional.elu,
    "LogSoftmax": _log_softmax,
    "Relu": torch.relu,
    "ReluGrad": _relu_grad,
    "SigmoidGrad": _sigmoid_grad,
    "Softmax": _softmax,
    "Softplus": functional.softplus,
    "TanhGrad": _tanh_grad,
}  #: the softmaxes are not, but have the same shape rule

OPS: tuple[OpDef, ...] = (
    *(direct(name, kernel, infer=broadcast_by(kernel)) for name, kernel in ELEMENTWISE.items()),
    direct("BiasAddGrad", _bias_add_grad, infer=last_dim),
    direct(
        "SparseSoftmaxCrossEntropyWithLogits", _sparse_cross_entropy, num_outputs=2, infer=losses
    ),
    direct("SoftmaxCrossEntropyWithLogits", _cross_entropy, num_outputs=2, infer=losses),
    direct("L2Loss", _l2_loss),
)
