"""Why a node is where it is, as a key of words that page and canvas both have (`graph.why.…`)."""

from collections.abc import Mapping
from typing import NamedTuple

from tracer.model.graph import Input
from tracer.model.graph_table import NodeRow
from vizdist.figures.graph_nodes import look_of

_FOLDED = "folded"  #: stands behind a reason: constant folding computed the node beforehand
_KNOWN = (
    "requested",
    "soft",
    "colocated",
    "resource",
    "metadata",
    "identity",
    "generator",
    "default",
    "control_flow",
    "control_loop",
    "cost",
    "replicated",
    "bf16",
    "schedule_recvs",
    "cut",
    "none",
)


class Why(NamedTuple):
    """`reason` names a chip (`graph.reason.…`), "" where only the trace knows its meaning.

    `tied` is what a colocated node, or one that works on a variable, goes with.
    """

    key: str
    reason: str
    tied: str
    is_folded: bool


def why_of(nodes: Mapping[str, NodeRow], row: NodeRow) -> Why:
    """`nodes` are those of the same stage."""
    reason, _, more = (row.reason or "none").partition(", ")
    tied = _tied_to(nodes, row)
    if reason not in _KNOWN or more not in ("", _FOLDED):
        return Why("other", "", tied, is_folded=False)
    is_alone = reason in ("colocated", "resource") and not tied
    return Why(f"{reason}_alone" if is_alone else reason, reason, tied, more == _FOLDED)


def _tied_to(nodes: Mapping[str, NodeRow], row: NodeRow) -> str:
    """The variable that an op works on in place, else the first node of its colocation class."""
    for text in row.inputs if row.reason == "resource" else ():
        source = nodes.get(Input.parse(text).node)
        if source and look_of(source).kind == "variable":
            return source.name
    classes = [str(c).removeprefix("loc:@") for c in row.attrs.get("_class", ())]
    return next((name for name in classes if name != row.name), "")
