"""How far a run has come: what can be told of it while it runs, and what changed last."""

from dataclasses import dataclass

import numpy as np

from vizdist.analysis.loss_curve import LOSS
from vizdist.store.segments import Segment
from vizdist.store.trace import Trace

LOOKED_AT = 8  #: roots whose attributes are read in search of a loss


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
    """Looks at roots only, which every segment knows: no span of a long run is read again."""
    ended = [one for segment in trace.segments for one in _ended(segment)]
    return Progress(
        spans=len(trace),
        rows=len(trace.rows),
        start=trace.start,
        last=trace.end - trace.start,
        step=max(ended, default=0),
        of_steps=trace.manifest.steps,
        loss=_latest_loss(trace),
    )


def _ended(segment: Segment) -> list[int]:
    """The highest step of a segment that has ended; [] if none has."""
    steps = segment.ended.step[segment.ended.is_whole]
    return [int(steps.max())] if len(steps) else []


def _latest_loss(trace: Trace) -> tuple[int, float] | None:
    """Of the root that ended last and has one: a run may tell its loss now and then only."""
    latest: list[tuple[int, int, int]] = []
    first = 0
    for segment in trace.segments:
        ended = segment.ended
        most = min(LOOKED_AT, len(ended.end))
        at = np.argpartition(ended.end, -most)[-most:] if most else ended.place
        latest += zip(ended.end[at], ended.place[at] + first, ended.step[at], strict=True)
        first += len(segment)
    for _, found, number in sorted(latest, reverse=True)[:LOOKED_AT]:
        loss = trace.attributes([found]).get(int(found), {}).get(LOSS)
        if isinstance(loss, float | int):
            return int(number), float(loss)
    return None
