"""Attention as a graph captured on a CPU has it, for devices that are none.

torch captures `scaled_dot_product_attention` as the kernel it would call, which for CPU tensors is
one that only a CPU has. These compute the same, with outputs laid out in memory alike.
"""

import torch

from tracer.ops.kernel import Kernel

Tensor = torch.Tensor


def _scores(
    query: Tensor, key: Tensor, is_causal: bool, mask: Tensor | None, scale: float | None
) -> Tensor:
    scores = query @ key.transpose(-2, -1) * _scale(query, scale)
    if mask is not None:
        scores = scores + mask
    if not is_causal:
        return scores
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(later, -torch.inf)


def _scale(query: Tensor, scale: float | None) -> float:
    return query.shape[-1] ** -0.5 if scale is None else scale


def _laid_out(x: Tensor) -> Tensor:
    """Batch, position, head, element in memory, as what follows was captured for."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The output and, for the way back, the logarithm of each row's sum; a CPU drops nothing."""
    del dropout_p
    scores = _scores(query, key, is_causal, attn_mask, scale)
    sums = torch.logsumexp(scores, -1)
    return _laid_out(torch.exp(scores - sums.unsqueeze(-1)) @ value), sums


def attend_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    del dropout_p
    scores = _scores(query, key, is_causal, attn_mask, scale)
    weights = torch.exp(scores - logsumexp.unsqueeze(-1))
    of_weights = grad_out @ value.transpose(-2, -1)
    inner = (grad_out * out).sum(-1, keepdim=True)
    of_scores = weights * (of_weights - inner) * _scale(query, scale)
    return (
        _laid_out(of_scores @ key),
        _laid_out(of_scores.transpose(-2, -1) @ query),
        _laid_out(weights.transpose(-2, -1) @ grad_out),
    )


_NAME = "aten._scaled_dot_product_flash_attention_for_cpu"
OF_OTHER_DEVICES: dict[str, Kernel] = {
    f"{_NAME}.default": attend,
    f"{_NAME}_backward.default": attend_backward,
}
