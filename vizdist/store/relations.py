"""Which spans led to which, as recorded: the arrows of every picture."""

from dataclasses import dataclass
from typing import NamedTuple

from vizdist.store.segments import Array

#: send to recv, client to server, launch on the host to what ran on its GPU
RELATIONS = ("data", "rpc", "launch")


class Link(NamedTuple):
    """Two spans by their ids; `relation` is one of RELATIONS."""

    source: int
    target: int
    relation: str


class Relations(NamedTuple):
    """Pairs of places in the trace's table, and of each the place in RELATIONS."""

    source: Array
    target: Array
    code: Array


@dataclass(frozen=True, slots=True)
class Arrows:
    """Relations drawn on the timeline; `total` before the limit."""

    source: Array
    target: Array
    code: Array
    total: int
