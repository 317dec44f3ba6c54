"""Random numbers of a step: from one seed that is fed, never from a process's own generator.

A step that draws (Dropout) has a third feed, `seed:0`. The first op that draws starts a generator
from it and hands the generator's state on to the next one, along an ordinary edge. So what a step
draws follows from its seed alone: not from threads, other steps, other graphs of the same module,
or a restart; and it is what eager torch draws after `torch.manual_seed(seed)` before the step.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tracer.capture_graph.errors import CaptureError
from tracer.model.graph import Input, TensorSpec
from tracer.ops.dtypes import spec_of

SEED = "seed"

_MASK = (1 << 64) - 1


def step_seed(seed: int, replica: int, step: int) -> int:
    """The seed of one step of one replica, from that of the run: 0 … 2**63 - 1.

    Mixed well, since torch's CPU generator takes no more than the lower half of a seed.
    """
    mixed = _mix(_mix(_mix(seed) ^ replica) ^ step)
    return mixed >> 1


def _mix(value: int) -> int:
    """Splitmix64's finalizer: every bit of the input moves every bit of the output."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def draws(node: fx.Node) -> bool:
    """Whether the result of a traced op is chance; dropout with probability 0 is none."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    return bool(_argument(node, target, "dropout_p") != 0)


def with_generator(node: fx.Node) -> torch._ops.OpOverload:
    """The op, or its twin that takes a generator. Raises CaptureError if there is none."""
    target = node.target
    assert isinstance(target, torch._ops.OpOverload)
    names = _names(target)
    packet = target.overloadpacket
    overloads = (getattr(packet, name) for name in packet.overloads())
    overload: torch._ops.OpOverload
    for overload in (target, *overloads):
        if set(_names(overload)) == {*names, "generator"}:
            return overload
    raise CaptureError(
        f"{target} draws random numbers but takes no generator, so its draws would not follow from "
        "the step's seed; build the layer from torch.nn.Dropout or torch.rand"
    )


class Chain:
    """The generator of one traced graph: where its next draw starts from.

    `seed()` makes the feed, when something draws for the first time.
    """

    def __init__(self, seed: Callable[[], Input]) -> None:
        self._seed = seed
        self._last: Input | None = None

    def start(self) -> Input:
        return self._last or self._seed()

    def left(self, state: Input) -> None:
        self._last = state


#: what a CPU generator leaves (a GPU's is shorter)
STATE: TensorSpec = spec_of(torch.Generator().get_state())


def _names(overload: torch._ops.OpOverload) -> list[str]:
    return [argument.name for argument in overload._schema.arguments]


def _argument(node: fx.Node, target: torch._ops.OpOverload, name: str) -> Any:
    for position, argument in enumerate(target._schema.arguments):
        if argument.name == name:
            given = node.args[position] if position < len(node.args) else argument.default_value
            return node.kwargs.get(name, given)
    return None
