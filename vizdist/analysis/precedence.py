"""What must end before what: the longest way through, how soon all can end, what may end later.

Nodes are numbered so that every edge leads to a higher number. A node begins when the last of its
sources has ended, and takes its duration. All arithmetic is on integers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vizdist.store.segments import Array

NEVER_LATE = np.iinfo(np.int64).max  #: the slack of what nothing at the end depends on


@dataclass(frozen=True)
class Precedence:
    """Edges from `sources[i]` to `targets[i]`, both node numbers, in any order."""

    durations: Array
    sources: Array
    targets: Array

    @classmethod
    def of_ends(cls, ends: Array, sources: Array, targets: Array) -> "Precedence":
        """Of nodes that ended at these times: each took what was left after its last source."""
        awaited = np.zeros(len(ends), np.int64)
        np.maximum.at(awaited, targets, ends[sources])
        found = cls(ends - awaited, sources, targets)
        vars(found)["ends"] = ends  # known, and costly to find again
        return found

    @cached_property
    def _edges(self) -> tuple[list[int], list[int]]:
        """In the order of targets: when one is looked at, its source is known."""
        order = np.argsort(self.targets, kind="stable")
        return self.sources[order].tolist(), self.targets[order].tolist()

    @cached_property
    def ends(self) -> Array:
        return self.ends_with(self.durations)

    def ends_with(self, durations: Array) -> Array:
        """When every node would end if they took as long as this."""
        takes = durations.tolist()
        begins = [0] * len(takes)
        for source, target in zip(*self._edges, strict=True):
            end = begins[source] + takes[source]
            if end > begins[target]:  # noqa: PLR1730 (a call here would double the time)
                begins[target] = end
        return np.array(begins, np.int64) + durations

    @cached_property
    def _causes(self) -> dict[int, int]:
        """By node the source that ended last, which is what it began by."""
        order = np.lexsort((self.ends[self.sources], self.targets))
        targets = self.targets[order]
        last = order[np.append(targets[1:] != targets[:-1], True)[: len(order)]]
        return dict(zip(self.targets[last].tolist(), self.sources[last].tolist(), strict=True))

    def back(self, last: int) -> Iterator[int]:
        """From this node back to one without sources, each begun by the end of the next."""
        found: int | None = last
        while found is not None:
            yield found
            found = self._causes.get(found)

    def path(self, last: int) -> list[int]:
        """From a node without sources to this one, each begun by the end of the one before."""
        return [*self.back(last)][::-1]

    def slack(self, last: int) -> Array:
        """By how much each node may end later before this one does; NEVER_LATE: by any time."""
        takes = self.durations.tolist()
        latest: list[int | None] = [None] * len(takes)
        latest[last] = int(self.ends[last])
        for source, target in zip(*map(reversed, self._edges), strict=True):
            limit = latest[target]
            if limit is None:
                continue
            limit -= takes[target]
            old = latest[source]
            if old is None or limit < old:
                latest[source] = limit
        free = [NEVER_LATE if one is None else one for one in latest]
        ends = np.where(np.array(free, np.int64) == NEVER_LATE, 0, self.ends)
        return np.array(free, np.int64) - ends


def tie_levels(sources: Array, targets: Array, times: Array) -> Array:
    """Numbers that order what happened at one instant, so that edges lead from less to more.

    Of a circle of one instant only some edges are obeyed.
    """
    is_tied = times[sources] == times[targets]
    behind: dict[int, list[int]] = {}
    for source, target in zip(sources[is_tied].tolist(), targets[is_tied].tolist(), strict=True):
        behind.setdefault(source, []).append(target)
    levels = [0] * len(times)
    done: set[int] = set()
    for node in reversed(_inmost_first(behind)):
        done.add(node)
        for target in behind.get(node, ()):
            if target not in done:
                levels[target] = max(levels[target], levels[node] + 1)
    return np.array(levels, np.int64)


def _inmost_first(behind: Mapping[int, Sequence[int]]) -> list[int]:
    """Every node after all that lie behind it, as a walk into the depth leaves them."""
    seen: set[int] = set()
    left = []
    for root in behind:
        if root in seen:
            continue
        seen.add(root)
        way = [(root, iter(behind[root]))]
        while way:
            node, targets = way[-1]
            target = next((one for one in targets if one not in seen), None)
            if target is None:
                left.append(node)
                way.pop()
            else:
                seen.add(target)
                way.append((target, iter(behind.get(target, ()))))
    return left
