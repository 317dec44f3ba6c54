"""Which nodes share a tile: scopes fold when a graph has more tiles than an eye can take.

Nodes fold with nodes of their scope, band and phase only, so that a forward and a backward pass of
one layer stay apart. Variables, reads, updates, feeds and fetches never fold: they are what a
reader of a distributed graph looks for.
"""

from collections import Counter
from collections.abc import Sequence, Set
from typing import NamedTuple

from vizdist.figures.graph_nodes import scope_of

BAND_BUDGET = 24  #: more foldable tiles than this in a band, and scopes fold
WIDE_BUDGET = 120  #: what is left before even outermost scopes fold
UNPLACED_BUDGET = 64  #: the same for the one band of a graph that is not placed yet
FOLDABLE = ("compute", "const", "control")
MOST_DEPTH = 8


class FoldNode(NamedTuple):
    """What folding needs to know of a node. `order` is its place in the dataflow."""

    id: str
    band: str
    phase: str
    kind: str
    order: int


class Group(NamedTuple):
    """One tile: its id (the node's, or the scope's), its scope if it is folded, its nodes."""

    id: str
    scope: str
    members: tuple[str, ...]

    @property
    def is_folded(self) -> bool:
        return len(self.members) > 1


def fold(
    nodes: Sequence[FoldNode],
    opened: Set[str],
    budgets: tuple[int, int] = (BAND_BUDGET, WIDE_BUDGET),
) -> tuple[list[Group], int]:
    """Tiles by their first node's place, and the depth of scopes that stayed apart.

    The deepest folding that meets the budget is taken. `opened` are ids of groups shown unfolded.
    """
    if not any(node.band for node in nodes):
        budgets = UNPLACED_BUDGET, budgets[1]
    depth = MOST_DEPTH + 1
    groups = _grouped(nodes, depth, frozenset())
    while depth > 1 and _most_in_a_band(groups, nodes) > budgets[depth <= 2]:
        depth -= 1
        groups = _grouped(nodes, depth, opened)
    return groups, depth


def _most_in_a_band(groups: Sequence[Group], nodes: Sequence[FoldNode]) -> int:
    found = {node.id: node for node in nodes}
    firsts = [found[group.members[0]] for group in groups]
    counts = Counter(node.band for node in firsts if node.kind in FOLDABLE)
    return max(counts.values(), default=0)


def _grouped(nodes: Sequence[FoldNode], depth: int, opened: Set[str]) -> list[Group]:
    members: dict[tuple[str, str], list[FoldNode]] = {}
    for node in nodes:
        scope = scope_of(node.id, depth)
        folds = depth <= MOST_DEPTH and scope and node.kind in FOLDABLE
        key = group_id(scope, node.band, node.phase) if folds else ""
        if not key or key in opened:
            members["", node.id] = [node]
        else:
            members.setdefault((scope, key), []).append(node)
    groups = [
        Group(key if len(found) > 1 else found[0].id, scope, tuple(node.id for node in found))
        for (scope, key), found in members.items()
    ]
    order = {node.id: node.order for node in nodes}
    return sorted(groups, key=lambda group: order[group.members[0]])


def group_id(scope: str, band: str, phase: str) -> str:
    """Names a folded scope in URLs; no node's name has these letters in it."""
    return f"{scope}/* {phase} @ {band}"
