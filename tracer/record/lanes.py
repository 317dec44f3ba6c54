"""Rows of the timeline: no two spans that overlap get the same one.

A lane is a named group of rows of a task (`executor CPU:0`, `recv`). Spans nested on a thread form
a *chain*: one row a nesting depth. Two threads at once in one lane get two chains. Spans that may
end on any thread take the lowest *slot* that is free in the lane instead; all slots are one chain.
A row is packed into 32 bits: chain << 16 | depth or slot.
"""

import itertools
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

CHAIN_SHIFT = 16
DEPTH_MASK = 0xFFFF
LOOKED_AT = 32  #: so that records of the past that all overlap do not cost ever more


class Numbers:
    """Hands out low numbers that are free from a given time on.

    `take(start)` gives the lowest free one, a new one where none of the lowest LOOKED_AT is free;
    `release(number, end)` gives it back. They are closures: they run for every span. Each step of
    theirs is one operation under the interpreter lock, so no lock of our own is needed.
    """

    __slots__ = ("release", "take")

    def __init__(self, new: Callable[[int], int]) -> None:
        """`new(start)` makes a number that was never given out."""
        free: list[int] = []
        busy_until: dict[int, int] = {}

        def take(start: int) -> int:
            try:
                lowest = heappop(free)
            except IndexError:
                return new(start)
            return lowest if busy_until[lowest] <= start else search(start, lowest)

        def search(start: int, busy: int) -> int:
            """For a span of the past: the lowest free numbers were busy then."""
            skipped = [busy]
            number = -1
            while number < 0 and free and len(skipped) < LOOKED_AT:
                try:
                    lowest = heappop(free)
                except IndexError:  # another thread took the last
                    break
                if busy_until[lowest] <= start:
                    number = lowest
                else:
                    skipped.append(lowest)
            for other in skipped:
                heappush(free, other)
            return number if number >= 0 else new(start)

        def release(number: int, end: int) -> None:
            busy_until[number] = end
            heappush(free, number)

        self.take: Callable[[int], int] = take
        self.release: Callable[[int, int], None] = release


class Lane:
    """`take_chain` and `take_slot` give packed rows, a chain's being that of depth 0."""

    __slots__ = ("_slot_chain", "release_chain", "release_slot", "take_chain", "take_slot", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        chain_numbers, slot_numbers = itertools.count(), itertools.count()
        chains = Numbers(lambda _: next(chain_numbers) << CHAIN_SHIFT)
        slots = Numbers(lambda start: self._chain_of_slots(start) | next(slot_numbers))
        self._slot_chain = -1
        self.take_chain, self.release_chain = chains.take, chains.release
        self.take_slot, self.release_slot = slots.take, slots.release

    def _chain_of_slots(self, start: int) -> int:
        if self._slot_chain < 0:
            self._slot_chain = self.take_chain(start)
        return self._slot_chain


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
