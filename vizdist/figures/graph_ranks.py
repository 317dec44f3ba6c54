"""Where along the x axis a tile belongs: dataflow order, ranks, phases, order of boxes."""

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence

from vizdist.figures.graph_shapes import Link, Tile

EXACT_ORDER_LIMIT = 6  #: boxes whose best order is found by trying all


_Cut = tuple[int, tuple[tuple[int, int], ...]]  # score, (phase number, first column) of each span


def dataflow_order(ids: Sequence[str], edges: Iterable[tuple[str, str]]) -> list[str]:
    """Ids so that sources come first; ties in the given order. Unknown ids in edges are ignored.

    A cycle is opened at its first id that something outside has already reached: a loop at its
    Merge.
    """
    position = {name: i for i, name in enumerate(ids)}
    out: dict[str, list[str]] = {name: [] for name in ids}
    pending = dict.fromkeys(ids, 0)
    for src, dst in edges:
        if src in position and dst in position and src != dst:
            out[src].append(dst)
            pending[dst] += 1
    ready = [position[name] for name, count in pending.items() if not count]
    heapq.heapify(ready)
    reached: list[int] = []  # positions with an input done, others not: where a cycle may open
    order: list[str] = []
    done: set[str] = set()
    while len(order) < len(ids):
        name = ids[heapq.heappop(ready)] if ready else _opening(ids, reached, done)
        if name in done:
            continue
        done.add(name)
        order.append(name)
        for dst in out[name]:
            pending[dst] -= 1
            heapq.heappush(reached if pending[dst] else ready, position[dst])
    return order


def _opening(ids: Sequence[str], reached: list[int], done: set[str]) -> str:
    while reached:
        name = ids[heapq.heappop(reached)]
        if name not in done:
            return name
    return next(name for name in ids if name not in done)


def assign_columns(tiles: Sequence[Tile], flows: Iterable[Link]) -> dict[str, int]:
    """Column of each tile: its longest path from a source.

    Late tiles are then pulled to their consumers, and those that follow put behind their sources.
    `tiles` come in dataflow order; a flow from a later to an earlier one closes a loop and does not
    count. Columns without a tile are left out.
    """
    position = {tile.id: i for i, tile in enumerate(tiles)}
    inputs: dict[str, list[str]] = {tile.id: [] for tile in tiles}
    outputs: dict[str, list[str]] = {tile.id: [] for tile in tiles}
    for src, dst, _ in flows:
        if src in position and dst in position and position[src] < position[dst]:
            inputs[dst].append(src)
            outputs[src].append(dst)
    rank: dict[str, int] = {}
    for tile in tiles:
        rank[tile.id] = 1 + max((rank[src] for src in inputs[tile.id]), default=-1)
    followers = {tile.id for tile in tiles if tile.follows}
    for tile in reversed(tiles):
        waiting = [dst for dst in outputs[tile.id] if dst not in followers] or outputs[tile.id]
        if tile.late and waiting:
            rank[tile.id] = min(rank[dst] for dst in waiting) - 1
    for tile in tiles:
        if tile.follows and inputs[tile.id]:
            rank[tile.id] = 1 + max(rank[src] for src in inputs[tile.id])
    column = {r: i for i, r in enumerate(sorted(set(rank.values())))}
    return {name: column[r] for name, r in rank.items()}


def phase_spans(
    phases: Sequence[str], members: Mapping[str, Sequence[int]], num_columns: int
) -> list[tuple[str, int, int]]:
    """Cuts the columns into consecutive spans (phase, first, last) that misplace fewest tiles.

    `members` maps a phase to the columns of its tiles. Phases without a span are left out.
    """
    counts = {phase: [0] * num_columns for phase in phases}
    for phase in phases:
        for column in members.get(phase, ()):
            counts[phase][column] += 1
    # best[k]: the best score so far with the current column in phase k, and where each phase began
    best: list[_Cut] = [(0, ()), *([(-1, ())] * len(phases))]
    for column in range(num_columns):
        following: list[_Cut] = [(-1, ())]
        for k, phase in enumerate(phases, 1):
            score, starts = max(best[: k + 1], key=lambda option: option[0])
            begun = bool(starts) and starts[-1][0] == k
            following.append(
                (score + counts[phase][column], starts if begun else (*starts, (k, column)))
            )
        best = following
    starts = max(best, key=lambda option: option[0])[1]
    ends = [column - 1 for _, column in starts[1:]] + [num_columns - 1]
    return [(phases[k - 1], first, last) for (k, first), last in zip(starts, ends, strict=True)]


def order_boxes(names: Sequence[str], weights: Mapping[tuple[str, str], float]) -> list[str]:
    """Boxes top to bottom so that what crosses has a short way: least sum of weight x distance.

    All orders are tried for a few boxes; more are improved by swaps from the given order.
    """
    if len(names) <= EXACT_ORDER_LIMIT:
        orders = map(list, itertools.permutations(names))
        return min(orders, key=lambda order: _crossing(order, weights))
    order = list(names)
    cost = _crossing(order, weights)
    improved = True
    while improved:
        improved = False
        for i, j in itertools.combinations(range(len(order)), 2):
            order[i], order[j] = order[j], order[i]
            trial = _crossing(order, weights)
            if trial < cost:
                cost, improved = trial, True
            else:
                order[i], order[j] = order[j], order[i]
    return order


def _crossing(order: Sequence[str], weights: Mapping[tuple[str, str], float]) -> float:
    at = {name: i for i, name in enumerate(order)}
    return sum(weight * abs(at[a] - at[b]) for (a, b), weight in weights.items())
