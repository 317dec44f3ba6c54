"""Which steps of a run are worth holding in full where there is no room for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from vizdist.analysis.mechanisms.text_table import listed
from vizdist.analysis.steps import shown_step, step_numbers
from vizdist.analysis.summary import summarise
from vizdist.i18n import Lang
from vizdist.store.problems import TraceError
from vizdist.store.segments import Array
from vizdist.store.trace import Trace

USUAL_SPANS: Final = 20_000  #: steps are added until more would be held
MOST_SPANS: Final = 100_000  #: what may be asked for


@dataclass(frozen=True, slots=True)
class Held:
    """These steps of a run, and the places of their spans."""

    steps: tuple[int, ...]
    places: Array

    def said(self, lang: Lang) -> str:
        """The steps as people write them: 3, 7–9."""
        runs: list[list[int]] = []
        for number in self.steps:
            if runs and number == runs[-1][-1] + 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        return listed((f"{run[0]}–{run[-1]}" if run[1:] else str(run[0]) for run in runs), lang)

    def opening(self, trace: Trace) -> int | None:
        """The step that is shown first."""
        usual = shown_step(trace, None)
        return usual if usual in self.steps or not self.steps else self.steps[0]


def held_steps(trace: Trace, wanted: range | None) -> Held:
    """TraceError for steps that are too many, or none."""
    numbers = step_numbers(trace)
    if wanted is not None:
        chosen = [number for number in numbers if number in wanted]
        if not chosen:
            have = f"it holds steps {numbers[0]} to {numbers[-1]}" if numbers else "it holds none"
            raise TraceError(f"no step of {wanted[0]}-{wanted[-1]} is in this trace; {have}")
    else:
        chosen = _usual(trace, numbers)
    places = np.flatnonzero(np.isin(trace.all.step, chosen))
    if not numbers:
        places = np.arange(min(len(trace), USUAL_SPANS))
    if len(places) > MOST_SPANS:
        raise TraceError(_too_many(chosen, len(places)))
    return Held(tuple(chosen), places)


def _too_many(chosen: Sequence[int], num_spans: int) -> str:
    first, last = chosen[0], chosen[-1]
    who = f"step {first} has" if first == last else f"steps {first} to {last} have"
    way = "cut a part of it with vizdist import --between" if first == last else "ask for fewer"
    return (
        f"{who} {num_spans:,} spans, and a file may hold {MOST_SPANS:,}; {way}, or show the run "
        "with vizdist serve"
    )


def _usual(trace: Trace, numbers: Sequence[int]) -> list[int]:
    """The steps that the Summary speaks of, then the first ones, as far as there is room.

    The first may take more than that. A step that is too large gives way to those after it; where
    a file may hold none of them, the smallest is taken.
    """
    told = [shown_step(trace, None), *(said.step for said in summarise(trace).sentences)]
    first = [number for number in told if number is not None and number in numbers]
    counts = np.bincount(trace.all.step[trace.all.step > 0], minlength=max(numbers, default=0) + 1)
    chosen: list[int] = []
    room = USUAL_SPANS
    for number in dict.fromkeys([*first, *numbers]):
        if counts[number] <= (room if chosen else MOST_SPANS):
            room -= int(counts[number])
            chosen.append(number)
    return sorted(chosen) or sorted(numbers, key=lambda number: int(counts[number]))[:1]
