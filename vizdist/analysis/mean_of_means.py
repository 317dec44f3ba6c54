"""Why losses are scaled by the global batch: a mean of means is not the mean.

    replicas  of one step: the mean loss of each and how many examples it had
    workers   that step on their own: their losses in one step
    steps     where one loss a step is told: mean losses of batches of unequal size

The mean over all examples weighs each mean by its examples; the plain mean of the means does not.
"""

import math
from dataclasses import dataclass

import numpy as np

from vizdist.analysis.loss_curve import LOSS
from vizdist.analysis.who_saw_what import OUR_OWN, Data, Taken
from vizdist.store.trace import Trace

LOSSES = "vizdist.replica.losses"


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean loss over so many examples, of a replica (of a task) or of a step."""

    task: str
    number: int  #: of the replica or the step
    examples: int
    loss: float
    span: int


@dataclass(frozen=True, slots=True)
class Means:
    """`kind`: replicas, workers or steps. `means` are of what had examples, `empty` had none."""

    kind: str
    means: tuple[Mean, ...]
    empty: int = 0

    @property
    def examples(self) -> int:
        return sum(mean.examples for mean in self.means)

    @property
    def of_means(self) -> float:
        return sum(mean.loss for mean in self.means) / len(self.means)

    @property
    def of_examples(self) -> float:
        return sum(mean.loss * mean.examples for mean in self.means) / self.examples

    @property
    def is_even(self) -> bool:
        return len({mean.examples for mean in self.means}) == 1


def mean_of_means(trace: Trace, data: Data, step: int) -> Means | None:
    """Of replicas or workers in a step; else of the steps. None: no losses."""
    taken = data.by_step.get(step, ())
    losses = _losses(trace, data)
    several = [one for one in taken if len(one.parts) > 1]
    if several:
        found = [mean for one in several for mean in _of_replicas(one, losses)]
        empty = sum(not part.rows for one in several for part in one.parts)
        return Means("replicas", tuple(found), empty) if found else None
    if len(taken) > 1 and taken[0].effective == OUR_OWN and data.is_alone:
        return _means("workers", taken, losses)
    first = tuple(one for one in data.taken if one.task == data.tasks[0])
    return _means("steps", first, losses)


def _means(
    kind: str, taken: tuple[Taken, ...], losses: dict[tuple[str, int], tuple[str, float, int]]
) -> Means | None:
    found = []
    for one in taken:
        if one.global_batch and (told := losses.get((one.task, one.step))):
            _, loss, span = told
            is_step = kind == "steps"
            number, examples = (one.step, one.global_batch) if is_step else (0, one.rows)
            found.append(Mean(one.task, number, examples, loss, span))
    return Means(kind, tuple(found)) if found else None


def _of_replicas(one: Taken, losses: dict[tuple[str, int], tuple[str, float, int]]) -> list[Mean]:
    of_each, _, span = losses.get((one.task, one.step), ("", 0.0, 0))
    values = of_each.split(",")
    if len(values) != len(one.parts):
        return []
    return [
        Mean(one.task, part.replica, part.rows, loss, span)
        for part, value in zip(one.parts, values, strict=True)
        if part.rows and (loss := _number(value)) is not None
    ]


def _number(text: str) -> float | None:
    """None where a replica had no loss, or a file says what is no finite number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _losses(trace: Trace, data: Data) -> dict[tuple[str, int], tuple[str, float, int]]:
    """(task, step) → losses of its replicas, its loss, and the span that tells them."""
    spans = trace.all
    steps = np.array(sorted(data.by_step), np.int64)
    places = np.flatnonzero(spans.is_kind("session.run") & np.isin(spans.step, steps))
    found = {}
    for place, says in trace.attributes(places.tolist()).items():
        loss = says.get(LOSS)
        if isinstance(loss, float | int):
            key = trace.rows[int(spans.row[place])].task, int(spans.step[place])
            found[key] = str(says.get(LOSSES, "")), float(loss), int(spans.span[place])
    return found
