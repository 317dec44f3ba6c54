"""Parents that foreign files name: missing ones are marked, circles cut (cases I14 and I15)."""

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.store.columns import Table
from vizdist.store.problems import Problem, problem
from vizdist.store.segments import Array


def mend_tree(table: Table) -> list[Problem]:
    """Marks orphans and cuts circles in place, so that following parents always ends."""
    columns = table.columns
    up = _places_of_parents(columns["span"], columns["parent"])
    orphans = np.flatnonzero((columns["parent"] != 0) & (up < 0))
    columns["flags"][orphans] |= Flag.ORPHAN
    problems = []
    if len(orphans):
        problems.append(problem("orphan", len(orphans), _name(table, int(orphans[0]))))
    return problems + cut_circles(table)


def cut_circles(table: Table) -> list[Problem]:
    """Marks spans that are their own ancestors and takes the parent of the first of each circle."""
    columns = table.columns
    circles = _circles(_places_of_parents(columns["span"], columns["parent"]))
    firsts = []
    for circle in circles:
        columns["flags"][circle] |= Flag.CYCLE
        firsts.append(min(circle, key=lambda place: (int(columns["start"][place]), place)))
    columns["parent"][firsts] = 0
    count = sum(map(len, circles))
    return [problem("cycle", count, _name(table, firsts[0]))] if circles else []


def _name(table: Table, place: int) -> str:
    return table.words["name"][int(table.columns["name"][place])]


def _places_of_parents(span: Array, parent: Array) -> Array:
    """Where each span's parent lies, -1 for none."""
    if not len(span):
        return np.empty(0, np.int64)
    order = np.argsort(span, kind="stable")
    at = np.minimum(np.searchsorted(span[order], parent), len(order) - 1)
    place = order[at]
    return np.where((span[place] == parent) & (parent != 0), place, -1)


def _circles(up: Array) -> list[list[int]]:
    """Sets of spans that are their own ancestors, each in the order of climbing."""
    end = len(up)
    far = np.append(np.where(up < 0, end, up), end)
    for _ in range(end.bit_length()):
        far = far[far]
    stuck = np.flatnonzero(far[:end] != end).tolist()
    circles = []
    seen: set[int] = set()
    for start in stuck:
        path: dict[int, None] = {}
        place = start
        while place not in seen:
            seen.add(place)
            path[place] = None
            place = int(up[place])
        if place in path:
            climbed = list(path)
            circles.append(climbed[climbed.index(place) :])
    return circles
