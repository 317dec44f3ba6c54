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
    circles = _circles(up)
    for circle in circles:
        columns["flags"][circle] |= Flag.CYCLE
        first = min(circle, key=lambda place: (int(columns["start"][place]), place))
        columns["parent"][first] = 0
    if circles:
        count = sum(len(circle) for circle in circles)
        first = min(circles[0], key=lambda place: (int(columns["start"][place]), place))
        problems.append(problem("cycle", count, _name(table, first)))
    return problems


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
