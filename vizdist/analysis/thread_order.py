"""Which op a thread ran before which: an op that was ready and did not run stood behind another.

Spans do not name threads. Devices of one process whose ops never ran at the same time are taken to
share one; else a device has as many as it ran ops at once.
"""

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from vizdist.store.segments import Array


class Ops(NamedTuple):
    """What ran: places in a table, times in ns, a number for the device of each.

    `level` orders those that began and ended at one instant.
    """

    place: Array
    ready: Array
    start: Array
    end: Array
    device: Array
    level: Array

    def take(self, which: Array) -> "Ops":
        return Ops(*(column[which] for column in self))


@dataclass(frozen=True, slots=True)
class Threads:
    """`ops` thread by thread, in order; ops of one `run` went on without a pause for the thread."""

    ops: Ops
    thread: Array
    run: Array

    def take(self, which: Array) -> "Threads":
        return Threads(self.ops.take(which), self.thread[which], self.run[which])

    @property
    def pairs(self) -> tuple[Array, Array]:
        """Places (before, behind): of each op, and of the next one on its thread."""
        same = self.thread[:-1] == self.thread[1:]
        return self.ops.place[:-1][same], self.ops.place[1:][same]

    def alone(self, tasks: Array) -> Array:
        """By task, which thread ran all its ops; -1: there were several, or none.

        `tasks` has the number of the task of every place.
        """
        found = np.full(int(tasks.max(initial=0)) + 1, -1)
        pairs = np.unique(np.stack((tasks[self.ops.place], self.thread)), axis=1)
        task, first, count = np.unique(pairs[0], return_index=True, return_counts=True)
        found[task[count == 1]] = pairs[1][first[count == 1]]
        return found

    def last_of_run(self, places: Array, limit: Array) -> Array:
        """The last op of the same run that ended by the limit; -1: not even the op itself."""
        if not len(self.ops.place):
            return np.full(len(places), -1)
        order = np.argsort(self.ops.place, kind="stable")
        at = np.searchsorted(self.ops.place[order], places)
        own = order[np.minimum(at, len(order) - 1)]
        most = int(max(self.ops.end.max(), limit.max(initial=0))) + 1
        every = self.run * most + self.ops.end
        last = np.searchsorted(every, self.run[own] * most + limit, "right") - 1
        is_known = (self.ops.place[own] == places) & (last >= own)
        return np.where(is_known, self.ops.place[last], -1)


def threads_of(ops: Ops, process_of: Mapping[int, int]) -> Threads:
    """`process_of` tells the process of each device."""
    ops = ops.take(np.lexsort((ops.level, ops.end, ops.start)))
    threads = [thread for own in _sharing(ops, process_of) for thread in _threads(own)]
    order = np.array([place for thread in threads for place in thread], np.int64)
    lengths = [len(thread) for thread in threads]
    thread = np.repeat(np.arange(len(threads)), lengths)
    found = ops.take(order)
    begins = np.append(True, thread[1:] != thread[:-1])[: len(order)]
    begins[1:] |= found.ready[1:] > found.end[:-1]
    return Threads(found, thread, np.cumsum(begins))


def _sharing(ops: Ops, process_of: Mapping[int, int]) -> Iterator[tuple[Array, Ops]]:
    """Ops that share threads, by start, and where they lie in `ops`."""
    process = np.array([process_of[one] for one in ops.device.tolist()], np.int64)
    for number in np.unique(process):
        own = np.flatnonzero(process == number)
        if _never_at_once(ops.take(own)):
            yield own, ops.take(own)
            continue
        for device in np.unique(ops.device[own]):
            here = own[ops.device[own] == device]
            yield here, ops.take(here)


def _never_at_once(ops: Ops) -> bool:
    return bool((ops.start[1:] >= np.maximum.accumulate(ops.end)[:-1]).all())


def _threads(own: tuple[Array, Ops]) -> Sequence[list[int]]:
    """Gives each op the thread that it waited for; one that waited for none takes any."""
    where, ops = own
    if _never_at_once(ops):
        return [where.tolist()]
    threads: list[list[int]] = []
    busy: list[tuple[int, int]] = []  # until when, and which
    free: list[tuple[int, int]] = []  # since when, by time
    columns = (ops.ready.tolist(), ops.start.tolist(), ops.end.tolist())
    for place, ready, start, end in zip(where.tolist(), *columns, strict=True):
        while busy and busy[0][0] <= start:
            insort(free, heappop(busy))
        number = _take_free(free, ready) if free else len(threads)
        if number == len(threads):
            threads.append([])
        threads[number].append(place)
        heappush(busy, (end, number))
    return threads


def _take_free(free: list[tuple[int, int]], ready: int) -> int:
    """The one that became free last while the op waited, else the one that is free longest."""
    return free.pop(-1 if free[-1][0] > ready else 0)[1]
