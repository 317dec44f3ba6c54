"""When a GPU did what: events on its streams, read after the step and told in the host's time.

A device counts time for itself, from no beginning, and drifts against the host by some millionths.
An *anchor* is an event of an idle stream with the host's time around it. One is taken when the
device comes up and one when it goes; between them come more, each when the line has grown to twice
its length, from a thread that no step waits for. Times between two anchors are read off the line
through the first and the last one. A reading is a float of milliseconds, so it is only taken from
an anchor close by. On an idle stream an event is passed as soon as it is recorded, so the first op
there begins with its launch.

    times = DeviceTimes(recorder, stream.record, site)
    begun = stream.record(); …launch…; ended = stream.record()
    times.add(Timed(site, ctx, launched_ns, begun, ended))
    mark = times.mark()          # the step is launched …
    times.settle(mark)           # … and its stream has come to its end: spans
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from tracer.model.step import SpanContext
from tracer.record.recorder import Recorder

LOOKS: Final = 5  #: events an anchor is the best of
MOST_LOOKS: Final = 25  #: where the host is so busy that all of them are bad
GOOD_ERROR_NS: Final = 20_000
FIRST_LINE_NS: Final = 100_000_000  #: after which the second anchor is due
LONGEST_GAP_NS: Final = 10_000_000_000  #: a float of so many ms still tells one microsecond


class Event(Protocol):
    def synchronize(self) -> None: ...

    def elapsed_time(self, end_event: Any) -> float: ...


class Timed(NamedTuple):
    """Work on a stream: its span's site and context, when it was launched, where it lies."""

    site: int
    context: SpanContext
    launched: int
    begun: Event
    ended: Event
    num_bytes: int = 0
    extra: int = 0
    key: int = 0


class _Anchor(NamedTuple):
    event: Event
    host: int
    error: int  #: ns by which `host` may be wrong
    device: int  #: ns of device time since the first anchor


class DeviceClock:
    """Reads events of one device in the host's ns. `now` reads the host, `tick` makes an event."""

    def __init__(self, now: Callable[[], int], tick: Callable[[], Event]) -> None:
        self._now = now
        self._tick = tick
        self._first: _Anchor | None = None
        self._last: _Anchor | None = None

    def anchor(self) -> None:
        event, host, error = self._best_look()
        if self._last is None:
            self._first = self._last = _Anchor(event, host, error, 0)
            return
        passed = self._last.device + _ns(self._last.event.elapsed_time(event))
        self._last = _Anchor(event, host, error, passed)

    def _best_look(self) -> tuple[Event, int, int]:
        best = self._look()
        for number in range(2, MOST_LOOKS + 1):
            if number > LOOKS and best[2] <= GOOD_ERROR_NS:
                break
            best = min(best, self._look(), key=lambda seen: seen[2])
        return best

    def _look(self) -> tuple[Event, int, int]:
        before = self._now()
        event = self._tick()
        event.synchronize()
        after = self._now()
        return event, (before + after) // 2, (after - before + 1) // 2

    @property
    def is_due(self) -> bool:
        """Whether the line should be drawn anew."""
        if self._first is None or self._last is None:
            return True
        line = self._last.host - self._first.host
        since = self._now() - self._last.host
        return since >= min(max(line, FIRST_LINE_NS), LONGEST_GAP_NS)

    @property
    def drift(self) -> float:
        """How many ns more the host counts while the device counts one.

        0 while the line is too short to tell that from the errors of its ends.
        """
        if self._first is None or self._last is None or not self._last.device:
            return 0.0
        more = self._last.host - self._first.host - self._last.device
        is_told = abs(more) > self._first.error + self._last.error
        return more / self._last.device if is_told else 0.0

    @property
    def error_ns(self) -> int:
        return self._last.error if self._last is not None else 0

    def read(self, event: Event) -> int:
        if self._last is None:
            self.anchor()
        assert self._last is not None
        since = self._last.event.elapsed_time(event) * 1e6
        return self._last.host + round(since * (1.0 + self.drift))


class DeviceTimes:
    """What was timed on the streams of one device and waits to be told.

    Work is added on any thread; `settle` and `anchor` are called on one thread alone.
    """

    def __init__(self, recorder: Recorder, tick: Callable[[], Event], site: int) -> None:
        """`tick` makes an event on a stream that nothing else uses; `site` is of the anchors.

        0 is that of anchors that are not recorded: then none is taken.
        """
        self._recorder = recorder
        self._site = site
        self._clock = DeviceClock(recorder.now, tick)
        self._waiting: deque[Timed] = deque()
        self._adding = threading.Lock()
        self._num_added = self._num_settled = 0
        self.anchor()

    def add(self, timed: Timed) -> None:
        if not timed.site:  # it is not recorded either
            return
        with self._adding:
            self._waiting.append(timed)
            self._num_added += 1

    def mark(self) -> int:
        """How much was added so far, told before the stream is asked for an end of it."""
        return self._num_added

    def settle(self, mark: int) -> None:
        """Tells what was added up to a mark, whose streams have come to the end of it."""
        record, read = self._recorder.writer().record, self._clock.read
        while self._num_settled < mark and self._waiting:
            site, context, launched, begun, ended, num_bytes, extra, key = self._waiting.popleft()
            self._num_settled += 1
            start = read(begun)
            end = start + _ns(begun.elapsed_time(ended))
            record(site, context, start, end, launched, num_bytes, key, extra=extra)

    def drop(self, mark: int) -> None:
        """Forgets what was added up to a mark: its device has failed."""
        while self._num_settled < mark and self._waiting:
            self._waiting.popleft()
            self._num_settled += 1

    def anchor_if_due(self) -> None:
        if self._clock.is_due:
            self.anchor()

    def anchor(self) -> None:
        if not self._site:
            return
        start = self._recorder.now()
        self._clock.anchor()
        writer = self._recorder.writer()
        span = self._recorder.new_span()
        told = {
            "vizdist.clock.error_ns": self._clock.error_ns,
            "vizdist.clock.drift_ppb": round(self._clock.drift * 1e9),
        }
        self._recorder.annotate(span, told)
        writer.record(self._site, self._recorder.run, start, self._recorder.now(), span=span)


def _ns(milliseconds: float) -> int:
    return round(milliseconds * 1e6)
