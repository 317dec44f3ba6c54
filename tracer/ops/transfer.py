"""Where a tensor leaves or enters a partition, and how it crosses from one GPU stream to another.

`_Send` and `_Recv` have no kernels: the executor runs them. A tensor *departs* with an event behind
the work that makes it; to *arrive* on another stream is to wait there for that event, without the
host waiting, and to hold its memory until that stream is done with it. Copies to and from the host
are such crossings too: they run on a stream of their own.
"""

from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from tracer.model.graph import Node
from tracer.ops.kernel import Event, OpContext, OpDef, OpError, Stream


@dataclass(frozen=True, slots=True, eq=False)
class InFlight:
    """A tensor that `stream` may still be making; `event` comes when it is made."""

    tensor: torch.Tensor
    stream: Stream
    event: Event

    @property
    def nbytes(self) -> int:
        return self.tensor.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Copied:
    """What a copy between host and GPU gave, and the events between which it ran."""

    tensor: torch.Tensor
    begun: Event
    ended: Event


def depart(tensor: torch.Tensor, stream: Stream) -> InFlight:
    return InFlight(tensor, stream, stream.record())


def arrive(value: InFlight, stream: Stream) -> torch.Tensor:
    """The tensor, for work that `stream` is given from here on."""
    if value.stream is not stream:
        stream.wait(value.event)
        stream.hold(value.tensor)
    return value.tensor


def copy_to_host(tensor: torch.Tensor, compute: Stream, copies: Stream) -> Copied:
    """Into pinned memory; whoever reads it waits for `ended` first."""
    made, there = depart(tensor, compute), copies.pinned(tensor)
    source = arrive(made, copies)
    begun = copies.record()
    with copies.current():
        copies.to_host(source, there)
    return Copied(there, begun, copies.record())


def copy_to_device(tensor: torch.Tensor, compute: Stream, copies: Stream) -> Copied:
    """For work that `compute` is given from here on."""
    source = copies.pin(tensor)
    begun = copies.record()
    with copies.current():
        there = copies.to_device(source)
    made = depart(there, copies)
    return Copied(arrive(made, compute), begun, made.event)


def _bind(node: Node, _context: OpContext) -> NoReturn:
    raise OpError(
        "INTERNAL", f"{node.op} node {node.name!r} has no kernel; its executor must run it itself"
    )


def _transfer(name: str, **fields: Any) -> OpDef:
    return OpDef(name, _bind, is_transfer=True, is_view=True, **fields)


OPS: tuple[OpDef, ...] = (
    *(_transfer(name, num_outputs=0) for name in ("_Send", "_HostSend", "_Retval")),
    *(_transfer(name) for name in ("_Recv", "_HostRecv", "_Arg")),
)
