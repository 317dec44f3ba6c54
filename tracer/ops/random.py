"""Random numbers as a function of their inputs: a generator goes in and its state comes out."""

from typing import Any

import torch

from tracer.ops.kernel import Kernel

Tensor = torch.Tensor


def generator_from(start: Tensor, device: torch.device) -> torch.Generator:
    """From a seed (an integer), or from the state that a generator of this kind of device left."""
    generator = torch.Generator(device)
    if start.dtype == torch.uint8:
        return generator.set_state(start.cpu())
    return generator.manual_seed(int(start))


def drawing(op: Kernel, device: torch.device) -> Kernel:
    """`op`, which takes a generator: it gets one from `generator`, and leaves its state last."""

    def draw(*args: Any, generator: Tensor, **kwargs: Any) -> tuple[Any, ...]:
        source = generator_from(generator, device)
        made = op(*args, generator=source, **kwargs)
        return (
            (*made, source.get_state()) if isinstance(made, tuple) else (made, source.get_state())
        )

    return draw


def bernoulli(like: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    """Draws in the order in which `like` lies in memory, as Dropout does.

    The overload draws in the order of rows, another one where a tensor is turned.
    """
    return torch.empty_like(like).bernoulli_(p, generator=generator)
