"""What tests of several rooms share: recorded spans, a clock that moves when told, span checks."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tracer.model.schema import SPAN_KINDS, SpanKind
from tracer.model.trace_folder import Flag
from tracer.record.clock import Clock, FakeClock
from tracer.record.drain import HomeReader, find_homes
from tracer.record.home import HOT_SUFFIX
from tracer.record.recorder import Recorder
from tracer.record.span_data import SpanData, decode

__all__ = ["FakeClock", "Recording", "SpanData", "check", "recorded"]


class Recording:
    """Recorders of one scratch folder and the spans that came out of their rings."""

    def __init__(self, scratch: Path, clock: Clock | None, detail: str = "op") -> None:
        self._scratch = scratch
        self._clock = clock
        self._detail = detail
        self._homes: list[HomeReader] = []
        self._spans: list[SpanData] = []
        self._recorders: list[Recorder] = []

    def add(self, task: str, ring_capacity: int = 512) -> Recorder:
        """A recorder for one more task."""
        recorder = Recorder(
            self._scratch,
            task,
            clock=self._clock,
            ring_capacity=ring_capacity,
            detail=self._detail,
        )
        self._recorders.append(recorder)
        return recorder

    @property
    def recorder(self) -> Recorder:
        """The first task's."""
        return self._recorders[0]

    def spans(self, *, at_end: bool = False) -> list[SpanData]:
        """All spans that ended so far, by start; at the end also those that never did."""
        self._homes += find_homes(self._scratch, {home.folder for home in self._homes})
        for home in [home for home in self._homes if not home.is_over]:
            self._spans += decode(home.take(at_end=at_end))
            home.release()
        return sorted(self._spans, key=lambda span: (span.start, -span.end))

    def of(self, kind: str) -> list[SpanData]:
        return [span for span in self.spans() if span.kind == kind]

    @property
    def num_recorded(self) -> int:
        return sum(home.num_recorded for home in self._homes)

    @property
    def num_rings(self) -> int:
        """Threads that recorded at the same time, at most."""
        return len({path.name.partition("-")[0] for path in self._scratch.glob(f"*/*{HOT_SUFFIX}")})


@contextmanager
def recorded(
    task: str = "worker:0", clock: Clock | None = None, detail: str = "op"
) -> Iterator[Recording]:
    """`with recorded() as recording:` records through real rings and decodes them in memory."""
    scratch = Path(tempfile.mkdtemp(prefix="vizdist-test-"))
    recording = Recording(scratch, clock, detail)
    recording.add(task)
    try:
        yield recording
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def check(spans: list[SpanData], slack_ns: int = 0) -> list[str]:
    """What is wrong with the spans of a run that ended well; empty: nothing."""
    by_id = {span.span: span for span in spans}
    wrong = [] if len(by_id) == len(spans) else ["two spans have one id"]
    for span in spans:
        wrong += [f"{span.kind} {span.name!r}: {fault}" for fault in _faults(span, by_id, slack_ns)]
    return wrong


def _faults(span: SpanData, by_id: Mapping[int, SpanData], slack_ns: int) -> Iterator[str]:
    kind = SPAN_KINDS[span.kind]
    for name in span.attributes:
        if not kind.allows(name):
            yield f"attribute {name} is not in the schema"
    if span.extra and not kind.extra:
        yield f"extra is {span.extra} but has no meaning for this kind"
    if span.end < span.start:
        yield f"ends {span.start - span.end} ns before it starts"
    if span.flags & Flag.UNFINISHED:
        yield "is unfinished"
    parent = by_id.get(span.parent)
    if span.parent and parent is None:
        yield "its parent was not recorded"
    if parent and _should_lie_in(kind, parent) and not _is_inside(span, parent, slack_ns):
        yield f"lies outside its parent {parent.kind} {parent.name!r}"
    if span.kind == "rendezvous.recv" and not span.flags & Flag.ERROR:
        yield from _link_faults(span, by_id)


def _should_lie_in(kind: SpanKind, parent: SpanData) -> bool:
    return kind.relation == "nested" and not SPAN_KINDS[parent.kind].hands_on


def _is_inside(span: SpanData, parent: SpanData, slack_ns: int) -> bool:
    return parent.start - slack_ns <= span.start and span.end <= parent.end + slack_ns


def _link_faults(recv: SpanData, by_id: Mapping[int, SpanData]) -> Iterator[str]:
    send = by_id.get(recv.link)
    if not recv.link:
        yield "completed without a link to its send"
    elif send is None or send.kind != "rendezvous.send":
        yield "its link does not lead to a recorded send"
    elif send.key != recv.key:
        yield f"has key {recv.key!r}, its send {send.key!r}"
