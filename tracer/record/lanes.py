"""Rows of the timeline: no two spans that overlap get the same one.

A lane is a named group of rows of a task (`executor CPU:0`, `recv`). Spans nested on a thread form
a *chain*: one row a nesting depth. Two threads at once in one lane get two chains. Spans that may
end on any thread take the lowest *slot* that is free in the lane instead; all slots are one chain.
A row is packed into 32 bits: chain << 16 | depth or slot.
"""

import heapq
import itertools
from collections.abc import Sequence

CHAIN_SHIFT = 16
DEPTH_MASK = 0xFFFF
LOOKED_AT = 32  #: so that records of the past that all overlap do not cost ever more


class Numbers:
    """Hands out low numbers that are free from a given time on.

    Every step is one operation under the interpreter lock, so no lock of our own is needed.
    """

    def __init__(self) -> None:
        self._free: list[int] = []
        self._new = itertools.count()
        self._busy_until: dict[int, int] = {}

    def take(self, start: int) -> int:
        """The lowest free number; a new one where none of the lowest LOOKED_AT is free."""
        skipped: list[int] = []
        number = -1
        try:
            while number < 0 and len(skipped) < LOOKED_AT:
                lowest = heapq.heappop(self._free)
                if self._busy_until[lowest] <= start:
                    number = lowest
                else:
                    skipped.append(lowest)
        except IndexError:  # none is left
            pass
        for other in skipped:
            heapq.heappush(self._free, other)
        return number if number >= 0 else next(self._new)

    def release(self, number: int, end: int) -> None:
        self._busy_until[number] = end
        heapq.heappush(self._free, number)


class Lane:
    def __init__(self, text: str) -> None:
        self.text = text
        self._chains = Numbers()
        self._slots = Numbers()
        self._slot_chain = -1

    def take_chain(self, start: int) -> int:
        """The packed row of depth 0 of a chain."""
        return self._chains.take(start) << CHAIN_SHIFT

    def release_chain(self, row: int, end: int) -> None:
        self._chains.release(row >> CHAIN_SHIFT, end)

    def take_slot(self, start: int) -> int:
        """The packed row of a slot."""
        if self._slot_chain < 0:
            self._slot_chain = self.take_chain(start)
        return self._slot_chain | self._slots.take(start)

    def release_slot(self, row: int, end: int) -> None:
        self._slots.release(row & DEPTH_MASK, end)


class Chain:
    """One thread's nested spans in one lane: the row of the next one, -1 while none is open."""

    __slots__ = ("lane", "row")

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.row = -1


class Chains(dict[int, Chain]):
    """A thread's chains by site; sites of one lane share one."""

    def __init__(self, lane_of: Sequence[Lane]) -> None:
        super().__init__()
        self._lane_of = lane_of
        self._by_lane: dict[Lane, Chain] = {}

    def __missing__(self, site: int) -> Chain:
        lane = self._lane_of[site]
        chain = self[site] = self._by_lane.setdefault(lane, Chain(lane))
        return chain

    def abandon(self) -> None:
        """Forgets all; rows still held stay so."""
        self.clear()
        self._by_lane.clear()


def row_text(lane: str, row: int) -> tuple[str, int]:
    """Lane as shown and depth; a further chain of a lane is shown as a lane of its own."""
    chain = row >> CHAIN_SHIFT
    return (f"{lane} ({chain + 1})" if chain else lane), row & DEPTH_MASK
