"""How far a run has come: what can be told of it while it runs, and what changed last."""

from dataclasses import dataclass

from vizdist.analysis.loss_curve import LOSS
from vizdist.store.segments import LATEST
from vizdist.store.trace import Trace


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
    """Asks what every segment remembers: no span of a long run is read again."""
    return Progress(
        spans=len(trace),
        rows=len(trace.rows),
        start=trace.start,
        last=trace.end - trace.start,
        step=max((segment.ended.step for segment in trace.segments), default=0),
        of_steps=trace.manifest.steps,
        loss=_latest_loss(trace),
    )


def _latest_loss(trace: Trace) -> tuple[int, float] | None:
    """Of the root that ended last and has one: a run may tell its loss now and then only."""
    latest: list[tuple[int, int, int]] = []
    first = 0
    for segment in trace.segments:
        latest += [(end, place + first, step) for end, place, step in segment.ended.latest]
        first += len(segment)
    for _, place, step in sorted(latest, reverse=True)[:LATEST]:
        loss = trace.attributes([place]).get(place, {}).get(LOSS)
        if isinstance(loss, float | int):
            return step, float(loss)
    return None
