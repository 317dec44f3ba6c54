"""Layers, activations, losses, and their gradients (TF `nn_ops.cc`)."""

import torch
from torch.nn import functional

from tracer.model.graph import Node
from tracer.ops.kernel import Kernel, OpContext, OpDef, direct
from tracer.ops.shapes import bias_grad, broadcast_by, losses, same

Tensor = torch.Tensor


def _bind_bias_add(node: Node, _context: OpContext) -> Kernel:
    """NCHW has its channels in dim 1, else they are last."""
    if node.attrs.get("data_format") == "NCHW":
        return lambda x, bias: torch.add(x, bias.reshape(-1, *[1] * (x.dim() - 2)))
    return torch.add


def _bind_bias_add_grad(node: Node, _context: OpContext) -> Kernel:
    if node.attrs.get("data_format") == "NCHW":
        return lambda grad: grad.sum([dim for dim in range(grad.dim()) if dim != 1])
    return lambda grad: grad.sum(tuple(range(grad.dim() - 1)))


_threshold_backward = torch.ops.aten.threshold_backward.default._op


def _relu_grad(grad: Tensor, features: Tensor) -> Tensor:
    gradient: Tensor = _threshold_backward(grad, features, 0)
    return gradient


def _relu6(x: Tensor) -> Tensor:
    return torch.clamp(x, 0, 6)


def _relu6_grad(grad: Tensor, features: Tensor) -> Tensor:
    return grad * ((features > 0) & (features < 6))


def _bind_leaky_relu(node: Node, _context: OpContext) -> Kernel:
    alpha = float(node.attrs.get("alpha", 0.2))
    return lambda x: functional.leaky_relu(x, alpha)


def _bind_leaky_relu_grad(node: Node, _context: OpContext) -> Kernel:
    alpha = float(node.attrs.get("alpha", 0.2))
    return lambda grad, features: torch.where(features > 0, grad, grad * alpha)


def _elu_grad(grad: Tensor, outputs: Tensor) -> Tensor:
    return torch.where(outputs < 0, (outputs + 1) * grad, grad)


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.7580993408473768  # alpha times scale


def _selu_grad(grad: Tensor, outputs: Tensor) -> Tensor:
    return torch.where(outputs < 0, grad * (outputs + _SELU_ALPHA), grad * _SELU_SCALE)


def _softplus_grad(grad: Tensor, features: Tensor) -> Tensor:
    return grad * torch.sigmoid(features)


def _softsign_grad(grad: Tensor, features: Tensor) -> Tensor:
    return grad / torch.square(1 + torch.abs(features))


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
    "Elu": functional.elu,
    "EluGrad": _elu_grad,
    "LogSoftmax": _log_softmax,
    "Relu": torch.relu,
    "Relu6": _relu6,
    "Relu6Grad": _relu6_grad,
    "ReluGrad": _relu_grad,
    "Selu": functional.selu,
    "SeluGrad": _selu_grad,
    "SigmoidGrad": _sigmoid_grad,
    "Softmax": _softmax,
    "Softplus": functional.softplus,
    "SoftplusGrad": _softplus_grad,
    "Softsign": functional.softsign,
    "SoftsignGrad": _softsign_grad,
    "TanhGrad": _tanh_grad,
}  #: the softmaxes are not, but have the same shape rule

OPS: tuple[OpDef, ...] = (
    *(
        direct(name, kernel, infer=broadcast_by(kernel), alike=slice(None))
        for name, kernel in ELEMENTWISE.items()
    ),
    OpDef("BiasAdd", _bind_bias_add, infer=same, alike=slice(None)),
    OpDef("BiasAddGrad", _bind_bias_add_grad, infer=bias_grad),
    OpDef("LeakyRelu", _bind_leaky_relu, infer=same),
    OpDef("LeakyReluGrad", _bind_leaky_relu_grad, infer=same, alike=slice(None)),
    direct(
        "SparseSoftmaxCrossEntropyWithLogits", _sparse_cross_entropy, num_outputs=2, infer=losses
    ),
    direct(
        "SoftmaxCrossEntropyWithLogits",
        _cross_entropy,
        num_outputs=2,
        infer=losses,
        alike=slice(None),
    ),
    direct("L2Loss", _l2_loss),
)
