"""Who waits for whom in a step that stood still, and whether the last waits for the first.

A recv waits for the value of a node on another task. That node did not end: what it takes has not
come, or it stands at a queue that a node of the same task should have filled or emptied. Whatever
of these is itself a recv that waits is the next link. A circle of such links never ends.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tracer.model.graph_table import NodeRow, input_node
from tracer.model.trace_folder import Flag
from vizdist.analysis.bytes_moved import task_of_device
from vizdist.analysis.mechanisms.leftovers import Alone
from vizdist.analysis.mechanisms.one_step import OneStep

Place = tuple[str, str]  #: (task, node)


@dataclass(frozen=True, slots=True)
class Waits:
    """Recvs that waited for a value of another task when the step ended.

    Of a `circle` each waits for the next and the last for the first; it is empty where the record
    holds none. `waiting` are all of them, the longest wait first.
    """

    circle: tuple[Alone, ...]
    waiting: tuple[Alone, ...]


NOBODY = Waits((), ())


def waits_of(one: OneStep, alone: Sequence[Alone]) -> Waits:
    found = [each for each in alone if each.side == "recv" and each.other != each.task]
    waiting = tuple(sorted(found, key=lambda each: -each.waited_ns))
    if one.graph is None or not one.graph.stages:
        return Waits((), waiting)
    asked = {(each.task, each.node): each for each in waiting}
    next_of = _Blocked(one, asked.keys()).behind
    after = {place: next_of((each.other, each.maker)) for place, each in asked.items()}
    return Waits(tuple(asked[place] for place in _circle(after)), waiting)


class _Blocked:
    """What keeps a node from its end: the recvs behind it that have no value yet."""

    def __init__(self, one: OneStep, waiting: Iterable[Place]) -> None:
        assert one.graph is not None
        rows = one.graph.stages[one.graph.last_stage]
        self._rows: dict[Place, NodeRow] = {(task_of_device(r.device), r.name): r for r in rows}
        self._waiting = set(waiting)
        self._users = _users(self._rows)
        ops = one.of_kind("op.run")
        whole = ops.take((ops.flags & (Flag.ERROR | Flag.UNFINISHED)) == 0)
        self._done = set(zip(whole.task.tolist(), whole.text("name").tolist(), strict=True))
        self._begun = set(zip(ops.task.tolist(), ops.text("name").tolist(), strict=True))

    def behind(self, node: Place) -> list[Place]:
        """In the order in which they are come to."""
        seen, found, left = {node}, [], [node]
        while left:
            place = left.pop()
            if place in self._waiting:
                found.append(place)
                continue
            for before in self._needs(place):
                if before not in seen and before not in self._done:
                    seen.add(before)
                    left.append(before)
        return found

    def _needs(self, place: Place) -> Iterator[Place]:
        """What a node takes; of one that was begun and stands at a queue, the queue's others."""
        row = self._rows.get(place)
        if row is None:
            return
        task, name = place
        for text in row.inputs:
            before = task, input_node(text)
            yield before
            if place in self._begun and before in self._done:
                yield from ((task, user) for user in self._users.get(before, ()) if user != name)


def _users(rows: Mapping[Place, NodeRow]) -> Mapping[Place, Sequence[str]]:
    """By node those that take its output, as all ops of a queue take its handle."""
    found: dict[Place, list[str]] = {}
    for (task, name), row in rows.items():
        for text in row.inputs:
            found.setdefault((task, input_node(text)), []).append(name)
    return found


def _circle(after: Mapping[Place, Sequence[Place]]) -> list[Place]:
    """The first circle that a walk along the links comes to; a shortest one through its start."""
    for start in after:
        before: dict[Place, Place] = {}
        ring = [start]
        while ring:
            here = ring.pop(0)
            for place in after.get(here, ()):
                if place == start:
                    return _back(here, start, before.__getitem__)
                if place not in before:
                    before[place] = here
                    ring.append(place)
    return []


def _back(last: Place, start: Place, before: Callable[[Place], Place]) -> list[Place]:
    way = [last]
    while way[-1] != start:
        way.append(before(way[-1]))
    return way[::-1]
