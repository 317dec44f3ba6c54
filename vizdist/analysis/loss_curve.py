"""How the loss went, step by step, per task that trains; and how well the model did at the end."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracer.model.metric import Metric
from vizdist.i18n import Lang, catalogue, t
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace

LOSS = "vizdist.loss"
POINTS = 1000  #: steps read from the span files at most, evenly spread; first and last always

Point = tuple[int, float]  #: step number, loss


@dataclass(frozen=True)
class LossCurve:
    """`lines` are the losses by task; `spans` the span behind each (task, step number)."""

    lines: Mapping[str, tuple[Point, ...]]
    spans: Mapping[tuple[str, int], int]
    metric: Metric | None

    @cached_property
    def mean(self) -> tuple[Point, ...]:
        """Of the newest loss of every task, step by step; () if no loss was recorded.

        So its last is the mean of their last ones, which is what the run itself prints.
        """
        losses = {(number, task): loss for task in self.lines for number, loss in self.lines[task]}
        newest: dict[str, float] = {}
        means: dict[int, float] = {}
        for number, task in sorted(losses):
            newest[task] = losses[number, task]
            means[number] = sum(newest.values()) / len(newest)
        return tuple(means.items())


def loss_curve(trace: Trace) -> LossCurve:
    roots = _shown(trace.all)
    lines: dict[str, list[Point]] = defaultdict(list)
    proof: dict[tuple[str, int], int] = {}
    for place, attributes in trace.told(roots).items():
        loss = attributes.get(LOSS)
        if isinstance(loss, float | int):
            task, number = trace.rows[int(trace.all.row[place])].task, int(trace.all.step[place])
            lines[task].append((number, float(loss)))
            proof[task, number] = int(trace.all.span[place])
    ordered = {task: tuple(sorted(lines[task])) for task in trace.tasks if task in lines}
    return LossCurve(ordered, proof, metric_of(trace))


def _shown(spans: Spans) -> Array:
    """Places of the steps that are read, of every task its first and last among them."""
    roots: Array = np.flatnonzero(spans.is_kind("session.run") & (spans.step > 0))
    roots = roots[np.argsort(spans.step[roots], kind="stable")]
    if len(roots) <= POINTS:
        return roots
    _, first = np.unique(spans.row[roots], return_index=True)
    _, last = np.unique(spans.row[roots][::-1], return_index=True)
    even = np.linspace(0, len(roots) - 1, POINTS).astype(int)
    shown: Array = roots[np.unique(np.concatenate([even, first, len(roots) - 1 - last]))]
    return shown


def metric_of(trace: Trace) -> Metric | None:
    """Of the last evaluation."""
    places = np.flatnonzero(trace.all.is_kind("train.evaluate"))
    if not len(places):
        return None
    last = int(places[np.argmax(trace.all.end[places])])
    told = trace.attributes([last]).get(last, {})
    name, value = told.get("vizdist.metric"), told.get("vizdist.metric.value")
    if isinstance(name, str) and isinstance(value, float | int):
        return Metric(name, float(value))
    return None


def metric_title(name: str, lang: Lang) -> str:
    """In the reader's language, as far as it has a word for it."""
    key = f"analysis.metric_title.{name}"
    return t(key, lang) if key in catalogue(lang) else name
