"""Random numbers.

Of captured modules they are a function of their inputs: a generator goes in and its state comes
out. TF's own random ops keep theirs from step to step; from equal seeds they draw what TF draws.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tracer.model.graph import Node, TensorSpec
from tracer.ops import philox
from tracer.ops.dtypes import torch_dtype
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError
from tracer.ops.philox import Philox

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


Numbers = NDArray[Any]

#: (generator, how many, dtype) → the numbers
Draw = Callable[[Philox, int, str], Numbers]


def _uniform(source: Philox, count: int, dtype: str) -> Numbers:
    return philox.fill(source, count, lambda words: philox.uniform(words, dtype))


def _normal(source: Philox, count: int, dtype: str) -> Numbers:
    return philox.fill(source, count, lambda words: philox.normal(words, dtype))


def _own_generator(node: Node) -> Philox:
    """By the node's two seeds; without any, by chance."""
    seed, seed2 = int(node.attrs.get("seed", 0)), int(node.attrs.get("seed2", 0))
    if not seed and not seed2:
        seed, seed2 = torch.seed(), 0
    return Philox.from_seeds(seed, seed2)


def _tensor(numbers: Numbers, shape: list[int], dtype: str, context: OpContext) -> Tensor:
    made = torch.from_numpy(numbers).to(torch_dtype(dtype)).reshape(shape)
    return made.to(context.torch_device)


def _bind_drawn(draw: Draw, node: Node, context: OpContext) -> Kernel:
    source, dtype = _own_generator(node), str(node.attrs["dtype"])

    def drawn(shape: Tensor) -> Tensor:
        sizes = _sizes(shape)
        count = int(np.prod(sizes))
        made = _tensor(draw(source, count, dtype), sizes, dtype, context)
        source.skip(count * philox.RESERVED)
        return made

    return drawn


def _bind_stateless(draw: Draw, node: Node, context: OpContext) -> Kernel:
    dtype = str(node.attrs.get("dtype", "float32"))

    def drawn(shape: Tensor, seed: Tensor) -> Tensor:
        sizes = _sizes(shape)
        numbers = draw(Philox.stateless(seed.tolist()), int(np.prod(sizes)), dtype)
        return _tensor(numbers, sizes, dtype, context)

    return drawn


def _bind_integers(node: Node, context: OpContext) -> Kernel:
    source, dtype = _own_generator(node), str(node.attrs["Tout"])

    def drawn(shape: Tensor, low: Tensor, high: Tensor) -> Tensor:
        first, end, bits = int(low), int(high), 8 * low.element_size()
        if first >= end:
            raise OpError("INVALID_ARGUMENT", f"Need minval < maxval, got {first} >= {end}")
        sizes = _sizes(shape)
        count = int(np.prod(sizes))
        numbers = philox.fill(source, count, lambda w: philox.integers(w, first, end, bits))
        source.skip(count * philox.RESERVED)
        return _tensor(numbers, sizes, dtype, context)

    return drawn


def _bind_shuffle(node: Node, _context: OpContext) -> Kernel:
    """Rows in a random order (Fisher and Yates, from the front)."""
    source = _own_generator(node)

    def shuffle(x: Tensor) -> Tensor:
        size = x.shape[0] if x.dim() else 0
        if size < 2:
            return x
        drawn = source.groups(np.arange(-(-(size - 1) // 4))).reshape(-1)
        order = list(range(size))
        for at in range(size - 1):
            other = at + int(drawn[at]) % (size - at)
            order[at], order[other] = order[other], order[at]
        source.skip(-(-(size - 1) // 4))
        return x.index_select(0, torch.tensor(order, device=x.device))

    return shuffle


def _sizes(shape: Tensor) -> list[int]:
    sizes: list[int] = shape.tolist()
    if any(size < 0 for size in sizes):
        raise OpError("INVALID_ARGUMENT", f"Dimension {min(sizes)} must be >= 0")
    return sizes


def _drawn_spec(node: Node, inputs: list[Any]) -> tuple[TensorSpec, ...]:
    dtype = node.attrs.get("Tout") or node.attrs.get("dtype", "float32")
    return (TensorSpec(dtype, tuple(_sizes(inputs[0]))),)


DRAWS: dict[str, Draw] = {
    "RandomUniform": _uniform,
    "RandomStandardNormal": _normal,
    "TruncatedNormal": philox.truncated_normal,
}

OPS: tuple[OpDef, ...] = (
    *(
        OpDef(
            name,
            partial(_bind_drawn, draw),
            infer=_drawn_spec,
            stateful=True,
            host_inputs=(0,),
            says="From equal seeds the numbers that TF draws; goes on from step to step.",
        )
        for name, draw in DRAWS.items()
    ),
    OpDef(
        "RandomUniformInt",
        _bind_integers,
        infer=_drawn_spec,
        stateful=True,
        host_inputs=(0, 1, 2),
    ),
    OpDef("RandomShuffle", _bind_shuffle, stateful=True),
    *(
        OpDef(name, partial(_bind_stateless, draw), infer=_drawn_spec, host_inputs=(0, 1))
        for name, draw in (
            ("StatelessRandomUniform", _uniform),
            ("StatelessRandomNormal", _normal),
            ("StatelessTruncatedNormal", philox.truncated_normal),
        )
    ),
)
