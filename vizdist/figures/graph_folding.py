"""Which nodes share a tile: scopes fold when a graph has more tiles than an eye can take.

Nodes fold with nodes of their scope, band and phase only, so that a forward and a backward pass of
one layer stay apart, and so do variables, their reads and their updates: what a reader of a
distributed graph looks for is still there, once for each layer. Whoever looks may open a folded
scope, which then folds one level deeper, and fold one that is open. A loop's frame is a scope as
well: all of it on one device is one tile.
"""

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from vizdist.analysis.scopes import FRAME, group_id, scope_of

BAND_BUDGET = 24  #: more foldable tiles than this in a band, and scopes fold
WIDE_BUDGET = 120  #: what is left before even outermost scopes fold
UNPLACED_BUDGET = 64  #: the same for the one band of a graph that is not placed yet
OPS = ("compute", "const", "control")
STATE = ("variable", "read", "update")  #: each folds with its like alone
MOST_DEPTH = 8
NEVER = MOST_DEPTH + 1


class FoldNode(NamedTuple):
    """What folding needs to know of a node. `order` is its place in the dataflow.

    `frames` are those that it turns in, outermost first.
    """

    id: str
    band: str
    phase: str
    kind: str
    order: int
    op: str = ""
    frames: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """What it may share a tile with: ops of its phase, or state of its kind.

        What counts steps and what applies gradients stay apart: one comes before the pass that the
        other ends, and together they would close a circle.
        """
        if self.kind == "update" and self.op.startswith("Assign"):
            return "assignments"
        return f"{self.kind}s" if self.kind in STATE else self.phase


class Group(NamedTuple):
    """One tile: its id (the node's, or the scope's), its scope if it is folded, its nodes."""

    id: str
    scope: str
    members: tuple[str, ...]

    @property
    def is_folded(self) -> bool:
        return len(self.members) > 1


class Choice(NamedTuple):
    """Ids of scopes that whoever looks has opened, and of those that they have folded."""

    opened: Set[str] = frozenset()
    folded: Set[str] = frozenset()


AS_IT_OPENS = Choice()


class Level(NamedTuple):
    """A scope that may hold a node, and what it shares a tile with there."""

    scope: str
    family: str

    def key(self, band: str) -> str:
        return group_id(self.scope, band, self.family)


def fold(nodes: Sequence[FoldNode], choice: Choice = AS_IT_OPENS) -> tuple[list[Group], int]:
    """Tiles by their first node's place, and the depth of scopes of ops that stayed apart.

    The deepest folding that meets the budget is taken, for ops and for state on their own.
    """
    budget = BAND_BUDGET if any(node.band for node in nodes) else UNPLACED_BUDGET
    ops = _depth([node for node in nodes if node.kind in OPS], budget)
    state = _depth([node for node in nodes if node.kind in STATE], budget)
    depths = dict.fromkeys(OPS, ops) | dict.fromkeys(STATE, state)
    members: dict[tuple[str, str], list[FoldNode]] = {}
    for node in nodes:
        level = _shown_level(node, depths.get(node.kind, 0), choice)
        key = (level.scope, level.key(node.band)) if level else ("", node.id)
        members.setdefault(key, []).append(node)
    groups = [
        Group(key if len(found) > 1 else found[0].id, scope, tuple(node.id for node in found))
        for (scope, key), found in members.items()
    ]
    order = {node.id: node.order for node in nodes}
    return sorted(groups, key=lambda group: order[group.members[0]]), ops


def _depth(nodes: Sequence[FoldNode], budget: int) -> int:
    """The depth at which scopes fold, so that no band holds more tiles than its budget."""
    depth = NEVER
    while depth > 1 and _most_in_a_band(nodes, depth) > (WIDE_BUDGET if depth <= 2 else budget):
        depth -= 1
    return depth


def _most_in_a_band(nodes: Iterable[FoldNode], depth: int) -> int:
    tiles = {(node.band, (depth < NEVER and _level_at(node, depth)) or node) for node in nodes}
    return max(Counter(band for band, _ in tiles).values(), default=0)


def _level_at(node: FoldNode, depth: int) -> Level | None:
    return next(reversed(levels_of(node)[: min(depth, _num_folding(node))]), None)


def _num_folding(node: FoldNode) -> int:
    """How many of its levels fold by themselves: a loop does so as a whole."""
    levels = levels_of(node)
    frames = [number for number, level in enumerate(levels, 1) if level.family == FRAME]
    return frames[-1] if frames else len(levels)


def _shown_level(node: FoldNode, depth: int, choice: Choice) -> Level | None:
    """The scope as part of which a node is shown; None: on its own."""
    least = min(depth, _num_folding(node))
    for number, level in enumerate(levels_of(node), 1):
        key = level.key(node.band)
        folds = depth < NEVER and number >= least
        if key in choice.folded or (folds and key not in choice.opened):
            return level
    return None


@lru_cache(maxsize=1 << 14)  # asked for every depth that is tried
def levels_of(node: FoldNode) -> tuple[Level, ...]:
    """All scopes that hold a node and may fold, outermost first."""
    if node.kind not in OPS and node.kind not in STATE:
        return ()
    whole = scope_of(node.id, MOST_DEPTH)
    parts = whole.split("/") if whole else []
    named = [Level("/".join(parts[: i + 1]), node.family) for i in range(len(parts))]
    if not node.frames:
        return tuple(named)
    outer, inner = node.frames[0], f"{node.frames[-1]}/"
    around = [level for level in named if outer.startswith(f"{level.scope}/")]
    inside = [level for level in named if level.scope.startswith(inner)]
    return (*around, *(Level(frame, FRAME) for frame in node.frames), *inside)


def groups_with(node: FoldNode) -> list[str]:
    """Ids of all folded scopes that may hold a node, outermost first."""
    return [level.key(node.band) for level in levels_of(node)]


def outer_scopes(nodes: Sequence[FoldNode], groups: Sequence[Group]) -> dict[str, str]:
    """Tile → the next scope that holds more than it, "" if none does: what folding it takes in."""
    within = {node.id: groups_with(node) for node in nodes}
    sizes = Counter(name for names in within.values() for name in names)
    return {
        group.id: next(
            (
                name
                for name in reversed(_above(group, within[group.members[0]]))
                if sizes[name] > len(group.members)
            ),
            "",
        )
        for group in groups
    }


def _above(group: Group, names: Sequence[str]) -> Sequence[str]:
    return names[: names.index(group.id)] if group.id in names else names
