"""Examples against replicas: in which step each one got each, who threw it away, who got it twice.

All examples of a small data set are in it; of a large one those of a single step.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from vizdist.analysis.who_saw_what import Data, Part, Row

MOST_EXAMPLES = 96
LEVELS = 4  #: of darkness, from the first step to the last


@dataclass(frozen=True, slots=True)
class Cell:
    """The last step up to the shown one in which a replica got an example, else the first after.

    `level` grows with the step; `times` counts all of them; `is_twice`: others got it in that step
    too, or this one got it more than once in it.
    """

    step: int
    level: int
    times: int
    is_twice: bool
    is_now: bool
    span: int


@dataclass(frozen=True, slots=True)
class Grid:
    """`cells` and `discarded` (step) by row and example; examples in neither are nobody's."""

    examples: tuple[int, ...]
    rows: tuple[Row, ...]
    cells: dict[tuple[Row, int], Cell]
    discarded: dict[tuple[Row, int], int]
    left_out: int  #: examples of the step that there is no room for
    is_whole: bool  #: every example of the data set that was seen is here

    @property
    def unseen(self) -> tuple[int, ...]:
        seen = {example for _, example in (*self.cells, *self.discarded)}
        return tuple(example for example in self.examples if example not in seen)


def example_grid(data: Data, step: int) -> Grid:
    seen = {i for part in data.parts for i in part.ids or ()}
    seen |= {i for one in data.taken for i in one.discarded or ()}
    is_whole = bool(seen) and len(seen) <= MOST_EXAMPLES
    if is_whole:
        is_dense = max(seen) - min(seen) < MOST_EXAMPLES and not data.is_window
        is_dense = is_dense and data.num_seen is not None
        every = range(min(seen), max(seen) + 1) if is_dense else sorted(seen)
        examples, left_out = tuple(every), 0
    else:
        wanted = _of_step(data, step)
        examples, left_out = wanted[:MOST_EXAMPLES], max(0, len(wanted) - MOST_EXAMPLES)
    rows = tuple(data.rows)
    cells = _cells(data, step, frozenset(examples))
    thrown = _discarded(data, step)
    thrown = {p: at for p, at in thrown.items() if p not in cells and p[1] in set(examples)}
    return Grid(examples, rows, cells, thrown, left_out, is_whole)


def _of_step(data: Data, step: int) -> tuple[int, ...]:
    found: set[int] = set()
    for one in data.by_step.get(step, ()):
        found.update(one.discarded or (), *(part.ids or () for part in one.parts))
    return tuple(sorted(found))


def _cells(data: Data, step: int, wanted: frozenset[int]) -> dict[tuple[Row, int], Cell]:
    got: dict[tuple[Row, int], list[Part]] = defaultdict(list)
    for part in data.parts:
        for example in part.ids or ():
            if example in wanted:
                got[part.row, example].append(part)
    shared = twice(data.parts)
    chosen = {place: _nearest(parts, step) for place, parts in got.items()}
    steps = sorted({part.step for part in chosen.values()})
    level = {number: LEVELS * at // len(steps) for at, number in enumerate(steps)}
    return {
        place: Cell(
            part.step,
            level[part.step],
            len(got[place]),
            (part.step, place[1]) in shared,
            part.step == step,
            part.span,
        )
        for place, part in chosen.items()
    }


def _nearest(parts: Iterable[Part], step: int) -> Part:
    ordered = sorted(parts, key=lambda part: part.step)
    before = [part for part in ordered if part.step <= step]
    return before[-1] if before else ordered[0]


def twice(parts: Iterable[Part]) -> frozenset[tuple[int, int]]:
    """(step, example) of those that one step trained more than once."""
    counts = Counter((part.step, example) for part in parts for example in part.ids or ())
    return frozenset(place for place, count in counts.items() if count > 1)


def _discarded(data: Data, step: int) -> dict[tuple[Row, int], int]:
    """Step by row and example, in the first row of the worker that threw it away."""
    first_row = {task: min(row for row in data.rows if row[0] == task) for task, _ in data.rows}
    found: dict[tuple[Row, int], int] = {}
    for one in data.taken:
        for example in one.discarded or ():
            place = first_row[one.task], example
            if place not in found or one.step <= step:
                found[place] = one.step
    return found
