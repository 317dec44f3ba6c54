"""How the loss went, step by step, per task that trains; and how well the model did at the end."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vizdist.store.trace import Trace

LOSS, ACCURACY = "vizdist.loss", "vizdist.accuracy"
POINTS = 1000  #: steps read from the span files at most, evenly spread; first and last always

Point = tuple[int, float]  #: step number, loss


@dataclass(frozen=True, slots=True)
class LossCurve:
    """`lines` are the losses by task; `spans` the span behind each (task, step number)."""

    lines: Mapping[str, tuple[Point, ...]]
    spans: Mapping[tuple[str, int], int]
    accuracy: float | None

    @property
    def main(self) -> tuple[Point, ...]:
        """The line of the first task, () if no loss was recorded."""
        return next(iter(self.lines.values()), ())


def loss_curve(trace: Trace) -> LossCurve:
    spans = trace.all
    roots = np.flatnonzero(spans.is_kind("session.run") & (spans.step > 0))
    roots = roots[np.argsort(spans.step[roots], kind="stable")]
    if len(roots) > POINTS:
        roots = roots[np.unique(np.linspace(0, len(roots) - 1, POINTS).astype(int))]
    lines: dict[str, list[Point]] = defaultdict(list)
    proof: dict[tuple[str, int], int] = {}
    for place, attributes in trace.told(roots).items():
        loss = attributes.get(LOSS)
        if isinstance(loss, float | int):
            task, number = trace.rows[int(spans.row[place])].task, int(spans.step[place])
            lines[task].append((number, float(loss)))
            proof[task, number] = int(spans.span[place])
    ordered = {task: tuple(sorted(lines[task])) for task in trace.tasks if task in lines}
    return LossCurve(ordered, proof, _accuracy(trace))


def _accuracy(trace: Trace) -> float | None:
    """Of the last evaluation."""
    places = np.flatnonzero(trace.all.is_kind("train.evaluate"))
    if not len(places):
        return None
    last = int(places[np.argmax(trace.all.end[places])])
    value = trace.attributes([last]).get(last, {}).get(ACCURACY)
    return float(value) if isinstance(value, float | int) else None
