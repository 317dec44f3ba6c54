"""What rendezvous keys say: from where to where, which tensor, in which iteration.

Traces hold keys that are none of ours, or broken; they are told as they stand and name no device.
"""

import re
from collections.abc import Mapping

from tracer.model.graph_table import NodeRow
from tracer.model.step import RendezvousKey

HOP = "collective.hop"  #: kind of the spans in which a rank gets a piece of a collective

_PIECE = re.compile(r"collective_(\d+)_(\d+)_(\w+)_(\d+)")


def is_rank(kind: str) -> bool:
    """Whether spans of the kind are a rank's part in a collective."""
    return kind.startswith("collective.") and kind != HOP


def key_of(text: str) -> RendezvousKey:
    """A key that cannot be read is all edge name. Its devices are not looked at: there are many."""
    try:
        source, life, target, edge, tag = text.split(";")
        frame, iteration = tag.split(":")
        return RendezvousKey(source, int(life, 16), target, edge, int(frame), int(iteration))
    except ValueError:
        return RendezvousKey("", 0, "", text)


def edge_of(text: str) -> str:
    """A key without frame and iteration: the same in all iterations of a loop."""
    return text.rpartition(";")[0] or text


def tensor_title(edge_name: str) -> str:
    """`edge_12_mm1_grad/MatMul` is the output of `mm1_grad/MatMul`.

    `collective_1_100_all_gather_0` is piece 0 of instance 100 in group 1: `1.100 all_gather 0`.
    """
    if piece := _PIECE.fullmatch(edge_name):
        return "{}.{} {} {}".format(*piece.groups())
    head, _, rest = edge_name.partition("_")
    number, _, node = rest.partition("_")
    return node if head == "edge" and number.isdigit() and node else edge_name


def title_of_input(name: str, rows: Mapping[str, NodeRow]) -> str:
    """A node that gives an op its input; of one that received it, the node that made it."""
    sent = rows[name].attrs.get("tensor_name") if name in rows else None
    return tensor_title(str(sent or name))


def tensor_of_key(text: str) -> str:
    """What a key carries; the key itself if it cannot be read."""
    return tensor_title(key_of(text).edge_name)


def title_of(name: str, key: str) -> str:
    """What runs or travels in a span of this name and key: its op, or its tensor."""
    return tensor_of_key(key) if key else name
