"""How far a run has come: what can be told of it while it runs, and what changed last."""

from dataclasses import dataclass

import numpy as np

from vizdist.analysis.loss_curve import LOSS
from vizdist.store.trace import ROOT_KIND, Trace


@dataclass(frozen=True, slots=True)
class Progress:
    """`spans` and `rows` are what a view of this moment holds; both only ever grow.

    `start` is ns since the epoch, `last` ns from there; `step` is the highest step that has ended,
    `of_steps` how many were asked for (0: not known); `loss` is the latest (step, loss).
    """

    spans: int
    rows: int
    start: int
    last: int
    step: int
    of_steps: int
    loss: tuple[int, float] | None


def progress(trace: Trace) -> Progress:
    ended = [step for step in trace.steps if step.is_whole]
    return Progress(
        spans=len(trace),
        rows=len(trace.rows),
        start=trace.start,
        last=trace.end - trace.start,
        step=max((step.number for step in ended), default=0),
        of_steps=trace.manifest.steps,
        loss=_latest_loss(trace),
    )


def _latest_loss(trace: Trace) -> tuple[int, float] | None:
    """Of the root span that ended last; a run that evaluates rarely has it in few of them."""
    spans = trace.all
    roots = np.flatnonzero(spans.is_kind(ROOT_KIND) & (spans.step > 0))
    for place in roots[np.argsort(spans.end[roots], kind="stable")][:-9:-1].tolist():
        loss = trace.attributes([place]).get(place, {}).get(LOSS)
        if isinstance(loss, float | int):
            return int(spans.step[place]), float(loss)
    return None
