"""What a rank holds of a collective while it runs: pieces by number, and what they become.

Sums grow in the memory of what a rank brought where nobody else can see it, else in memory of their
own. A piece may be on its way to another rank while it lies here: it is written again only when its
sum has come round, so after it was read.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import torch

from tracer.model.collective import Collective
from tracer.runtime.collectives_schedule import (
    Receive,
    Schedule,
    broadcast,
    chunk_bounds,
    gather,
    ring,
    tree,
)

Tensor = torch.Tensor

#: what a rank brought, to be taken out, so that whoever has it knows whether he alone has it
Brought = list[Tensor]

_ALONE: Final = 3  #: references to an argument of which the caller has one: his, ours, the count's
_USES: Final = 2  #: of memory: the tensor, and the object that is asked

MERGES: Mapping[str, Callable[..., Tensor]] = {
    "Add": torch.add,
    "Mul": torch.mul,
    "Max": torch.maximum,
    "Min": torch.minimum,
}


class Pieces(Protocol):
    def get(self, piece: int) -> Tensor: ...

    def take(self, action: Receive, tensor: Tensor) -> None: ...

    def result(self) -> Tensor: ...


def finish(total: Tensor, final_op: str, ranks: int) -> None:
    """What is done to a whole sum, in place; of integers the mean is cut, as in TF."""
    if final_op == "Div":
        total.div_(ranks, rounding_mode=None if total.dtype.is_floating_point else "trunc")


def is_alone(x: Tensor) -> bool:
    """Whether no other tensor, view or array sees the memory of `x`, a local of the caller.

    Memory that came from elsewhere (an array, a message) is not torch's to resize, and not ours.
    """
    if sys.getrefcount(x) != _ALONE or x.requires_grad or x._base is not None:
        return False
    memory = x.untyped_storage()
    uses: int = torch._C._storage_Use_Count(memory._cdata)
    return uses == _USES and memory.resizable() and x.is_contiguous()


class Reduction:
    """In `chunks` chunks; the first may have an element more."""

    def __init__(self, brought: Brought, collective: Collective, chunks: int) -> None:
        x = brought.pop()
        is_own = is_alone(x)
        self._merge = MERGES[collective.merge_op]
        self._final_op, self._ranks = collective.final_op, len(collective.devices)
        x = x.detach() if x.requires_grad else x
        #: nobody's view, so that it may be alone again where it is brought again
        self._out = x if is_own or self._ranks == 1 else x.new_empty(x.shape)
        bounds = chunk_bounds(x.numel(), chunks)
        flat, out = x.reshape(-1), self._out.reshape(-1)
        self._places = [out[first:last] for first, last in bounds]
        self._held = [flat[first:last] for first, last in bounds]

    def get(self, piece: int) -> Tensor:
        return self._held[piece]

    def take(self, action: Receive, tensor: Tensor) -> None:
        place = self._places[action.piece]
        if action.merges:
            self._merge(self._held[action.piece], tensor, out=place)
        else:
            place.copy_(tensor)
        if action.is_last:
            finish(place, self._final_op, self._ranks)
        self._held[action.piece] = place

    def result(self) -> Tensor:
        return self._out


class Gathering:
    """A piece a rank."""

    def __init__(self, brought: Brought, collective: Collective) -> None:
        self._pieces = {collective.rank: brought.pop().detach().contiguous()}

    def get(self, piece: int) -> Tensor:
        return self._pieces[piece]

    def take(self, action: Receive, tensor: Tensor) -> None:
        self._pieces[action.piece] = tensor

    def result(self) -> Tensor:
        return torch.cat([self._pieces[rank] for rank in sorted(self._pieces)])


class Copying:
    """One piece, which goes on as it came."""

    def __init__(self, brought: Brought) -> None:
        self._piece = brought.pop().detach().contiguous()

    def get(self, piece: int) -> Tensor:
        del piece
        return self._piece

    def take(self, action: Receive, tensor: Tensor) -> None:
        del action
        self._piece = tensor

    def result(self) -> Tensor:
        return self._piece


def schedule_of(collective: Collective) -> Schedule:
    """What the rank does, hop by hop."""
    rank, ranks = collective.rank, len(collective.devices)
    match collective.kind:
        case "all_gather":
            return gather(rank, ranks)
        case "broadcast":
            return broadcast(rank, ranks, collective.source)
        case _:
            return (tree if collective.algorithm == "tree" else ring)(rank, ranks)


def pieces_of(collective: Collective, brought: Brought) -> Pieces:
    match collective.kind:
        case "all_gather":
            return Gathering(brought, collective)
        case "broadcast":
            return Copying(brought)
        case _:
            is_ring = collective.algorithm != "tree"
            return Reduction(brought, collective, len(collective.devices) if is_ring else 1)
